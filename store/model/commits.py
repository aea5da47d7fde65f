"""What a worker plans, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from store.model.names import BuildId, ChunkId, ContentHash, DocumentId, Fence, InputHash, Instant, Metadata, Seq, Version
from store.model.sources import Cause, Root, Signature
from store.model.text import Chunk, ChunkRecord, Fault, Layout


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the catalog holds of a document in one build, as planning sees it. `version` 0 and no chunks: nothing visible."""

    version: Version = Version(0)
    content_hash: ContentHash | None = None
    layout: Layout = Layout()
    metadata: Metadata = field(default_factory=dict)
    """What the loader found, without the source's own."""
    own_metadata: Metadata = field(default_factory=dict)
    """The source's own metadata (uploads, descriptions) as it is served, over the loader's."""
    title: str | None = None
    media_type: str | None = None
    chunks: tuple[ChunkRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a commit does to a document's chunk rows in one build.

    `keep`: recorded and still wanted, wherever it now stands. `move`: (row of the renamed document, chunk that takes over its
    text and vector). `add`: born. `drop`: rows that die, of the document itself. The rows of a renamed document all die.
    """

    keep: tuple[ChunkId, ...] = ()
    move: tuple[tuple[ChunkRecord, Chunk], ...] = ()
    add: tuple[Chunk, ...] = ()
    drop: tuple[ChunkId, ...] = ()

    @property
    def is_noop(self) -> bool:
        """No chunk row is written. (Positions or metadata may still differ: those live in the layout.)"""
        return not (self.move or self.add or self.drop)

    @property
    def born(self) -> tuple[Chunk, ...]:
        return tuple(chunk for _, chunk in self.move) + self.add


@dataclass(frozen=True, slots=True)
class LeasedDocument:
    """A document that this session may write until its lease ends, with what to do and what is recorded."""

    document: DocumentId
    fence: Fence
    wanted_version: Version
    root: Root
    cause: Cause
    attempts: int
    signature: Signature | None
    moved_from: DocumentId | None = None
    metadata: Metadata = field(default_factory=dict)
    """The source's own metadata (uploads, descriptions), shown over the loader's."""
    content_hash: ContentHash | None = None
    """Of an upload: the name of its blob."""
    media_type: str | None = None
    """What the source says that the content is; None: its uri tells."""
    noticed_at: Instant = Instant(0.0)


@dataclass(frozen=True, slots=True)
class Cut:
    """A document version as one build has it: what makes it visible there."""

    build_id: BuildId
    planned_from: Version
    """`Recorded.version` the plan was made from; the commit is refused when the catalog has another one by now."""
    plan: Plan
    layout: Layout
    text: str
    title: str | None
    media_type: str
    language: str | None
    metadata: Metadata
    """What the loader found. The source's own metadata is the ledger's: the commit shows it over this."""
    vectors: Mapping[InputHash, bytes] = field(default_factory=dict)
    """New vectors not staged before: float32, little endian, `dimensions` values each."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """Outcome: a new visible version, one cut a build. An empty document has cuts without chunks."""

    document: DocumentId
    version: Version
    fence: Fence
    content_hash: ContentHash
    signature: Signature | None
    proven: bool
    cuts: tuple[Cut, ...]
    moved_from: DocumentId | None = None
    moved_from_version: Version = Version(0)
    embedded: int = 0
    """Texts really sent to the embedder for this document."""
    build_ids: tuple[BuildId, ...] = ()
    """The builds that were looked at (a build without change has no cut); empty: those of the cuts. A build that began growing
    since is not among them, so the document goes on wanting work."""
    own_metadata: Metadata = field(default_factory=dict)
    """What the lease said. It is shown only when a newer version is wanted by now; else the ledger's, which may be newer."""
    faults: tuple[Fault, ...] = ()
    """What of the document could not be read. It is indexed all the same; its ledger row says so."""

    @property
    def builds_done(self) -> tuple[BuildId, ...]:
        return self.build_ids or tuple(cut.build_id for cut in self.cuts)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Outcome: the version turns out to change nothing. indexed = wanted, no chunk is touched, no change-log row."""

    document: DocumentId
    version: Version
    fence: Fence
    content_hash: ContentHash
    signature: Signature | None
    proven: bool
    build_ids: tuple[BuildId, ...] = ()
    """The builds that were looked at; empty: the served one."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Outcome: retry at `retry_at`, or (None) quarantined. The version before stays served.

    A document moved here whose old uri is still served takes it off the index when it is quarantined.
    """

    document: DocumentId
    version: Version
    fence: Fence
    code: str
    message: str
    retry_at: Instant | None
    embedded: int = 0


@dataclass(frozen=True, slots=True)
class Vanished:
    """Outcome: the source no longer has the document, in a root that is alive: it is deleted."""

    document: DocumentId
    version: Version
    fence: Fence
    noticed_at: Instant


Outcome = Indexed | Unchanged | Failed | Vanished


class Refusal(StrEnum):
    FENCE_OLD = "fence_old"
    VERSION_INDEXED = "version_indexed"
    RECORDS_CHANGED = "records_changed"
    WANTED_ABSENT = "wanted_absent"
    VECTORS_MISSING = "vectors_missing"


@dataclass(frozen=True, slots=True)
class Committed:
    seq: Seq | None
    """None: accepted, but nothing visible changed."""


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Refusal


Verdict = Committed | Refused
