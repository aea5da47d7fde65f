"""What a reader sees."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from store.model.names import ChunkId, CollectionId, DocumentId, Instant, Metadata, Seq, Version
from store.model.text import Layout, Placement


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
    DROPPED = "dropped"
    """The collection is gone with everything in it. Names no document, and is read by nobody: it takes the seq that wakes them."""


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
