"""What a loader yields, and the pieces it is cut into."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from store.model.names import ChunkId, InputHash, Metadata, TextHash


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
