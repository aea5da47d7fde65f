"""Chooses the adapters of a worker process from the configuration. The only place in this room that does."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from indexer.embedding.port import Embedder
from indexer.embedding.wiring import embedder_of
from indexer.fields import Fields, own_fields
from indexer.sandbox.parent import Sandbox
from indexer.sources.folder import Fetched
from indexer.sources.places import fetch_from, is_surely_gone
from indexer.uploads import FetchedUpload, blob_folder, fetch_upload
from store.bell import Bell, Topic
from store.blobs.folder import BlobFolder
from store.catalog.sqlite import SqliteCatalog
from store.clock import Clock
from store.config import Config
from store.folder import DataFolder
from store.model import CollectionId, LeasedDocument, SessionId, SourceKind, Space, SpaceId
from store.ports import Catalog
from workers.draft import NO_FIELDS, Fetch
from workers.lease import WorkerSession
from workers.sync import Bench

SPACES_WARM_MAX = 4
"""Embedders kept loaded: the served build's, a growing one's, and those of other collections."""


def open_catalog(data: Path, config: Config, clock: Clock) -> Catalog:
    return SqliteCatalog.open(DataFolder(data).path, clock, config.store.write_lock_seconds_max)


def url_given(config: Config) -> str | None:
    """The queue server that the configuration names, if it does."""
    given = config.store.redis_url
    return None if given is None else given.get_secret_value()


@contextmanager
def open_bench(
    data: Path, config: Config, clock: Clock, session_id: SessionId, bell: Bell, passes_through: tuple[type[BaseException], ...]
) -> Iterator[Bench]:
    """Opens what a worker needs, with its session beating; closes all of it at the end."""
    catalog = open_catalog(data, config, clock)
    try:
        with Sandbox(config.indexer.load, clock) as sandbox, WorkerSession(catalog, session_id, clock, config.workers.lease_seconds):
            yield Bench(
                catalog=catalog,
                clock=clock,
                session_id=session_id,
                fetch=fetcher(config, clock, blob_folder(DataFolder(data), config, clock)),
                is_gone=lambda leased: is_surely_gone(leased.root, leased.document.uri, config.indexer.buckets),
                embedder_of=embedders(config),
                draw=random.Random(session_id).random,
                lease_seconds=config.workers.lease_seconds,
                attempts_max=config.workers.attempts_max,
                batch_texts_max=config.indexer.embedding.batch_texts_max,
                committed=lambda: bell.ring(Topic.COMMIT),
                leave=lambda: os.kill(os.getpid(), signal.SIGTERM),
                load=sandbox.load,
                fields_of=fields_of(config),
                passes_through=passes_through,
            )
    finally:
        catalog.close()


def fields_of(config: Config) -> Callable[[CollectionId], Fields]:
    """What the configuration declares of a collection's documents."""
    by_name = {name: own_fields(table.fields) for name, table in config.indexer.collections.items()}
    return lambda home: by_name.get(home.collection, NO_FIELDS)


def fetcher(config: Config, clock: Clock, blobs: BlobFolder) -> Fetch:
    bytes_max = config.indexer.document_bytes_max

    def fetch_document(leased: LeasedDocument) -> Fetched | FetchedUpload:
        if leased.root.kind is SourceKind.UPLOADS:
            return fetch_upload(blobs, leased, bytes_max)
        return fetch_from(leased.root, leased.document.uri, bytes_max, clock, config.indexer.buckets)

    return fetch_document


def embedders(config: Config) -> Callable[[Space], Embedder]:
    """Embedders by space, each built once and kept warm."""
    warm: dict[SpaceId, Embedder] = {}

    def of_space(space: Space) -> Embedder:
        embedder = warm.pop(space.space_id, None) or embedder_of(space, config.indexer.embedding)
        warm[space.space_id] = embedder
        if len(warm) > SPACES_WARM_MAX:
            warm.pop(next(iter(warm))).close()
        return embedder

    return of_space
