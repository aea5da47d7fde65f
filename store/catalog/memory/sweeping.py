"""The sweep in memory: what no row and no live session refers to goes, and what died before the retention window.

What an open snapshot still sees stays until it is closed.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Protocol, TypeVar

from store.catalog.memory.leases import end_session
from store.catalog.memory.tables import Tables
from store.model import ChunkId, CollectionId, DocumentId, Instant, Seq


class _Mortal(Protocol):
    died: Seq | None


Key = TypeVar("Key")
Row = TypeVar("Row", bound=_Mortal)


def sweep(tables: Tables, now: Instant, retention_seconds: float, lease_seconds: float) -> int:
    """Returns how many rows were removed. Running it twice is harmless."""
    for session in list(tables.sessions.values()):
        if session.beat_at <= now - lease_seconds:
            end_session(tables, session.session_id)
    horizon = max((change.seq for change in tables.log if change.at <= now - retention_seconds), default=Seq(0))
    horizon = min([horizon, *tables.pins])
    removed = drop_dead(tables.versions, horizon) + drop_dead(tables.chunks, horizon)
    forget_holders(tables)
    return removed + drop_vectors(tables) + thin_log(tables, horizon)


def drop_dead(rows: MutableMapping[Key, list[Row]], horizon: Seq) -> int:
    removed = 0
    for key, several in list(rows.items()):
        kept = [row for row in several if row.died is None or row.died > horizon]
        removed += len(several) - len(kept)
        if kept:
            rows[key] = kept
        else:
            del rows[key]
    return removed


def forget_home(tables: Tables, home: CollectionId, seq: Seq) -> None:
    """What a dropped collection showed: at once, unless an open snapshot still sees it."""
    for key in [key for key in tables.versions if key[0].home == home]:
        tables.versions[key] = _dead(tables.versions[key], seq) if tables.pins else []
    for key in [key for key in tables.chunks if key[0].home == home]:
        tables.chunks[key] = _dead(tables.chunks[key], seq) if tables.pins else []
    forget_holders(tables)
    drop_vectors(tables)


def _dead(rows: list[Row], seq: Seq) -> list[Row]:
    for row in rows:
        row.died = seq if row.died is None else row.died
    return rows


def forget_holders(tables: Tables) -> None:
    held: set[tuple[ChunkId, DocumentId]] = {
        (row.chunk.chunk_id, document) for (document, _), rows in tables.chunks.items() for row in rows
    }
    for chunk_id, documents in list(tables.holders.items()):
        documents.intersection_update({document for document in documents if (chunk_id, document) in held})
        if not documents:
            del tables.holders[chunk_id]


def drop_vectors(tables: Tables) -> int:
    """Vectors that no chunk refers to, living or kept for the past, and no live session staged."""
    used = {
        (document.namespace, tables.spaces[build_id], row.chunk.input_hash)
        for (document, build_id), rows in tables.chunks.items()
        for row in rows
    }
    unused = [key for key, row in tables.vectors.items() if key not in used and row.staged_by not in tables.sessions]
    for key in unused:
        del tables.vectors[key]
    return len(unused)


def thin_log(tables: Tables, horizon: Seq) -> int:
    """Keeps each document's last row, and all rows younger than the retention; cursors before the floor have lapsed."""
    last = {change.document: change.seq for change in tables.log}
    kept = [
        change for change in tables.log if change.seq > horizon or (change.document is not None and last[change.document] == change.seq)
    ]
    removed = len(tables.log) - len(kept)
    if removed:
        tables.log, tables.log_floor = kept, max(tables.log_floor, horizon)
    return removed
