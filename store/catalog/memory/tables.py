"""The memory catalog's rows and the moves they make together: a seq is taken, rows die, a change is logged, a tombstone stands.

Callers hold `Tables.lock`. Rows of versions and chunks are only ever marked dead or removed by the sweep, so a snapshot at
seq S goes on seeing those with born <= S < died.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from store.catalog.tallying import outcome_tallies
from store.clock import Clock
from store.errors import UnknownCollection
from store.model import (
    Build,
    BuildId,
    Cause,
    Change,
    ChangeKind,
    Chunk,
    ChunkId,
    Collection,
    CollectionId,
    ContentHash,
    DocumentId,
    DocumentState,
    Fence,
    InputHash,
    Instant,
    Layout,
    Metadata,
    Namespace,
    Root,
    RootName,
    Seq,
    SessionId,
    Signature,
    SpaceId,
    Urgency,
    Version,
)
from store.ports import Session, Tally

NO_VERSION, NO_FENCE, NEVER = Version(0), Fence(0), Instant(0.0)

VectorKey = tuple[Namespace, SpaceId, InputHash]


@dataclass(slots=True)
class VersionRow:
    """A document version in one build."""

    version: Version
    born: Seq
    title: str | None
    media_type: str
    language: str | None
    metadata: Metadata
    content_hash: ContentHash
    layout: Layout
    text: str
    indexed_at: Instant
    own_metadata: Metadata = field(default_factory=dict)
    """The source's own, shown over what the loader found."""
    died: Seq | None = None

    @property
    def shown_metadata(self) -> dict[str, Any]:
        return {**self.metadata, **self.own_metadata}


@dataclass(slots=True)
class ChunkRow:
    chunk: Chunk
    born: Seq
    died: Seq | None = None


@dataclass(slots=True)
class VectorRow:
    vector: bytes
    staged_by: SessionId | None
    """The session that staged it, until a commit refers to it."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A present intent that no commit has served yet."""

    version: Version
    at: Instant


@dataclass(slots=True)
class DocumentRow:
    """The ledger's row of a document, its tombstone included."""

    document: DocumentId
    root: RootName
    wanted: bool = False
    wanted_version: Version = NO_VERSION
    indexed: dict[BuildId, Version] = field(default_factory=dict)
    mark: DocumentState | None = DocumentState.DELETED
    """Why nothing is to be done whatever the versions say: deleted, ignored, held or quarantined."""
    urgency: Urgency = Urgency.BULK
    cause: Cause = Cause.CREATED
    noticed_at: Instant = NEVER
    notices: list[Notice] = field(default_factory=list)
    attempts: int = 0
    retry_at: Instant | None = None
    code: str | None = None
    message: str | None = None
    signature: Signature | None = None
    proven: bool = False
    content_hash: ContentHash | None = None
    wanted_hash: ContentHash | None = None
    own_metadata: Metadata | None = None
    acl: tuple[str, ...] | None = None
    moved_from: DocumentId | None = None
    moving_to: DocumentId | None = None
    session_id: SessionId | None = None
    lease_seconds: float = 0.0
    fence: Fence = NO_FENCE
    leased_version: Version = NO_VERSION
    """The wanted one when the lease was taken."""
    media_type: str | None = None
    waiting_acl: tuple[Version, tuple[str, ...] | None] | None = None
    """Permissions that are shown with the commit of that version or a later one."""

    @property
    def wanted_acl(self) -> tuple[str, ...] | None:
        """The permissions of the document as it is wanted."""
        return self.acl if self.waiting_acl is None else self.waiting_acl[1]

    def forget_failures(self) -> None:
        self.attempts, self.retry_at, self.code, self.message = 0, None, None, None


@dataclass(frozen=True, slots=True)
class Claim:
    """A document of a root whose uri another root owns."""

    document: DocumentId
    root: RootName
    noticed_at: Instant
    cause: Cause
    signature: Signature | None


@dataclass(slots=True)
class CollectionRow:
    home: CollectionId
    served: Build
    born: Seq
    """Head of the change log when it was created: an older cursor knew another one."""
    growing: Build | None = None

    @property
    def builds(self) -> tuple[Build, ...]:
        return self.value.builds

    @property
    def value(self) -> Collection:
        return Collection(self.home, self.served, self.growing)


