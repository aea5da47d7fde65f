"""The ports of the catalog: what every adapter promises, checked by one contract suite (tests/contract/test_catalog_contract.py).

Writers are split by who may call them: `Ledger` (indexer), `Leases` and `Commits` (workers), `Builds` (wiring, timers).
Readers get `CatalogReader` and its `Snapshot`, which have no write methods.
Vectors cross these ports as bytes (float32, little endian), so that nothing here needs numpy.
"""

from __future__ import annotations

from collections.abc import Collection as Several
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from store.model import (
    Build,
    Change,
    ChunkId,
    Collection,
    CollectionId,
    ContentHash,
    DocumentId,
    DocumentState,
    DocumentStatus,
    InputHash,
    Instant,
    Intent,
    LeasedDocument,
    Namespace,
    Outcome,
    PendingDocument,
    Position,
    Recipe,
    Recorded,
    Root,
    RootName,
    SessionId,
    Sighting,
    Space,
    Verdict,
    Version,
    VisibleChunk,
    VisibleDocument,
)

# --- values that only cross ports ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Session:
    """A process that holds leases: one row, one heartbeat."""

    session_id: SessionId
    role: str
    pid: int
    beat_at: Instant


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers for `status`, of one collection."""

    states: Mapping[DocumentState, int]
    chunks: int
    oldest_pending_at: Instant | None


@dataclass(frozen=True, slots=True)
class DocumentPage:
    documents: tuple[DocumentStatus, ...]
    cursor: str | None
    """Hand it back for the next page; None at the end."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something `check` found. `code` is stable: see deploy/RUNBOOK.md."""

    code: str
    document: DocumentId | None
    detail: str


@dataclass(frozen=True, slots=True)
class RecordedVector:
    """A visible chunk with its vector, as the replica loads it. `vector` is empty for a chunk kept without one."""

    chunk_id: ChunkId
    document: DocumentId
    vector: bytes


@dataclass(frozen=True, slots=True)
class Changes:
    """Documents that changed after a cursor, up to the snapshot.

    `rebuild`: the collection serves another build by now, or is another one of that name, made since."""

    position: Position
    documents: tuple[DocumentId, ...]
    rebuild: bool = False


