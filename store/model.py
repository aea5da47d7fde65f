"""The nouns of Evercurrent, as frozen values; one word, one meaning (ARCHITECTURE.md has the glossary).

Nothing here reads a clock, a file or a service. A value that could not be true cannot be built:
`__post_init__` checks, so that later code need not ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import Any, NewType

from store.errors import UriRejected

Namespace = NewType("Namespace", str)
CollectionName = NewType("CollectionName", str)
MAIN_COLLECTION = CollectionName("main")
"""Exists in every namespace: before its first document it is empty, not unknown."""
Uri = NewType("Uri", str)
RootName = NewType("RootName", str)

Version = NewType("Version", int)
"""Order of a document's states as the catalog assigned them: one rising counter a catalog, never a clock."""
Seq = NewType("Seq", int)
"""Number of a commit in the change log: one counter a catalog, without gaps."""
Fence = NewType("Fence", int)
"""Rising number of a lease on a document, checked at commit."""
SessionId = NewType("SessionId", str)
BuildId = NewType("BuildId", int)
Instant = NewType("Instant", float)
"""Seconds since 1970-01-01 UTC. For people and for patience, never for order."""

TextHash = NewType("TextHash", bytes)
"""xxh3-128 of a chunk's text (UTF-8), 16 bytes; hex at the doors, as the three below."""
ChunkId = NewType("ChunkId", bytes)
"""Hash of (document, text hash, n-th occurrence of that text in the document): stable wherever the chunk stands."""
InputHash = NewType("InputHash", bytes)
"""xxh3-128 of exactly what is sent to the embedder; equal to the text hash when no prefix is configured."""
ContentHash = NewType("ContentHash", bytes)
"""xxh3-128 of a document's bytes as fetched."""
RecipeId = NewType("RecipeId", str)
SpaceId = NewType("SpaceId", str)

Metadata = Mapping[str, Any]
"""JSON object: strings, numbers, booleans, null, and lists and objects of these."""

URI_BYTES_MAX = 1024
METADATA_KEYS_MAX = 64
METADATA_BYTES_MAX = 16 * 1024
"""Of a document's own metadata, written as compact JSON."""


