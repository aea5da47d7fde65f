"""Builds what a retriever reads: a catalog that is written as indexer and workers write it, and a searcher over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indexer.embedding.hashing import HashingEmbedder
from indexer.embedding.port import Embedder
from indexer.embedding.spaces import space_of
from indexer.identity import content_hash, identify, layout_of
from indexer.plan import plan_document
from retriever.follow import CollectionReader, Replicas
from retriever.search import SearchAnswer, Searcher, SearchLimits
from store.clock import Clock, SystemClock, new_session_id
from store.config import EmbeddingTable
from store.model import (
    Absent,
    Build,
    Cause,
    CollectionId,
    CollectionName,
    Committed,
    Cut,
    DocumentId,
    Indexed,
    LoadedText,
    Namespace,
    Piece,
    Present,
    Recipe,
    RecipeId,
    Root,
    RootName,
    SourceKind,
    Space,
)
from store.ports import Catalog

MAIN = CollectionId(Namespace("default"), CollectionName("main"))
OPEN_LIMITS = SearchLimits(acl=False, dense_weight=0.6, fetch_k=100, k_max=1000, patience_seconds=5.0)


def hashing_space() -> Space:
    space = space_of(EmbeddingTable(provider="hashing"))
    assert space is not None
    return space


@dataclass
class Library:
    """Writes documents of one collection: each paragraph is a chunk; a line that begins with `# ` heads those after it."""

    catalog: Catalog
    home: CollectionId = MAIN
    space: Space = field(default_factory=hashing_space)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.catalog.ensure_collection(self.home, Recipe(RecipeId("paragraphs")), self.space)
        self.root = self.catalog.ensure_root(Root(self.home, RootName("docs"), SourceKind.FOLDER, f"/docs/{self.home.collection}", ""))
        self.session = new_session_id(self.clock)
        self.catalog.open_session(self.session, "worker", 1, self.clock.now())

    def document(self, uri: str) -> DocumentId:
        return self.home.document(uri)

    def put(self, uri: str, text: str, *, metadata: Mapping[str, Any] | None = None, acl: tuple[str, ...] | None = None) -> int:
        """Makes the text visible in every build of the collection; returns the seq of the commit."""
        document, now = self.document(uri), self.clock.now()
        self.catalog.record([Present(document, self.root.name, Cause.UPLOADED, now, metadata=metadata or {}, acl=acl)])
        (leased,) = self.catalog.lease([document], self.session, now, 60)
        collection = self.catalog.collection(self.home)
        assert collection is not None
        cuts = tuple(self._cut(document, text, build, metadata or {}) for build in collection.builds)
        indexed = Indexed(document, leased.wanted_version, leased.fence, content_hash(text.encode()), None, False, cuts)
        (verdict,) = self.catalog.commit(self.session, [indexed], now)
        assert isinstance(verdict, Committed), verdict
        return self.catalog.position().seq

    def delete(self, uri: str) -> None:
        self.catalog.record([Absent(self.document(uri), Cause.DELETED, self.clock.now())])

    def _cut(self, document: DocumentId, text: str, build: Build, metadata: Mapping[str, Any]) -> Cut:
        (recorded,) = self.catalog.recorded([(document, build)])
        chunks = identify(document, LoadedText(text, "text/plain"), list(_pieces(text)))
        plan = plan_document(recorded.chunks, chunks)
        vectors = embedder_of(build.space).embed_documents([chunk.text for chunk in plan.add])
        return Cut(
            build_id=build.build_id,
            planned_from=recorded.version,
            plan=plan,
            layout=layout_of(chunks),
            text=text,
            title=text.split("\n", 1)[0][:40] or None,
            media_type="text/plain",
            language="en",
            metadata=metadata,
            vectors={chunk.input_hash: vector for chunk, vector in zip(plan.add, vectors, strict=True)},
        )


def _pieces(text: str) -> Iterator[tuple[Piece, dict[str, Any]]]:
    start, headings = 0, []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("# "):
            headings = [paragraph[2:]]
        elif paragraph.strip():
            yield Piece(start, start + len(paragraph)), {"headings": headings} if headings else {}
        start += len(paragraph) + 2


def embedder_of(space: Space) -> Embedder:
    """Every space of these tests is made by the same function; only its name differs."""
    return HashingEmbedder(space)


@contextmanager
def searching(
    catalog: CollectionReader,
    folder: Path,
    *,
    limits: SearchLimits = OPEN_LIMITS,
    embedder: Callable[[Space], Embedder] = embedder_of,
    wait: Callable[[float], object] = lambda _: None,
) -> Iterator[Desk]:
    """A searcher over `catalog`, its keyword files in `folder`."""
    clock = SystemClock()
    replicas = Replicas(catalog, folder, clock, limits.patience_seconds)
    try:
        yield Desk(Searcher(catalog, replicas, embedder, limits, clock, wait), replicas)
    finally:
        replicas.close()


@dataclass(frozen=True)
class Desk:
    searcher: Searcher
    replicas: Replicas

    def ask(self, query: str | None = None, home: CollectionId = MAIN, principals: tuple[str, ...] = (), **body: Any) -> SearchAnswer:
        request = self.searcher.parsed({**({"query": query} if query is not None else {}), **body})
        return self.searcher.search(home, request, frozenset(principals))

    def found(self, query: str | None = None, home: CollectionId = MAIN, **body: Any) -> list[str]:
        """The documents of the hits, best first."""
        return [hit.chunk.document.uri for hit in self.ask(query, home, **body).hits]
