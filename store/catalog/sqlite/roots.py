"""Roots in SQLite: who owns documents, and how a root leaves with all of its own, in short transactions.

A root that leaves is marked first: from then on it is not listed and takes no documents, and its name stays taken until the last
of them is a tombstone.
"""

from __future__ import annotations

import sqlite3

from store.catalog.sqlite.claims import forget_claims
from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import need_collection, root_of
from store.catalog.sqlite.tombs import bury, row_by_key
from store.errors import Misuse
from store.model import CollectionId, CollectionName, DocumentState, Instant, Namespace, Root, RootName, SourceKind

DOCUMENTS_A_TRANSACTION_MAX = 100
TRANSACTION_SECONDS_MAX = 0.03
"""Of removing: no further document is begun in a transaction that is this old. (A large one may take as long again.)"""
CLAIMS_A_TRANSACTION_MAX = 500

Connection = sqlite3.Connection


class SqliteRoots:
    """Implements ports.Roots."""

    _database: Database

    def roots(self, home: CollectionId | None = None) -> list[Root]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT r.*, n.name AS namespace, c.name AS collection FROM roots r JOIN collections c USING (collection_key)"
                " JOIN namespaces n USING (namespace_key) WHERE r.standing = 'live' ORDER BY r.root_key"
            ).fetchall()
        found = [root_of(row, CollectionId(Namespace(row["namespace"]), CollectionName(row["collection"]))) for row in rows]
        return [root for root in found if home is None or root.home == home]

    def ensure_root(self, root: Root) -> Root:
        path = root.path.encode("utf-8", "surrogateescape")
        with self._database.write() as connection:
            collection_key = need_collection(connection, root.home)["collection_key"]
            row = connection.execute(
                "SELECT * FROM roots WHERE collection_key = ? AND path = ? AND standing <> 'left'", (collection_key, path)
            ).fetchone()
            if row is None:
                refuse_taken(connection, collection_key, root)
                connection.execute(
                    "INSERT INTO roots (collection_key, name, kind, path, prefix, device) VALUES (?, ?, ?, ?, ?, ?)",
                    (collection_key, root.name, root.kind, path, root.prefix, root.device),
                )
                return root
            refuse_leaving(row)
            if root.device is not None and row["device"] is None:
                row = connection.execute(
                    "UPDATE roots SET device = ? WHERE root_key = ? RETURNING *", (root.device, row["root_key"])
                ).fetchone()
            return root_of(row, root.home)

    def remove_root(self, home: CollectionId, name: RootName, now: Instant) -> int:
        with self._database.write() as connection:
            collection = need_collection(connection, home)
            root = connection.execute(
                "UPDATE roots SET standing = 'leaving' WHERE collection_key = ? AND name = ? AND standing <> 'left' RETURNING *",
                (collection["collection_key"], name),
            ).fetchone()
            if root is None:
                raise Misuse(f"There is no root {name!r}.")
        return clear_root(self._database, root["root_key"], now)


def refuse_taken(connection: Connection, collection_key: int, root: Root) -> None:
    taken = connection.execute(
        "SELECT name, path, standing FROM roots WHERE collection_key = ?1 AND standing <> 'left'"
        " AND (name = ?2 OR (prefix = ?3 AND ?4 NOT IN (kind, ?5)))",
        (collection_key, root.name, root.prefix, SourceKind.UPLOADS, root.kind),
    ).fetchone()
    if taken is not None:
        refuse_leaving(taken)
        other = bytes(taken["path"]).decode("utf-8", "replace")
        raise Misuse(f"The root {root.name!r} is already the folder {other}; give this one another name: NAME={root.path}.")


def refuse_leaving(root: sqlite3.Row) -> None:
    if root["standing"] == "leaving":
        raise Misuse(f"The root {root['name']!r} is being removed; remove it once more to finish, then add it again.")


def clear_root(database: Database, root_key: int, now: Instant) -> int:
    """Buries what the root still has, then lets its name go; returns how many documents. Running it again goes on where it stopped."""
    removed, after = 0, ""
    while True:
        with database.write() as connection:
            if forget_claims(connection, root_key, CLAIMS_A_TRANSACTION_MAX) == CLAIMS_A_TRANSACTION_MAX:
                continue
            buried, last = bury_some(database, connection, root_key, after, now)
            removed += buried
            if last is None:
                connection.execute("UPDATE roots SET standing = 'left' WHERE root_key = ?", (root_key,))
                return removed
            after = last


def bury_some(database: Database, connection: Connection, root_key: int, after: str, now: Instant) -> tuple[int, str | None]:
    """(documents that count, the last uri that was looked at); None at the end."""
    rows = connection.execute(
        "SELECT d.document_key, d.uri, c.* FROM documents d JOIN collections c USING (collection_key)"
        " WHERE d.root_key = ? AND d.uri > ? AND d.state <> 'deleted' ORDER BY d.uri LIMIT ?",
        (root_key, after, DOCUMENTS_A_TRANSACTION_MAX),
    ).fetchall()
    until = database.clock.monotonic() + TRANSACTION_SECONDS_MAX
    removed = 0
    for number, row in enumerate(rows):
        if number and database.clock.monotonic() > until:
            return removed, rows[number - 1]["uri"]
        document = row_by_key(connection, row["document_key"])
        if document["state"] != DocumentState.DELETED and document["root_key"] == root_key:
            removed += document["state"] != DocumentState.IGNORED and document["moving_to"] is None
            bury(connection, document, row, now)
    return removed, rows[-1]["uri"] if len(rows) == DOCUMENTS_A_TRANSACTION_MAX else None


def leaving_roots(connection: Connection) -> list[int]:
    """Roots whose removal has begun and not ended."""
    rows = connection.execute("SELECT root_key FROM roots JOIN collections USING (collection_key) WHERE standing = 'leaving'")
    return [row[0] for row in rows]
