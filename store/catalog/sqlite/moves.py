"""Renames in SQLite: the old uri stays served until one commit shows the new one; chains collapse, names may swap."""

from __future__ import annotations

import sqlite3

from store.catalog.sqlite.keys import document_row
from store.catalog.sqlite.tombs import bury, free, is_visible, row_by_key, stay
from store.model import Instant, Present

Connection = sqlite3.Connection


def find_moved(connection: Connection, intent: Present, root_key: int) -> sqlite3.Row | None:
    """The ledger's row of what was renamed; None when nothing was, or when the old name is not known to hold anything of this root."""
    if intent.moved_from is None or intent.moved_from == intent.document:
        return None
    old = document_row(connection, intent.moved_from)
    is_there = old is not None and old["root_key"] == root_key and (old["wanted"] or old["moving_to"] is not None)
    return old if is_there else None


def move(connection: Connection, old: sqlite3.Row, row: sqlite3.Row, collection: sqlite3.Row, now: Instant) -> None:
    """Lets `row` take over what `old` shows; a chain a -> b -> c collapses to a -> c."""
    if old["moved_from"] is not None:
        start = row_by_key(connection, old["moved_from"])
        stay(connection, start)
        bury(connection, row_by_key(connection, old["document_key"]), collection, now)
        let_leave(connection, start, row_by_key(connection, row["document_key"]), collection, now)
    elif is_visible(connection, old["document_key"]):
        let_leave(connection, old, row_by_key(connection, row["document_key"]), collection, now)
    else:
        bury(connection, old, collection, now)


def let_leave(connection: Connection, origin: sqlite3.Row, row: sqlite3.Row, collection: sqlite3.Row, now: Instant) -> None:
    """`origin` stays served and wants nothing until the commit of `row` takes it away. What `row` waited for before leaves now."""
    stay(connection, origin)
    if row["moved_from"] not in (None, origin["document_key"]):
        bury(connection, row_by_key(connection, row["moved_from"]), collection, now)
    connection.execute("UPDATE documents SET moved_from = ? WHERE document_key = ?", (origin["document_key"], row["document_key"]))
    connection.execute(
        "UPDATE documents SET wanted = 0, wants_work = 0, moving_to = ?, state = served_state, code = NULL, message = NULL"
        " WHERE document_key = ?",
        (row["document_key"], origin["document_key"]),
    )
    free(connection, origin["document_key"])
