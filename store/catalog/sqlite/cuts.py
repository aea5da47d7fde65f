"""A cut in SQLite: compressed and encoded before the write lock is taken, written inside the transaction."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from store.catalog.layouts import encode_layout
from store.catalog.sqlite.belongings import encode_json
from store.catalog.sqlite.keys import marks, slices
from store.catalog.sqlite.vector_rows import digested
from store.model import Chunk, Cut, Indexed, InputHash, Instant, Outcome

Connection = sqlite3.Connection

ZLIB_LEVEL = 3
WINDOW_BITS_MIN, WINDOW_BITS_MAX = 9, 15


@dataclass(frozen=True, slots=True)
class PreparedCut:
    """The parts of a cut that take computing, made before the write lock."""

    cut: Cut
    layout: bytes
    text: bytes
    metadata: str
    vectors: list[tuple[InputHash, bytes, int]]


def prepare(outcome: Outcome) -> tuple[PreparedCut, ...]:
    if not isinstance(outcome, Indexed):
        return ()
    texts = {text: deflate(text.encode("utf-8")) for text in {cut.text for cut in outcome.cuts}}
    return tuple(
        PreparedCut(cut, encode_layout(cut.layout), texts[cut.text], encode_json(cut.metadata), digested(cut.vectors))
        for cut in outcome.cuts
    )


def deflate(content: bytes) -> bytes:
    """The content under zlib, in no more memory than it needs: to clear the usual quarter of a megabyte costs more than a short text."""
    window_bits = min(WINDOW_BITS_MAX, max(WINDOW_BITS_MIN, len(content).bit_length()))
    squeezing = zlib.compressobj(ZLIB_LEVEL, zlib.DEFLATED, window_bits, window_bits - 7)
    return squeezing.compress(content) + squeezing.flush()


def write_cut(
    connection: Connection,
    outcome: Indexed,
    ready: PreparedCut,
    row: sqlite3.Row,
    own_metadata: str | None,
    keys: Mapping[InputHash, int],
    seq: int,
    now: Instant,
) -> None:
    """Chunks die and are born, the old version row dies, the new one is born: all at `seq`."""
    cut, document_key = ready.cut, row["document_key"]
    for part in slices(cut.plan.drop):
        connection.execute(
            f"UPDATE chunks SET died = ? WHERE document_key = ? AND build_key = ? AND died IS NULL AND chunk_id IN ({marks(part)})",
            (seq, document_key, cut.build_id, *part),
        )
    connection.executemany(
        "INSERT INTO chunks (document_key, build_key, chunk_id, text_hash, occurrence, input_hash, vector_key, born)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [_chunk_row(chunk, document_key, cut.build_id, keys[chunk.input_hash], seq) for chunk in cut.plan.born],
    )
    if row["indexed_version"]:
        connection.execute(
            "UPDATE versions SET died = ? WHERE document_key = ? AND build_key = ? AND died IS NULL", (seq, document_key, cut.build_id)
        )
    connection.execute(
        "INSERT INTO versions (document_key, build_key, version, born, title, media_type, language, metadata, content_hash, layout,"
        " text_key, indexed_at, own_metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            document_key,
            cut.build_id,
            outcome.version,
            seq,
            cut.title,
            cut.media_type,
            cut.language,
            ready.metadata,
            outcome.content_hash,
            ready.layout,
            text_key(connection, document_key, ready.text),
            now,
            own_metadata,
        ),
    )


def _chunk_row(chunk: Chunk, document_key: int, build_key: int, vector_key: int, seq: int) -> tuple[object, ...]:
    input_hash = None if bytes(chunk.input_hash) == bytes(chunk.text_hash) else chunk.input_hash
    return document_key, build_key, chunk.chunk_id, chunk.text_hash, chunk.occurrence, input_hash, vector_key, seq


def text_key(connection: Connection, document_key: int, deflated: bytes) -> int:
    """The text's row: the one of the document's latest version when it is the same (another build, only metadata changed)."""
    last = connection.execute(
        "SELECT t.text_key, t.text FROM versions v JOIN texts t USING (text_key) WHERE v.document_key = ?"
        " ORDER BY v.version_key DESC LIMIT 1",
        (document_key,),
    ).fetchone()
    if last is not None and last["text"] == deflated:
        return int(last["text_key"])
    return int(connection.execute("INSERT INTO texts (text) VALUES (?) RETURNING text_key", (deflated,)).fetchone()[0])
