"""One-line builders for tests over any catalog: names, intents, cuts from texts, and a worker that indexes a text under a uri.

A text is cut at its lines; a line's fake vector is drawn from its hash, so equal inputs have equal vectors.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import xxhash

from indexer.plan import plan_document
from store.catalog.memory import MemoryCatalog
from store.catalog.sqlite import SqliteCatalog
from store.clock import SimulatedClock, new_session_id
from store.model import (
    Absent,
    Build,
    BuildId,
    Cause,
    Chunk,
    ChunkId,
    Collection,
    CollectionId,
    CollectionName,
    Committed,
    ContentHash,
    Cut,
    DocumentId,
    Failed,
    Indexed,
    InputHash,
    Instant,
    Layout,
    LeasedDocument,
    Metadata,
    Namespace,
    Outcome,
    Placement,
    Present,
    Recipe,
    RecipeId,
    Recorded,
    Root,
    RootName,
    Signature,
    SourceKind,
    Space,
    SpaceId,
    TextHash,
    Unchanged,
    Urgency,
    Vanished,
    Verdict,
    Version,
)
from store.ports import Catalog

ADAPTERS = ("memory", "sqlite")
HOME = CollectionId(Namespace("default"), CollectionName("main"))
NOTES = RootName("notes")
DIMENSIONS = 4
LEASE_SECONDS = 10.0
NOTHING = Recorded()


def open_adapter(adapter: str, folder: Path, clock: SimulatedClock) -> Catalog:
    """An empty catalog of that adapter."""
    return MemoryCatalog(clock) if adapter == "memory" else SqliteCatalog.open(folder, clock)


def furnish(catalog: Catalog, home: CollectionId = HOME) -> Collection:
    """Creates the collection with its first root."""
    collection = catalog.ensure_collection(home, recipe(), space())
    catalog.ensure_root(root(home=home))
    return collection


# --- names --------------------------------------------------------------------------------------------------


def document(uri: str = "a.md", home: CollectionId = HOME) -> DocumentId:
    return home.document(uri)


def home_of(namespace: str = "default", collection: str = "main") -> CollectionId:
    return CollectionId(Namespace(namespace), CollectionName(collection))


def root(name: str = "notes", prefix: str = "", path: str = "/srv/notes", home: CollectionId = HOME, device: int | None = 1) -> Root:
    return Root(home, RootName(name), SourceKind.FOLDER, path, prefix, device)


def recipe(name: str = "recipe-1") -> Recipe:
    return Recipe(RecipeId(name), {"splitter": "lines"})


def space(name: str = "space-1", dimensions: int = DIMENSIONS) -> Space:
    return Space(SpaceId(name), "fake", "lines", dimensions)


def signature(number: int = 1) -> Signature:
    return Signature(number, number * 1_000, number, 1)


def content_hash(text: str) -> ContentHash:
    return ContentHash(xxhash.xxh3_128_digest(text.encode()))


# --- intents ------------------------------------------------------------------------------------------------


def present(
    uri: str = "a.md",
    *,
    moved_from: str | None = None,
    content: str | None = None,
    metadata: Metadata | None = None,
    acl: tuple[str, ...] | None = None,
    noticed_at: float = 0.0,
    urgency: Urgency = Urgency.FRESH,
    root: str = NOTES,
    sign: Signature | None = None,
    home: CollectionId = HOME,
) -> Present:
    return Present(
        document=document(uri, home),
        root=RootName(root),
        cause=Cause.MODIFIED if moved_from is None else Cause.MOVED,
        noticed_at=Instant(noticed_at),
        urgency=urgency,
        signature=sign,
        moved_from=None if moved_from is None else document(moved_from, home),
        content_hash=None if content is None else content_hash(content),
        metadata=metadata,
        acl=acl,
    )


def absent(uri: str = "a.md", home: CollectionId = HOME) -> Absent:
    return Absent(document(uri, home), Cause.DELETED, Instant(0.0))


# --- texts, chunks, cuts ------------------------------------------------------------------------------------


def text_hash(text: str) -> TextHash:
    return TextHash(xxhash.xxh3_128_digest(text.encode()))


def input_hash(text: str, prefix: str = "") -> InputHash:
    return InputHash(xxhash.xxh3_128_digest((prefix + text).encode()))


def vector_of(key: InputHash, dimensions: int = DIMENSIONS) -> bytes:
    """A fake vector: float32, little endian, the same for the same input."""
    draw = random.Random(key)
    return struct.pack(f"<{dimensions}f", *(draw.uniform(-1, 1) for _ in range(dimensions)))


def chunks_of(of: DocumentId, text: str, prefix: str = "") -> tuple[Chunk, ...]:
    """One chunk a line that is not blank, identified by (document, text, n-th occurrence)."""
    seen: Counter[str] = Counter()
    chunks, start = [], 0
    for line in text.split("\n"):
        if line.strip():
            name = f"{of.namespace}\0{of.collection}\0{of.uri}\0{seen[line]}\0{line}"
            chunk_id = ChunkId(xxhash.xxh3_128_digest(name.encode()))
            chunks.append(Chunk(chunk_id, text_hash(line), seen[line], input_hash(line, prefix), start, start + len(line), line))
            seen[line] += 1
        start += len(line) + 1
    return tuple(chunks)


def layout_of(chunks: Sequence[Chunk]) -> Layout:
    return Layout(tuple(Placement(chunk.chunk_id, chunk.start, chunk.end, chunk.metadata) for chunk in chunks))


def cut_of(
    build: Build,
    of: DocumentId,
    text: str,
    recorded: Recorded = NOTHING,
    moved_from: Recorded = NOTHING,
    *,
    metadata: Metadata | None = None,
    vectors: Mapping[InputHash, bytes] | None = None,
    prefix: str = "",
) -> Cut:
    """The cut of `text` planned from what is recorded; brings every vector of the plan unless `vectors` says which."""
    chunks = chunks_of(of, text, prefix)
    plan = plan_document(recorded.chunks, chunks, moved_from.chunks)
    brought = {chunk.input_hash: vector_of(chunk.input_hash, build.space.dimensions) for chunk in plan.add}
    return Cut(
        build_id=build.build_id,
        planned_from=recorded.version,
        plan=plan,
        layout=layout_of(chunks),
        text=text,
        title=None,
        media_type="text/plain",
        language="en",
        metadata=dict(metadata or {}),
        vectors=brought if vectors is None else vectors,
    )


# --- a worker -----------------------------------------------------------------------------------------------


class Worker:
    """A session that leases documents and commits what it is told their texts are."""

    def __init__(self, catalog: Catalog, clock: SimulatedClock) -> None:
        self.catalog, self.clock = catalog, clock
        self.session_id = new_session_id(clock)
        catalog.open_session(self.session_id, "worker", 1, clock.now())

    def lease(self, uri: str = "a.md", home: CollectionId = HOME) -> LeasedDocument:
        leased = self.try_lease(uri, home)
        assert leased is not None, f"{uri} wants no work or is leased"
        return leased

    def try_lease(self, uri: str = "a.md", home: CollectionId = HOME) -> LeasedDocument | None:
        found = self.catalog.lease([document(uri, home)], self.session_id, self.clock.now(), LEASE_SECONDS)
        return found[0] if found else None

    def cuts(self, leased: LeasedDocument, text: str, *, prefix: str = "", builds: Sequence[Build] | None = None) -> tuple[Cut, ...]:
        """A cut for each build of the collection, planned from what is recorded now; embeds only what is missing."""
        return tuple(self._cut(leased, text, build, prefix) for build in builds or self._builds(leased))

    def indexed(
        self,
        leased: LeasedDocument,
        text: str,
        *,
        sign: Signature | None = None,
        proven: bool = True,
        prefix: str = "",
        builds: Sequence[Build] | None = None,
    ) -> Indexed:
        """The outcome of loading `text` for a leased document."""
        cuts = self.cuts(leased, text, prefix=prefix, builds=builds)
        moved_from_version = Version(0)
        if leased.moved_from is not None:
            moved_from_version = self._recorded(leased.moved_from, self._builds(leased)[0]).version
        return Indexed(
            document=leased.document,
            version=leased.wanted_version,
            fence=leased.fence,
            content_hash=content_hash(text),
            signature=sign,
            proven=proven,
            cuts=cuts,
            moved_from=leased.moved_from,
            moved_from_version=moved_from_version,
            embedded=sum(len(cut.vectors) for cut in cuts),
            own_metadata=leased.metadata,
        )

    def unchanged(self, leased: LeasedDocument, text: str, build_ids: tuple[BuildId, ...] = ()) -> Unchanged:
        return Unchanged(leased.document, leased.wanted_version, leased.fence, content_hash(text), None, True, build_ids)

    def failed(self, leased: LeasedDocument, retry_at: float | None = None, embedded: int = 0) -> Failed:
        when = None if retry_at is None else Instant(retry_at)
        return Failed(leased.document, leased.wanted_version, leased.fence, "text_undecodable", "The bytes are not text.", when, embedded)

    def vanished(self, leased: LeasedDocument) -> Vanished:
        return Vanished(leased.document, leased.wanted_version, leased.fence, self.clock.now())

    def commit(self, *outcomes: Outcome) -> list[Verdict]:
        return self.catalog.commit(self.session_id, outcomes, self.clock.now())

    def commit_one(self, outcome: Outcome) -> Verdict:
        return self.commit(outcome)[0]

    def finish(self, uri: str, text: str, home: CollectionId = HOME, *, prefix: str = "") -> Committed:
        """Leases a document that waits and commits `text` as what it holds."""
        verdict = self.commit_one(self.indexed(self.lease(uri, home), text, prefix=prefix))
        assert isinstance(verdict, Committed), verdict
        return verdict

    def index(self, uri: str, text: str, home: CollectionId = HOME, **intent: object) -> Committed:
        """Indexes `text` under `uri`: notices it, leases it, commits it."""
        self.catalog.record([present(uri, home=home, **intent)])  # type: ignore[arg-type]
        return self.finish(uri, text, home)

    def _builds(self, leased: LeasedDocument) -> tuple[Build, ...]:
        collection = self.catalog.collection(leased.document.home)
        assert collection is not None
        return collection.builds

    def _recorded(self, of: DocumentId, build: Build) -> Recorded:
        return self.catalog.recorded([(of, build)])[0]

    def _cut(self, leased: LeasedDocument, text: str, build: Build, prefix: str) -> Cut:
        recorded = self._recorded(leased.document, build)
        moved = Recorded() if leased.moved_from is None else self._recorded(leased.moved_from, build)
        inputs = {chunk.input_hash for chunk in chunks_of(leased.document, text, prefix)}
        missing = self.catalog.missing(leased.document.home, build.space, inputs)
        vectors = {key: vector_of(key, build.space.dimensions) for key in missing}
        return cut_of(build, leased.document, text, recorded, moved, vectors=vectors, prefix=prefix)


# --- reading ------------------------------------------------------------------------------------------------


def texts(catalog: Catalog, home: CollectionId = HOME) -> dict[str, str]:
    """What is visible now: the text of each document by uri."""
    with catalog.snapshot() as snapshot:
        return {visible.document.uri: visible.text for visible in snapshot.documents(home)}


def chunk_texts(catalog: Catalog, uri: str, home: CollectionId = HOME) -> list[str]:
    """The texts of a document's visible chunks, as a query reads them, in order."""
    with catalog.snapshot() as snapshot:
        ids = [place.chunk_id for visible in snapshot.documents(home, [document(uri, home)]) for place in visible.layout.placements]
        return [chunk.text for chunk in snapshot.chunks(home, ids) if chunk is not None]


def tally(catalog: Catalog, name: str, **labels: str) -> float:
    wanted = (name, tuple(sorted(labels.items())))
    return sum(tally.value for tally in catalog.tallies() if (tally.name, tally.labels) == wanted)


def outcomes(catalog: Catalog, outcome: str) -> float:
    return tally(catalog, "evercurrent_documents_total", outcome=outcome)