class Tables:
    """Everything the catalog remembers."""

    def __init__(self, clock: Clock) -> None:
        self.lock = RLock()
        self.clock = clock
        self.incarnation = clock.new_id()
        self.seq = Seq(0)
        self.log_floor = Seq(0)
        self.version = Version(0)
        self.fence = Fence(0)
        self.spaces: dict[BuildId, SpaceId] = {}
        self.collections: dict[CollectionId, CollectionRow] = {}
        self.roots: list[Root] = []
        self.left_roots: set[tuple[CollectionId, RootName]] = set()
        self.claims: list[Claim] = []
        """Oldest first."""
        self.documents: dict[DocumentId, DocumentRow] = {}
        self.versions: defaultdict[tuple[DocumentId, BuildId], list[VersionRow]] = defaultdict(list)
        self.chunks: defaultdict[tuple[DocumentId, BuildId], list[ChunkRow]] = defaultdict(list)
        self.holders: defaultdict[ChunkId, set[DocumentId]] = defaultdict(set)
        self.vectors: dict[VectorKey, VectorRow] = {}
        self.log: list[Change] = []
        self.aliases: dict[DocumentId, DocumentId] = {}
        self.sessions: dict[SessionId, Session] = {}
        self.tallies: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self.pins: Counter[Seq] = Counter()

    # --- numbers --------------------------------------------------------------------------------------------

    def next_seq(self) -> Seq:
        self.seq = Seq(self.seq + 1)
        return self.seq

    def next_version(self) -> Version:
        self.version = Version(self.version + 1)
        return self.version

    def next_fence(self) -> Fence:
        self.fence = Fence(self.fence + 1)
        return self.fence

    def add_tallies(self, tallies: Iterable[Tally]) -> None:
        for tally in tallies:
            if tally.value:
                self.tallies[tally.name, tally.labels] += tally.value  # type: ignore[assignment]

    # --- looking up -----------------------------------------------------------------------------------------

    def collection(self, home: CollectionId) -> CollectionRow:
        row = self.collections.get(home)
        if row is None:
            raise UnknownCollection(namespace=home.namespace, collection=home.collection)
        return row

    def documents_of(self, home: CollectionId) -> Iterator[DocumentRow]:
        return (row for document, row in self.documents.items() if document.home == home)

    def living_version(self, document: DocumentId, build_id: BuildId) -> VersionRow | None:
        rows = self.versions.get((document, build_id), ())
        return next((row for row in rows if row.died is None), None)

    def living_chunks(self, document: DocumentId, build_id: BuildId) -> list[ChunkRow]:
        return [row for row in self.chunks.get((document, build_id), ()) if row.died is None]

    def is_visible(self, document: DocumentId) -> bool:
        """Something of the document lives, in whichever build."""
        return any(self.living_version(document, build.build_id) for build in self.collection(document.home).builds)

    def wants_work(self, row: DocumentRow) -> bool:
        return row.wanted and row.mark is None and not self.is_indexed(row, row.wanted_version)

    def is_indexed(self, row: DocumentRow, version: Version) -> bool:
        """A version at or above `version` is indexed in every build of the collection."""
        return all(row.indexed.get(build.build_id, 0) >= version for build in self.collection(row.document.home).builds)

    def indexed_version(self, row: DocumentRow) -> Version:
        return row.indexed.get(self.collection(row.document.home).served.build_id, Version(0))

    def state(self, row: DocumentRow) -> DocumentState:
        if row.mark is not None:
            return row.mark
        if row.moving_to is None and not self.is_indexed(row, row.wanted_version):
            return DocumentState.PENDING
        version = self.living_version(row.document, self.collection(row.document.home).served.build_id)
        return DocumentState.EMPTY if version is not None and not version.layout.placements else DocumentState.INDEXED

    # --- moves ----------------------------------------------------------------------------------------------

    def log_metadata(self, row: DocumentRow, now: Instant, seq: Seq) -> None:
        version = self.indexed_version(row)
        self.log.append(Change(seq, now, ChangeKind.METADATA, row.document.home, row.document, version))

    def die(self, document: DocumentId, seq: Seq) -> int:
        """All that lives of the document dies at `seq`; returns how many chunks of the served build."""
        collection = self.collection(document.home)
        dropped = len(self.living_chunks(document, collection.served.build_id))
        for build in collection.builds:
            version = self.living_version(document, build.build_id)
            if version is not None:
                version.died = seq
            for chunk in self.living_chunks(document, build.build_id):
                chunk.died = seq
        return dropped

    def free(self, row: DocumentRow) -> None:
        """Makes any lease on the document worthless."""
        row.fence, row.session_id = self.next_fence(), None

    def stay(self, row: DocumentRow) -> None:
        """The document does not leave for another uri any more: the other one becomes a copy."""
        if row.moving_to is not None:
            self.documents[row.moving_to].moved_from = None
            row.moving_to = None

    def bury(self, row: DocumentRow, now: Instant, *, counted: bool = True) -> Version:
        """The deletion of a document, and of the one it waits to be moved from: rows die, the tombstone outranks work in flight.

        Another root that claims the uri takes the tombstone's place.
        """
        origin = row.moved_from
        visible = self.is_visible(row.document)
        version = self.bury_silently(row)
        if visible:
            seq = self.next_seq()
            dropped = self.die(row.document, seq)
            self.log.append(Change(seq, now, ChangeKind.DELETED, row.document.home, row.document, version, dropped=dropped))
            if counted:
                self.add_tallies(outcome_tallies("deleted"))
        self.hand_over(row, now)
        if origin is not None:
            self.bury(self.documents[origin], now)
        return version

    def hand_over(self, tombstone: DocumentRow, now: Instant) -> None:
        """The oldest claim becomes a wanted present, where there is one."""
        heir = next((claim for claim in self.claims if claim.document == tombstone.document), None)
        if heir is None:
            return
        self.claims.remove(heir)
        tombstone.root, tombstone.wanted, tombstone.mark, tombstone.cause = heir.root, True, None, Cause.CREATED
        tombstone.wanted_version, tombstone.urgency, tombstone.noticed_at = self.next_version(), Urgency.FRESH, now
        tombstone.notices = [Notice(tombstone.wanted_version, now)]
        tombstone.signature = heir.signature

    def withdraw(self, document: DocumentId, root: RootName) -> None:
        """The root claims the document no more."""
        self.claims = [claim for claim in self.claims if (claim.document, claim.root) != (document, root)]

    def bury_silently(self, row: DocumentRow) -> Version:
        """Makes the ledger row a tombstone; what is visible of the document is the caller's business."""
        self.stay(row)
        if row.moved_from is not None:
            self.documents[row.moved_from].moving_to = None
        version = self.next_version()
        tombstone = DocumentRow(row.document, row.root, wanted_version=version, noticed_at=row.noticed_at, cause=row.cause)
        tombstone.indexed = {build.build_id: version for build in self.collection(row.document.home).builds}
        for name in DocumentRow.__slots__:
            setattr(row, name, getattr(tombstone, name))
        self.free(row)
        return version
