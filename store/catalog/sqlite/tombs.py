"""Deletions in SQLite: rows die, a tombstone stays that outranks every work in flight, and a move that was under way is settled."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from store.catalog.sqlite.claims import hand_over
from store.catalog.sqlite.keys import next_number
from store.catalog.tallying import outcome_tallies
from store.model import ChangeKind, Instant, Version
from store.ports import Tally

Connection = sqlite3.Connection


def bury(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, now: Instant, *, counted: bool = True) -> Version:
    """The deletion of a document, and of the one it waits to be moved from: rows die, the tombstone outranks work in flight.

    Another root that claims the uri takes the tombstone's place.
    """
    stay(connection, row)
    if row["moved_from"] is not None:
        connection.execute("UPDATE documents SET moving_to = NULL WHERE document_key = ?", (row["moved_from"],))
    version = entomb(connection, row["document_key"])
    if is_visible(connection, row["document_key"]):
        seq = next_number(connection, "seq")
        dropped = die(connection, row["document_key"], seq, int(collection["served_build"]))
        connection.execute(
            "INSERT INTO changes (seq, at, kind, collection_key, document_key, version, dropped) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (seq, now, ChangeKind.DELETED, collection["collection_key"], row["document_key"], version, dropped),
        )
        if counted:
            add_tallies(connection, outcome_tallies("deleted"))
    hand_over(connection, row, now)
    if row["moved_from"] is not None:
        bury(connection, row_by_key(connection, row["moved_from"]), collection, now)
    return version


def entomb(connection: Connection, document_key: int) -> Version:
    """Makes the ledger row a tombstone; what is visible of the document is the caller's business."""
    version = next_number(connection, "version")
    connection.execute(
        "UPDATE documents SET wanted = 0, wanted_version = ?1, indexed_version = ?1, wants_work = 0, state = 'deleted',"
        " served_state = NULL, attempts = 0, retry_at = NULL, code = NULL, message = NULL, bytes = NULL, mtime_ns = NULL,"
        " inode = NULL, device = NULL, proven = 0, content_hash = NULL, wanted_hash = NULL, own_metadata = NULL, acl = NULL,"
        " waiting_acl = NULL, media_type = NULL, moved_from = NULL, moving_to = NULL WHERE document_key = ?2",
        (version, document_key),
    )
    free(connection, document_key)
    return Version(version)


def die(connection: Connection, document_key: int, seq: int, served_build: int) -> int:
    """All that is visible of the document dies at `seq`; returns how many chunks of the served build."""
    connection.execute("UPDATE versions SET died = ? WHERE document_key = ? AND died IS NULL", (seq, document_key))
    dropped = connection.execute(
        "SELECT count(*) FROM chunks WHERE document_key = ? AND died IS NULL AND build_key = ?", (document_key, served_build)
    ).fetchone()[0]
    connection.execute("UPDATE chunks SET died = ? WHERE document_key = ? AND died IS NULL", (seq, document_key))
    return int(dropped)


def is_visible(connection: Connection, document_key: int) -> bool:
    row = connection.execute("SELECT 1 FROM versions WHERE document_key = ? AND died IS NULL LIMIT 1", (document_key,)).fetchone()
    return row is not None


def stay(connection: Connection, row: sqlite3.Row) -> None:
    """The document does not leave for another uri any more: the other one becomes a copy."""
    if row["moving_to"] is not None:
        connection.execute("UPDATE documents SET moved_from = NULL WHERE document_key = ?", (row["moving_to"],))
        connection.execute("UPDATE documents SET moving_to = NULL WHERE document_key = ?", (row["document_key"],))


def free(connection: Connection, document_key: int) -> None:
    """Makes any lease on the document worthless."""
    connection.execute(
        "UPDATE documents SET fence = ?, session_id = NULL WHERE document_key = ?", (next_number(connection, "fence"), document_key)
    )


def row_by_key(connection: Connection, document_key: int) -> sqlite3.Row:
    row: sqlite3.Row = connection.execute("SELECT * FROM documents WHERE document_key = ?", (document_key,)).fetchone()
    return row


def add_tallies(connection: Connection, tallies: Iterable[Tally]) -> None:
    connection.executemany(
        "INSERT INTO tallies (name, labels, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
        [(tally.name, json.dumps(tally.labels), tally.value) for tally in tallies if tally.value],
    )
