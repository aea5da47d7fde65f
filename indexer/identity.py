"""Who a chunk is: hashes of its text, of what is sent to the embedder, and of its place among equal texts of its document.

Identity does not depend on where a chunk stands, on metadata, on time, or on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh3_128_digest

from store.model import Chunk, ChunkId, ContentHash, DocumentId, InputHash, Layout, LoadedText, Metadata, Piece, Placement, TextHash


def identify(document: DocumentId, loaded: LoadedText, pieces: Iterable[tuple[Piece, Metadata]], prefix: str = "") -> tuple[Chunk, ...]:
    """Returns the pieces of `loaded` as chunks, in order. Equal texts are told apart by their occurrence, counted from 0."""
    seen: dict[TextHash, int] = {}
    chunks: list[Chunk] = []
    for piece, metadata in pieces:
        text = loaded.text[piece.start : piece.end]
        hashed = text_hash(text)
        occurrence = seen.get(hashed, 0)
        seen[hashed] = occurrence + 1
        chunks.append(
            Chunk(
                chunk_id=chunk_id(document, hashed, occurrence),
                text_hash=hashed,
                occurrence=occurrence,
                input_hash=input_hash(prefix, text) if prefix else InputHash(hashed),
                start=piece.start,
                end=piece.end,
                text=text,
                metadata=metadata,
            )
        )
    return tuple(chunks)


def text_hash(text: str) -> TextHash:
    return TextHash(xxh3_128_digest(text.encode()))


def input_hash(prefix: str, text: str) -> InputHash:
    """Hash of exactly what is sent to the embedder; without a prefix it equals the text hash."""
    return InputHash(xxh3_128_digest((prefix + text).encode()))


def content_hash(content: bytes) -> ContentHash:
    return ContentHash(xxh3_128_digest(content))


def chunk_id(document: DocumentId, hashed: TextHash, occurrence: int) -> ChunkId:
    """Hash of the document, the text hash and the occurrence, each with its length before it, so that no two spellings collide."""
    names = (document.namespace, document.collection, document.uri)
    encoded = [name.encode() for name in names]
    parts = [*encoded, hashed, occurrence.to_bytes(8, "little")]
    return ChunkId(xxh3_128_digest(b"".join(len(part).to_bytes(4, "little") + part for part in parts)))


def layout_of(chunks: Iterable[Chunk]) -> Layout:
    """Order, offsets and metadata of a document version's chunks."""
    return Layout(tuple(Placement(chunk.chunk_id, chunk.start, chunk.end, chunk.metadata) for chunk in chunks))