def check_uri(uri: str) -> Uri:
    """Returns `uri` when CONTRACTS allow it: no NUL, no empty, `.` or `..` segment, no leading `/`, at most 1,024 bytes of UTF-8.

    Raises UriRejected.
    """
    if not uri:
        raise UriRejected(uri=uri, reason="it is empty")
    if "\0" in uri:
        raise UriRejected(uri=uri, reason="it contains a NUL")
    try:
        uri_bytes = len(uri.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise UriRejected(uri=uri.encode("utf-8", "replace").decode(), reason="it is not valid UTF-8") from error
    if uri_bytes > URI_BYTES_MAX:
        raise UriRejected(uri=uri[:80] + "…", reason=f"it is longer than {URI_BYTES_MAX} bytes")
    for segment in uri.split("/"):
        if segment in ("", ".", ".."):
            raise UriRejected(uri=uri, reason=f"it has the segment {segment!r}")
    return Uri(uri)


@dataclass(frozen=True, slots=True, order=True)
class CollectionId:
    namespace: Namespace
    collection: CollectionName

    def document(self, uri: str) -> DocumentId:
        return DocumentId(self.namespace, self.collection, Uri(uri))


@dataclass(frozen=True, slots=True, order=True)
class DocumentId:
    """One addressable thing of a source. The doors call `check_uri` before one is built."""

    namespace: Namespace
    collection: CollectionName
    uri: Uri

    @property
    def home(self) -> CollectionId:
        return CollectionId(self.namespace, self.collection)


# --- sources ------------------------------------------------------------------------------------------------


class SourceKind(StrEnum):
    FOLDER = "folder"
    FILE = "file"
    UPLOADS = "uploads"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class Root:
    """A named place documents come from. The first root of a collection has the prefix `""`, a further one `NAME/`."""

    home: CollectionId
    name: RootName
    kind: SourceKind
    path: str
    """Absolute path of the folder or file; undecodable bytes as surrogate escapes."""
    prefix: str
    device: int | None = None
    """Device the root stood on when last seen; another one means an unmounted or swapped volume."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What stat says of a file. Equal signatures prove equal bytes only if the recorded one was `proven`."""

    bytes: int
    mtime_ns: int
    inode: int
    device: int


class Cause(StrEnum):
    CREATED = "created"
    MODIFIED = "modified"
    MOVED = "moved"
    UPLOADED = "uploaded"
    RETRIED = "retried"
    DELETED = "deleted"
    RECUT = "recut"


class Urgency(IntEnum):
    URGENT = 0
    FRESH = 1
    BULK = 2


# --- intents and the ledger ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Present:
    """The document should show what its source holds now."""

    document: DocumentId
    root: RootName
    cause: Cause
    noticed_at: Instant
    urgency: Urgency = Urgency.FRESH
    signature: Signature | None = None
    moved_from: DocumentId | None = None
    """One commit makes `document` visible and this one invisible; texts and vectors are reused."""
    content_hash: ContentHash | None = None
    """Known for uploads, where equal content keeps its version."""
    metadata: Metadata | None = None
    """The source's own metadata (uploads); None leaves what is recorded."""
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The document should be gone. Recording it is the deletion: it needs no worker."""

    document: DocumentId
    cause: Cause
    noticed_at: Instant
    root: RootName | None = None
    """The root that has it no more: a document of the same uri that another root owns stays. None: whoever owns it."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """No loader claims the document's type: counted, not failed. A visible earlier version leaves."""

    document: DocumentId
    root: RootName
    noticed_at: Instant
    signature: Signature | None = None
    reason: str = "no loader claims this type"


@dataclass(frozen=True, slots=True)
class Held:
    """A scan did not find the document and the guard does not believe the scan: it stays served, and is shown."""

    document: DocumentId
    noticed_at: Instant
    reason: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The source still holds the recorded bytes under a new signature: nothing to do, but remember the signature.

    Also lets a held document go.
    """

    document: DocumentId
    signature: Signature
    proven: bool


class Unset(Enum):
    """What a change does not speak of stays as it is: None would take it away."""

    UNSET = "unset"


@dataclass(frozen=True, slots=True)
class Described:
    """A document's own metadata and permissions should change, whatever its source. Recording it is the change: it needs no worker."""

    document: DocumentId
    metadata: Metadata | Unset | None = Unset.UNSET
    """A merge patch (RFC 7396) of what its source or an earlier change says; None takes all of that away."""
    acl: tuple[str, ...] | Unset | None = Unset.UNSET


Intent = Present | Absent | Ignored | Held | Seen | Described


class DocumentState(StrEnum):
    PENDING = "pending"
    INDEXED = "indexed"
    EMPTY = "empty"
    IGNORED = "ignored"
    QUARANTINED = "quarantined"
    HELD = "held"
    SUPPRESSED = "suppressed"
    CONFLICT = "conflict"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the ledger remembers of a source's document: the left side of reconcile."""

    uri: Uri
    state: DocumentState
    signature: Signature | None
    proven: bool
    """The recorded signature was taken long enough after the last write to prove that the bytes are the recorded ones."""
    content_hash: ContentHash | None
    wanted_version: Version


@dataclass(frozen=True, slots=True)
class PendingDocument:
    """A ledger row that wants work: wanted > indexed or another build, due, and under no live lease."""

    document: DocumentId
    wanted_version: Version
    noticed_at: Instant
    urgency: Urgency
    cause: Cause
    attempts: int


@dataclass(frozen=True, slots=True)
class DocumentStatus:
    """A ledger row for people: `documents`, `why`."""

    document: DocumentId
    state: DocumentState
    wanted_version: Version
    indexed_version: Version
    chunks: int
    root: RootName
    noticed_at: Instant
    attempts: int = 0
    retry_at: Instant | None = None
    code: str | None = None
    message: str | None = None


# --- text and chunks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heading:
    start: int
    """Code-point offset of the heading's line in the text."""
    level: int
    """1 (title) to 6."""
    title: str


@dataclass(frozen=True, slots=True)
class PageStart:
    start: int
    page: int


class BlockKind(StrEnum):
    FENCE = "fence"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch that reads best in one piece: kept whole by splitters where it fits."""

    start: int
    end: int
    kind: BlockKind


@dataclass(frozen=True, slots=True)
class Fault:
    """Something inside a document that yielded no text (an unreadable page). Data, not an error."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class LoadedText:
    """What a loader yields: decoded text with its structure. Offsets are code points of `text`, ascending."""

    text: str
    media_type: str
    title: str | None = None
    language: str | None = None
    headings: tuple[Heading, ...] = ()
    pages: tuple[PageStart, ...] = ()
    blocks: tuple[Block, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A splitter's cut: `text[start:end]` is not empty and has no surrounding white space."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"piece [{self.start}, {self.end}) is empty or negative")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece with its identity. `text` is the slice; `metadata` holds what is the chunk's own (headings, page)."""

    chunk_id: ChunkId
    text_hash: TextHash
    occurrence: int
    """0 for the first chunk with this text in the document, 1 for the second, …"""
    input_hash: InputHash
    start: int
    end: int
    text: str
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """The catalog's row for a visible chunk, as far as planning needs it."""

    chunk_id: ChunkId
    text_hash: TextHash
    occurrence: int
    input_hash: InputHash


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a chunk stands in one document version."""

    chunk_id: ChunkId
    start: int
    end: int
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    """Order and offsets of a document version's chunks: one compact value, so that a line inserted at the top rewrites one row."""

    placements: tuple[Placement, ...] = ()


# --- builds -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Space:
    """Fingerprint of an embedder. Vectors of different spaces are never compared."""

    space_id: SpaceId
    provider: str
    model: str
    dimensions: int
    settings: Metadata = field(default_factory=dict)
    """What rebuilds the provider, without secrets: base_url, prefixes, dimensions asked for."""

    def __post_init__(self) -> None:
        if self.dimensions < 1:
            raise ValueError("a space has at least one dimension")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Fingerprint of loaders and splitter with their settings."""

    recipe_id: RecipeId
    settings: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Build:
    """A (recipe, space) of a collection. One is served; another may be growing beside it."""

    build_id: BuildId
    recipe: Recipe
    space: Space


@dataclass(frozen=True, slots=True)
class Collection:
    home: CollectionId
    served: Build
    growing: Build | None = None

    @property
    def builds(self) -> tuple[Build, ...]:
        """The builds that a document must be indexed in, served first."""
        return (self.served,) if self.growing is None else (self.served, self.growing)


# --- plans and commits --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the catalog holds of a document in one build, as planning sees it. `version` 0 and no chunks: nothing visible."""

    version: Version = Version(0)
    content_hash: ContentHash | None = None
    layout: Layout = Layout()
    metadata: Metadata = field(default_factory=dict)
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
    """The source's own metadata (uploads), merged over the loader's."""
    content_hash: ContentHash | None = None
    """Of an upload: the name of its blob."""
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


# --- reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the change log of one incarnation of a catalog. One of another incarnation means: rebuild."""

    incarnation: str
    seq: Seq


class ChangeKind(StrEnum):
    INDEXED = "indexed"
    DELETED = "deleted"
    METADATA = "metadata"
    SWITCHED = "switched"
    """The collection serves another build: rebuild. Names no document."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change-log row with what it did; consumers use only `document` and look at the present state."""

    seq: Seq
    at: Instant
    kind: ChangeKind
    home: CollectionId
    document: DocumentId | None
    version: Version
    first: bool = False
    """The document became visible (added) rather than changed (updated)."""
    moved_from: DocumentId | None = None
    added: int = 0
    kept: int = 0
    moved: int = 0
    dropped: int = 0
    embedded: int = 0
    reused: int = 0


@dataclass(frozen=True, slots=True)
class VisibleDocument:
    """A document as a snapshot sees it, in the served build."""

    document: DocumentId
    version: Version
    title: str | None
    media_type: str
    language: str | None
    metadata: Metadata
    acl: tuple[str, ...] | None
    indexed_at: Instant
    text: str
    layout: Layout

    def chunk_text(self, placement: Placement) -> str:
        return self.text[placement.start : placement.end]


@dataclass(frozen=True, slots=True)
class VisibleChunk:
    """A chunk as a query returns it."""

    chunk_id: ChunkId
    document: DocumentId
    ordinal: int
    start: int
    end: int
    text: str
    metadata: Metadata
    """The document's metadata with the chunk's own over it, and the fields that are always filterable."""
    version: Version
    indexed_at: Instant
    stale: bool
    """The source is known to hold something newer."""
    acl: tuple[str, ...] | None = None
