"""Chooses the retriever's parts from the configuration: catalog, replicas, embedders, bell. The only place here that does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from indexer.embedding.port import Embedder
from indexer.embedding.wiring import embedder_of
from retriever.follow import CollectionReader, Replicas
from retriever.premises import Premises, claim_premises
from retriever.search import Searcher, SearchLimits
from store.bell import Bell, Listener, Topic
from store.broker import find_broker
from store.catalog.sqlite import SqliteCatalog
from store.clock import Clock, SystemClock
from store.config import Config, EmbeddingTable
from store.errors import EmbedderRefused
from store.folder import DataFolder, prepare_folder
from store.model import Space, SpaceId

WARMING_TEXT = "evercurrent"


class QueryEmbedders:
    """One embedder a space, made when a query first needs it. Thread-safe."""

    def __init__(self, table: EmbeddingTable) -> None:
        self._table = table
        self._making = threading.Lock()
        self._made: dict[SpaceId, Embedder] = {}

    def __call__(self, space: Space) -> Embedder:
        """Raises EmbedderRefused when this installation cannot make the space."""
        with self._making:
            made = self._made.get(space.space_id)
            if made is None:
                made = self._made[space.space_id] = embedder_of(space, self._table)
            return made

    def warm(self, space: Space) -> None:
        """Loads what would make the first query slow; asks no service, and leaves what cannot be made for the query to tell."""
        if space.provider == "local":
            with contextlib.suppress(EmbedderRefused):
                self(space).embed_query(WARMING_TEXT)

    def close(self) -> None:
        for embedder in self._made.values():
            embedder.close()


@dataclass(frozen=True, slots=True)
class Parts:
    """What a retriever process consists of."""

    catalog: CollectionReader
    replicas: Replicas
    searcher: Searcher
    embedders: QueryEmbedders
    premises: Premises
    bell: Bell
    clock: Clock

    def listener(self) -> Listener:
        return self.bell.listen(Topic.COMMIT)


@contextmanager
def opened_parts(data: Path, config: Config) -> Iterator[Parts]:
    """The parts over the data folder, closed in order when the block ends.

    Raises CatalogNewer, CatalogUnwritable, CatalogFull, CatalogCorrupt.
    """
    clock, folder = SystemClock(), DataFolder(data)
    prepare_folder(folder)
    catalog = SqliteCatalog.open(data, clock, config.store.write_lock_seconds_max)
    premises = claim_premises(folder.retriever)
    replicas = Replicas(catalog, premises.keywords, clock, config.retriever.behind_seconds_max)
    embedders = QueryEmbedders(config.indexer.embedding)
    bell = Bell(_broker_url(data, config), clock)
    pause = threading.Event().wait
    try:
        searcher = Searcher(catalog, replicas, embedders, limits_of(config), clock, pause)
        yield Parts(catalog, replicas, searcher, embedders, premises, bell, clock)
    finally:
        for close in (replicas.close, embedders.close, bell.close, premises.leave, catalog.close):
            close()


@contextmanager
def open_local(data: Path, config: Config) -> Iterator[Searcher]:
    """The same searcher in this process, for a command when no retriever runs."""
    with opened_parts(data, config) as parts:
        yield parts.searcher


def limits_of(config: Config) -> SearchLimits:
    return SearchLimits(
        acl=config.store.acl,
        dense_weight=config.retriever.dense_weight,
        fetch_k=config.retriever.fetch_k,
        k_max=config.retriever.k_max,
        patience_seconds=config.retriever.behind_seconds_max,
    )


def _broker_url(data: Path, config: Config) -> str | None:
    given = config.store.redis_url
    return find_broker(data, given.get_secret_value() if given is not None else None)
