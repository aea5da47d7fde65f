"""The heart: what a commit must do to a document's chunk rows, as a pure value. Reads nothing, writes nothing.

A row is still wanted when the same chunk id still stands for the same embedder input. When only the input changed (a prefix
that depends on the headings), the row dies and the same id is born again with its new vector.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from store.model import Chunk, ChunkRecord, InputHash, Plan, TextHash


def plan_document(records: Sequence[ChunkRecord], chunks: Sequence[Chunk], moved_from: Sequence[ChunkRecord] = ()) -> Plan:
    """Returns the least change that turns the recorded rows into exactly `chunks`.

    `records` are the document's own rows; `moved_from` those of the document it was renamed from, whose texts and vectors a
    wanted chunk takes over, matched by text and input in order of occurrence, each row at most once. Both sequences hold a
    chunk id at most once.
    """
    input_recorded = {record.chunk_id: record.input_hash for record in records}
    keep = tuple(chunk.chunk_id for chunk in chunks if input_recorded.get(chunk.chunk_id) == chunk.input_hash)
    kept = frozenset(keep)
    drop = tuple(record.chunk_id for record in records if record.chunk_id not in kept)
    move, add = _plan_births((chunk for chunk in chunks if chunk.chunk_id not in kept), moved_from)
    return Plan(keep=keep, move=move, add=add, drop=drop)


def _plan_births(
    chunks: Iterable[Chunk], moved_from: Sequence[ChunkRecord]
) -> tuple[tuple[tuple[ChunkRecord, Chunk], ...], tuple[Chunk, ...]]:
    rows: defaultdict[tuple[TextHash, InputHash], deque[ChunkRecord]] = defaultdict(deque)
    for row in sorted(moved_from, key=lambda row: row.occurrence):
        rows[row.text_hash, row.input_hash].append(row)
    move: list[tuple[ChunkRecord, Chunk]] = []
    add: list[Chunk] = []
    for chunk in chunks:
        waiting = rows.get((chunk.text_hash, chunk.input_hash))
        if waiting:
            move.append((waiting.popleft(), chunk))
        else:
            add.append(chunk)
    return tuple(move), tuple(add)
