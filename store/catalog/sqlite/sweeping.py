"""The sweep: removes what no row and no live session refers to, and what died before the retention window; ends removals that broke off.

Every step is a short write transaction of bounded rows, so a lone save never waits long behind it. Running it twice is harmless.
"""

from __future__ import annotations

import sqlite3

from store.catalog.sqlite.database import Database
from store.catalog.sqlite.dropping import clear_dropped, dropped_keys
from store.catalog.sqlite.keys import slices
from store.catalog.sqlite.roots import clear_root, leaving_roots
from store.catalog.sqlite.vector_rows import forget_texts, forget_vectors
from store.model import Instant

ROWS_A_TRANSACTION_MAX = 500


def sweep_catalog(database: Database, now: Instant, retention_seconds: float, lease_seconds: float) -> int:
    """Returns how many rows were removed."""
    with database.write(durable=False) as connection:
        end_silent_sessions(connection, now - lease_seconds)
        leaving, dropped = leaving_roots(connection), dropped_keys(connection)
        cutoff = connection.execute("SELECT coalesce(max(seq), 0) FROM changes WHERE at <= ?", (now - retention_seconds,)).fetchone()[0]
    for root_key in leaving:
        clear_root(database, root_key, now)
    for collection_key in dropped:
        clear_dropped(database, collection_key)
    removed = 0
    for step in (drop_staged, drop_dead_versions, drop_dead_chunks):
        while True:
            with database.write(durable=False) as connection:
                count = step(connection, cutoff)
            removed += count
            if count < ROWS_A_TRANSACTION_MAX:
                break
    return removed + thin_log(database, cutoff)


def end_silent_sessions(connection: sqlite3.Connection, silent_since: float) -> None:
    connection.execute(
        "UPDATE documents SET session_id = NULL WHERE session_id IN (SELECT session_id FROM sessions WHERE beat_at <= ?)", (silent_since,)
    )
    connection.execute("DELETE FROM sessions WHERE beat_at <= ?", (silent_since,))


def drop_staged(connection: sqlite3.Connection, _cutoff: int) -> int:
    """Vectors that a dead session staged and no chunk took."""
    rows = connection.execute(
        "SELECT vector_key FROM vectors v WHERE staged_by IS NOT NULL AND staged_by NOT IN (SELECT session_id FROM sessions)"
        " AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.vector_key = v.vector_key) LIMIT ?",
        (ROWS_A_TRANSACTION_MAX,),
    ).fetchall()
    connection.executemany("DELETE FROM vectors WHERE vector_key = ?", [tuple(row) for row in rows])
    return len(rows)


def drop_dead_versions(connection: sqlite3.Connection, cutoff: int) -> int:
    rows = connection.execute(
        "DELETE FROM versions WHERE version_key IN (SELECT version_key FROM versions WHERE died IS NOT NULL AND died <= ? LIMIT ?)"
        " RETURNING text_key",
        (cutoff, ROWS_A_TRANSACTION_MAX),
    ).fetchall()
    forget_texts(connection, {row["text_key"] for row in rows})
    return len(rows)


def drop_dead_chunks(connection: sqlite3.Connection, cutoff: int) -> int:
    rows = connection.execute(
        "DELETE FROM chunks WHERE chunk_key IN (SELECT chunk_key FROM chunks WHERE died IS NOT NULL AND died <= ? LIMIT ?)"
        " RETURNING vector_key",
        (cutoff, ROWS_A_TRANSACTION_MAX),
    ).fetchall()
    forget_vectors(connection, {row["vector_key"] for row in rows})
    return len(rows)


def thin_log(database: Database, cutoff: int) -> int:
    """Keeps each document's last row, and all rows younger than the retention; cursors before the floor have lapsed.

    Looking through the log takes long when it is long, so it is done without the lock: a row that has a later one keeps it.
    """
    with database.read() as connection:
        rows = connection.execute(
            "SELECT seq FROM changes WHERE seq <= ?1 AND (document_key IS NULL OR EXISTS"
            " (SELECT 1 FROM changes later WHERE later.document_key = changes.document_key AND later.seq > changes.seq))",
            (cutoff,),
        ).fetchall()
    superseded = [int(row["seq"]) for row in rows]
    for part in slices(superseded, ROWS_A_TRANSACTION_MAX):
        with database.write(durable=False) as connection:
            connection.execute("UPDATE meta SET log_floor = max(log_floor, ?)", (cutoff,))
            connection.executemany("DELETE FROM changes WHERE seq = ?", [(seq,) for seq in part])
    return len(superseded)