@dataclass(frozen=True, slots=True)
class Tally:
    """A counter that survives restarts, added inside the transaction it counts. `labels` are sorted pairs."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    value: float = field(default=0.0, compare=False)


# --- writers ------------------------------------------------------------------------------------------------


class Ledger(Protocol):
    """Pending work, durably. Every call is one transaction (large batches: several), durable when it returns."""

    def record(self, intents: Sequence[Intent]) -> list[Version | None]:
        """Makes the intents the wanted state, in order, and returns each document's wanted version (None: nothing to want).

        Absent *is* its commit: the document's chunks die and a change-log row is written in the same transaction, and a lease
        held by a worker is worth nothing afterwards. Absent of an unknown or already absent document, or by a root
        that does not own it, changes nothing; nor does a rename take another root's document away.
        Present of a document that another root owns sets nothing of it and returns None. A file's or bucket's is kept as a claim (state
        `conflict`) until its root says absent or ignored; an upload's is not (HTTP asks first, and refuses). When the owner's document
        leaves, the oldest claim becomes a wanted present of its root in the same transaction (cause created). A `moved_from` of the
        claimant leaves all the same: its file is gone.
        Present by a root that is being or was removed sets nothing and returns None.
        Present with a `moved_from` that is visible keeps the old uri served until the move is committed; a chain of moves
        collapses to its visible start. Present with the wanted content hash (uploads) keeps its version, unless it names another media
        type than the recorded one. Permissions that come with another content, or with a renamed file, are shown with that content:
        until its commit the text before stays under its own, and loses at once whom the new ones (of an upload) do not name.
        Held marks without touching what is served. Seen updates the signature and lets a held document go.
        Described changes the source's own metadata and permissions of what is served in the same transaction; the version stays, and so
        do chunks and vectors, what the loader found, and the work of whoever indexes it meanwhile. Of an unknown or deleted document it
        sets nothing and returns None. Raises MetadataRejected when the merged metadata would exceed the limits: nothing of the batch's
        transaction is recorded.
        """
        ...

    def pending(self, limit: int, now: Instant) -> list[PendingDocument]:
        """Documents that want work now (wanted > indexed or a build missing; retry_at reached; not quarantined; no live lease), by
        urgency, then oldest notice. Within an urgency namespaces take turns, so that one with a backlog leaves room for the others."""
        ...

    def sightings(self, root: Root, prefix: str = "") -> Iterable[Sighting]:
        """What the ledger remembers of `root` below the uri prefix, tombstones left out, in uri order (bytes).

        Its claims of documents that another root owns are among them, with state CONFLICT and no content hash."""
        ...

    def retry(self, documents: Sequence[DocumentId] | None, home: CollectionId, now: Instant) -> int:
        """Puts quarantined documents (all of `home` when None) back to pending; returns how many."""
        ...

    def add_tallies(self, tallies: Sequence[Tally]) -> None:
        """Adds to counters outside a commit (calls made for work that failed)."""
        ...


class Roots(Protocol):
    """Roots and who owns a document. The first root of a collection has no prefix."""

    def roots(self, home: CollectionId | None = None) -> list[Root]: ...

    def ensure_root(self, root: Root) -> Root:
        """Records the root; idempotent by (home, path). Returns the recorded one, whose prefix and name may differ.

        Uploads share the uris of the other roots: of their prefix nobody is asked. Raises Misuse when the name, or another root's
        prefix, is taken by another path, or when the root is being removed.
        """
        ...

    def remove_root(self, home: CollectionId, name: RootName, now: Instant) -> int:
        """Takes every document of the root off the index, as Absent does, and its claims; then the name, path and prefix are free.

        Many short transactions: from the first one on the root is not listed and takes no documents; what a crash leaves goes when the
        call (or the sweep) comes again. Held documents go as well. Returns the documents removed by this call, ignored ones not
        counted. Raises Misuse for an unknown root, and one that is removed already; UnknownCollection.
        """
        ...


class Uploads(Protocol):
    """Which uploaded contents the ledger wants: of documents that are wanted present, whether they are indexed or not."""

    def wanted_blob(self, document: DocumentId) -> ContentHash | None:
        """The content that an upload wants this document to show; None for a document of another source, or none at all."""
        ...

    def wanted_blobs(self, namespace: Namespace, contents: Sequence[ContentHash]) -> set[ContentHash]:
        """Those of `contents` that some document of the namespace wants: the rest may be swept."""
        ...


class Leases(Protocol):
    """Sessions and leases. Not durable at once (a power cut may free a lease; the fence still protects)."""

    def open_session(self, session_id: SessionId, role: str, pid: int, now: Instant) -> None: ...

    def beat(self, session_id: SessionId, now: Instant) -> bool:
        """Returns False when the session was ended by someone: stop working."""
        ...

    def end_session(self, session_id: SessionId) -> None:
        """Frees all its leases at once. Idempotent."""
        ...

    def sessions(self) -> list[Session]: ...

    def lease(self, documents: Sequence[DocumentId], session_id: SessionId, now: Instant, lease_seconds: float) -> list[LeasedDocument]:
        """Leases those that still want work and are under no live lease of another session, each with a new, higher fence."""
        ...

    def leased(self, now: Instant, lease_seconds: float) -> set[DocumentId]:
        """Documents under a live lease: the session exists and its beat is younger than `lease_seconds`."""
        ...


class Commits(Protocol):
    """What a worker reads to plan, and the only commit point of a present document."""

    def recorded(self, documents: Sequence[tuple[DocumentId, Build]]) -> list[Recorded]:
        """What is visible of each document in that build, now; `Recorded()` when nothing is."""
        ...

    def missing(self, home: CollectionId, space: Space, inputs: Several[InputHash]) -> set[InputHash]:
        """Those whose vector the namespace does not hold in `space` (neither recorded nor staged)."""
        ...

    def stage(self, session_id: SessionId, home: CollectionId, space: Space, vectors: Mapping[InputHash, bytes]) -> None:
        """Keeps vectors for a commit to come: invisible, swept when the session has ended and no chunk refers to them. Idempotent."""
        ...

    def commit(self, session_id: SessionId, outcomes: Sequence[Outcome], now: Instant) -> list[Verdict]:
        """Carries out the outcomes in one durable transaction: each is checked by itself, a refused one is left out, the rest land.

        Refused only if: the fence is old (or the lease is another session's); a version at or above its own is indexed in all builds;
        the records it was planned from changed; the document is now wanted absent; a vector it refers to is gone. A newer wanted
        *present* does not refuse. A document's lease ends with its outcome, accepted or refused.
        """
        ...

    def sweep(self, now: Instant, retention_seconds: float, lease_seconds: float) -> int:
        """Removes what no row and no live session refers to, and dead rows older than the retention. Short transactions. Returns rows."""
        ...


class Builds(Protocol):
    """Collections and their builds."""

    def ensure_collection(self, home: CollectionId, recipe: Recipe, space: Space) -> Collection:
        """Creates the collection with this (recipe, space) served; or, when another is served, starts growing this one beside it
        (an already growing other one is given up). Every document then wants work. Idempotent."""
        ...

    def collection(self, home: CollectionId) -> Collection | None: ...

    def collections(self) -> list[Collection]: ...

    def switch(self, home: CollectionId, now: Instant) -> bool:
        """Serves the growing build, when no document of the collection still wants work for it; one commit, one change-log row.

        False, too, while a held or quarantined document is served in the old space alone: the switch would lose it.
        """
        ...

    def namespaces(self) -> list[Namespace]:
        """Those that have a collection, by name."""
        ...

    def drop_collection(self, home: CollectionId, now: Instant) -> int:
        """Removes the collection with everything in it, for good: documents, tombstones, claims, texts, the vectors that no other
        collection of the namespace needs, aliases, roots, builds, its change log. Nothing is kept for the retention window.

        The first transaction takes it out of every call; the rest follows in short ones, by the next call (or the sweep) after a
        crash. The name can be used again at once: what comes then has keys, builds and a log of its own. Leases in it are worth
        nothing, and a late commit is refused. A follower with a cursor in it sees the head move and the collection missing
        (UnknownCollection), or, when the name is used again, `Changes.rebuild`. A snapshot that is open goes on seeing it.
        Returns the documents removed by this call, tombstones and ignored ones not counted; 0 for one that is unknown. Idempotent.
        """
        ...


# --- readers ------------------------------------------------------------------------------------------------


class CatalogReader(Protocol):
    """A reader's door: no write methods."""

    def position(self) -> Position:
        """The head of the change log: cheap enough for every query."""
        ...

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Pins all that is visible at one seq. May be long (a replica's first load); many may be open."""
        ...

    def tallies(self) -> list[Tally]: ...

    def counts(self, home: CollectionId) -> Counts: ...

    def documents(
        self, home: CollectionId, cursor: str | None = None, limit: int = 1000, states: Several[DocumentState] = ()
    ) -> DocumentPage:
        """Ledger rows in uri order, tombstones only when asked for. A claim is a row of its own, after its document's: state CONFLICT, the
        claimant's root, code `owned_by_source`, and a message that names the owner. A uri is a cursor, too: what comes after its rows."""
        ...

    def status_of(self, document: DocumentId) -> DocumentStatus | None:
        """The owner's row; claims are in the pages alone."""
        ...


class Snapshot(Protocol):
    """All that is visible at one position, in the served builds. Permissions are those of now."""

    @property
    def position(self) -> Position: ...

    def changes(self, since: Position, home: CollectionId) -> Changes:
        """Raises CursorLapsed when the log no longer reaches back to `since` or the incarnation differs."""
        ...

    def documents(self, home: CollectionId, only: Sequence[DocumentId] | None = None) -> Iterator[VisibleDocument]:
        """Visible documents, all in uri order or those of `only` that are visible, in its order."""
        ...

    def vectors(self, home: CollectionId, only: Sequence[DocumentId] | None = None) -> Iterator[RecordedVector]:
        """Visible chunks with their vectors."""
        ...

    def chunks(self, home: CollectionId, chunk_ids: Sequence[ChunkId]) -> list[VisibleChunk | None]:
        """Each chunk if it is visible, in the order asked: the last step of every query."""
        ...

    def log(self, home: CollectionId, since: Position) -> Iterator[Change]:
        """Change-log rows after `since`, with what each did: the summary of a pass."""
        ...


class CatalogAudit(Protocol):
    def findings(self) -> Iterator[Finding]:
        """Contradictions inside the catalog, at one snapshot; work in flight is none. Reads everything."""
        ...


class Catalog(Ledger, Roots, Uploads, Leases, Commits, Builds, CatalogReader, CatalogAudit, Protocol):
    """All of it: what `open_catalog` returns. Rooms ask for the part they need."""

    def close(self) -> None: ...
