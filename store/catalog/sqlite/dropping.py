"""Collections that are dropped, in SQLite: out of every call by one transaction, removed piece by piece by short ones.

Nothing reaches rows but through the collection's own, so what is left of a dropped one is seen by nobody. Its keys are not used
again: what comes under its name later shares nothing with it.
"""

from __future__ import annotations

import sqlite3

from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import collection_row, next_number
from store.catalog.sqlite.vector_rows import forget_texts, forget_vectors
from store.model import ChangeKind, CollectionId, Instant

ROWS_A_STEP_MAX = 200
TRANSACTION_SECONDS_MAX = 0.03
"""No further step is begun in a transaction that is this old."""

Connection = sqlite3.Connection


def drop_collection(database: Database, home: CollectionId, now: Instant) -> int:
    """Returns how many documents were removed."""
    with database.write() as connection:
        collection = collection_row(connection, home)
        if collection is not None:
            take_out(connection, collection, home, now)
        keys = [
            row[0]
            for row in connection.execute(
                "SELECT d.collection_key FROM dropped d JOIN namespaces n USING (namespace_key) WHERE n.name = ? AND d.name = ?",
                (home.namespace, home.collection),
            )
        ]
    return sum(clear_dropped(database, key) for key in keys)


def take_out(connection: Connection, collection: sqlite3.Row, home: CollectionId, now: Instant) -> None:
    key = collection["collection_key"]
    connection.execute("INSERT INTO dropped VALUES (?, ?, ?)", (key, collection["namespace_key"], home.collection))
    connection.execute("DELETE FROM collections WHERE collection_key = ?", (key,))
    connection.execute(
        "UPDATE meta SET last_key = max(last_key, ?1, (SELECT coalesce(max(build_key), 0) FROM builds WHERE collection_key = ?1))", (key,)
    )
    connection.execute(
        "INSERT INTO changes (seq, at, kind, collection_key, version) VALUES (?, ?, ?, ?, 0)",
        (next_number(connection, "seq"), now, ChangeKind.DROPPED, key),
    )


def dropped_keys(connection: Connection) -> list[int]:
    """Collections whose removal has begun and not ended."""
    return [row[0] for row in connection.execute("SELECT collection_key FROM dropped")]


def clear_dropped(database: Database, collection_key: int) -> int:
    """Removes what is left of the collection; returns how many documents. Running it again goes on where it stopped."""
    removed, done = 0, False
    while not done:
        with database.write(durable=False) as connection:
            counted, done = clear_some(database, connection, collection_key)
        removed += counted
    return removed


def clear_some(database: Database, connection: Connection, collection_key: int) -> tuple[int, bool]:
    """(documents that count, whether nothing is left). One step at least, then as many as fit into a short transaction."""
    until = database.clock.monotonic() + TRANSACTION_SECONDS_MAX
    documents = connection.execute(
        "SELECT document_key, state NOT IN ('deleted', 'ignored') AND moving_to IS NULL AS counts FROM documents WHERE collection_key = ?"
        " LIMIT ?",
        (collection_key, ROWS_A_STEP_MAX),
    ).fetchall()
    removed = 0
    for number, document in enumerate(documents):
        if number and database.clock.monotonic() > until:
            return removed, False
        if not clear_document(connection, document["document_key"]):
            return removed, False
        removed += document["counts"]
    return removed, not documents and clear_belongings(connection, collection_key)


def clear_document(connection: Connection, document_key: int) -> bool:
    """One step of a document's removal, chunks first so that no reader of the rows sees a stray one; True: it is gone."""
    chunks = connection.execute(
        "DELETE FROM chunks WHERE chunk_key IN (SELECT chunk_key FROM chunks WHERE document_key = ? LIMIT ?) RETURNING vector_key",
        (document_key, ROWS_A_STEP_MAX),
    ).fetchall()
    forget_vectors(connection, {row["vector_key"] for row in chunks})
    if len(chunks) == ROWS_A_STEP_MAX:
        return False
    versions = connection.execute(
        "DELETE FROM versions WHERE version_key IN (SELECT version_key FROM versions WHERE document_key = ? LIMIT ?) RETURNING text_key",
        (document_key, ROWS_A_STEP_MAX),
    ).fetchall()
    forget_texts(connection, {row["text_key"] for row in versions})
    if len(versions) == ROWS_A_STEP_MAX or _delete_some(connection, "changes", "seq", "document_key = ?", document_key):
        return False
    connection.execute("DELETE FROM documents WHERE document_key = ?", (document_key,))
    return True


def clear_belongings(connection: Connection, collection_key: int) -> bool:
    """One step of what belongs to no document; True: nothing is left. The log's last row stays until the log is thinned."""
    steps = (
        ("changes", "seq", "kind <> 'dropped' AND collection_key = ?"),
        ("aliases", "uri", "collection_key = ?"),
        ("claims", "claim_key", "collection_key = ?"),
    )
    if any(_delete_some(connection, table, key, where, collection_key) for table, key, where in steps):
        return False
    for table in ("roots", "builds"):
        connection.execute(f"DELETE FROM {table} WHERE collection_key = ?", (collection_key,))
    (namespace_key,) = connection.execute(
        "DELETE FROM dropped WHERE collection_key = ? RETURNING namespace_key", (collection_key,)
    ).fetchone() or (None,)
    connection.execute(
        "DELETE FROM namespaces WHERE namespace_key = ?1"
        " AND NOT EXISTS (SELECT 1 FROM collections WHERE namespace_key = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM dropped WHERE namespace_key = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM vectors WHERE namespace_key = ?1)",
        (namespace_key,),
    )
    return True


def _delete_some(connection: Connection, table: str, key: str, where: str, owner: int) -> bool:
    """Deletes some rows; True: there may be more."""
    scope = "" if key != "uri" else " AND collection_key = ?1"
    deleted = connection.execute(
        f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {where.replace('?', '?1')} LIMIT ?2){scope}",
        (owner, ROWS_A_STEP_MAX),
    )
    return deleted.rowcount == ROWS_A_STEP_MAX
