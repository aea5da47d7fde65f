"""What should be true of a document, and what the ledger knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from store.model.names import ContentHash, DocumentId, Instant, Metadata, RootName, Uri, Version
from store.model.sources import Cause, Signature, Urgency


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
    media_type: str | None = None
    """What an upload declared or the intake detected; None leaves what is recorded while the content is known to be the same."""


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
