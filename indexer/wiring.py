"""Chooses the indexer's parts from the configuration: catalog, rules, builds, feeder. The only place in this room that does.

Nothing heavy is imported before it is asked for: `sync` and `plan` come here when nothing changed.
"""

from __future__ import annotations

import difflib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from indexer.embedding.spaces import space_of
from indexer.ignore import Rules
from indexer.recipe import recipe_of
from store.catalog.sqlite import SqliteCatalog
from store.errors import ConfigWrong, Transient
from store.model import Build, BuildId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from indexer.feeding import Feeder
    from indexer.queue import JobQueue
    from store.clock import Clock
    from store.config import Config, EmbeddingTable
    from store.folder import DataFolder
    from store.model import Collection, CollectionId, Recipe, Space
    from store.ports import Catalog

BULK_JOBS_RESERVED = 2


def open_catalog(folder: DataFolder, config: Config, clock: Clock) -> Catalog:
    """The catalog of the data folder, created when it is missing. Raises CatalogNewer, CatalogUnwritable, CatalogFull, CatalogCorrupt."""
    return SqliteCatalog.open(folder.path, clock, config.store.write_lock_seconds_max)


def rules_of(config: Config, folder: DataFolder) -> Rules:
    """What is looked at: the configuration's patterns, and never the index itself."""
    own = {str(folder.path), str(Path(folder.path).resolve())}
    table = config.indexer
    return Rules(
        table.include, table.exclude, tuple(sorted(own)), {name: (root.include, root.exclude) for name, root in table.roots.items()}
    )


def warn_of_unused_roots(config: Config, names: Iterable[str]) -> tuple[str, ...]:
    """A sentence, and a log event, for each table `indexer.roots.NAME` that is of no root called so."""
    known = sorted(set(names))
    sentences = []
    for name in sorted(config.indexer.roots.keys() - set(known)):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        structlog.get_logger().warning("root_settings_unused", root=name, nearest=near[0] if near else None)
        sentences.append(f"indexer.roots.{name}: there is no root {name!r}{hint}")
    return tuple(sentences)


def wanted_build(config: Config, recorded: Collection | None) -> tuple[Recipe, Space]:
    """The recipe and space that the configuration means now. Probes the provider (one call) only when nothing recorded can tell."""
    splits = config.indexer
    recipe = recipe_of(splits.split, root_splits={name: splits.split_of(name) for name in splits.roots})
    table = config.indexer.embedding
    check_endpoint(table)
    space = space_of(table)
    if space is None and recorded is not None:
        known = (space_of(table, probed_dimensions=build.space.dimensions) for build in recorded.builds)
        recorded_ids = {build.space.space_id for build in recorded.builds}
        space = next((space for space in known if space is not None and space.space_id in recorded_ids), None)
    if space is None:
        space = _probed_space(config)
    return recipe, space


def check_endpoint(table: EmbeddingTable) -> None:
    """Raises ConfigWrong for an endpoint or key that no request can be made with; a failing call would blame the network."""
    if table.provider != "openai":
        return
    if table.base_url is not None and not table.base_url.startswith(("http://", "https://")):
        key = "indexer.embedding.base_url"
        raise ConfigWrong(reason=f"{key}: the endpoint's URL begins with http:// or https://.", key=key)
    secret = "" if table.api_key is None else table.api_key.get_secret_value()
    if not (secret.isascii() and secret.isprintable()):
        key = "indexer.embedding.api_key"
        raise ConfigWrong(reason=f"{key}: a key is printable ASCII on one line; this one has other characters.", key=key)


def ensure_wanted(catalog: Catalog, config: Config, home: CollectionId) -> Collection:
    """The collection with the configured build served, or growing beside the served one. Writes nothing when it is so already."""
    recorded = catalog.collection(home)
    recipe, space = wanted_build(config, recorded)
    if recorded is not None:
        newest = recorded.builds[-1]
        if (newest.recipe.recipe_id, newest.space.space_id) == (recipe.recipe_id, space.space_id):
            return recorded
    return catalog.ensure_collection(home, recipe, space)


def probe_provider(config: Config, space: Space) -> None:
    """One call to an endpoint before work for it starts: a wrong key or model is said at once, by EmbedderRefused.

    An endpoint that merely does not answer now is left to the workers' retries.
    """
    table = config.indexer.embedding
    if table.provider != "openai":
        return
    from indexer.embedding.openai import Endpoint
    from indexer.embedding.spaces import base_url_of

    endpoint = Endpoint(
        base_url=base_url_of(table),
        model=space.model,
        dimensions=table.dimensions,
        api_key=table.api_key,
        timeout_seconds=table.timeout_seconds,
    )
    try:
        endpoint.probe()
    except Transient as error:
        structlog.get_logger().warning("embedder_unprobed", code=error.code, reason=error.message)
    finally:
        endpoint.close()


def planned_builds(config: Config, recorded: Collection | None) -> tuple[Build, ...]:
    """The builds that `ensure_wanted` would leave, without writing; one that is not recorded yet has the id 0."""
    recipe, space = wanted_build(config, recorded)
    new = Build(BuildId(0), recipe, space)
    if recorded is None:
        return (new,)
    for build in recorded.builds:
        if (build.recipe.recipe_id, build.space.space_id) == (recipe.recipe_id, space.space_id):
            return recorded.builds if build is recorded.builds[-1] else (recorded.served,)
    return recorded.served, new


@contextmanager
def open_feeder(catalog: Catalog, config: Config, redis_url: str, clock: Clock) -> Iterator[tuple[Feeder, JobQueue]]:
    """The feeder of this catalog over the queue at `redis_url`, and the queue it fills. One a catalog: hold `DataFolder.feeder_lock`."""
    from indexer.feed import FeedLimits
    from indexer.feeding import Feeder
    from indexer.queue import JobQueue

    queue = JobQueue(redis_url, clock)
    limits = FeedLimits(
        workers=config.workers.count,
        job_documents_max=config.indexer.job_documents_max,
        jobs_ahead=config.indexer.queue_jobs_ahead * config.workers.count,
        jobs_reserved=BULK_JOBS_RESERVED,
    )
    lease_seconds = config.workers.lease_seconds
    try:
        yield Feeder(queue, catalog.pending, lambda now: catalog.leased(now, lease_seconds), limits), queue
    finally:
        queue.close()


def _probed_space(config: Config) -> Space:
    from indexer.embedding.wiring import embedder_for

    embedder = embedder_for(config.indexer.embedding)
    try:
        return embedder.space
    finally:
        embedder.close()
