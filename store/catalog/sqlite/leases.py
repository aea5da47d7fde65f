"""Sessions and leases in SQLite. Not durable at once: a power cut may free a lease, and the fence still protects."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import document_row, home_of, next_number, root_of, signature_of
from store.model import (
    Cause,
    CollectionName,
    DocumentId,
    Fence,
    Instant,
    LeasedDocument,
    Namespace,
    Root,
    SessionId,
    Uri,
    Version,
)
from store.ports import Session


class SqliteLeases:
    """Implements ports.Leases."""

    _database: Database

    def open_session(self, session_id: SessionId, role: str, pid: int, now: Instant) -> None:
        with self._database.write(durable=False) as connection:
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", (session_id, role, pid, now))

    def beat(self, session_id: SessionId, now: Instant) -> bool:
        with self._database.write(durable=False) as connection:
            updated = connection.execute("UPDATE sessions SET beat_at = ? WHERE session_id = ?", (now, session_id))
            return updated.rowcount == 1

    def end_session(self, session_id: SessionId) -> None:
        with self._database.write(durable=False) as connection:
            connection.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
            connection.execute("UPDATE documents SET session_id = NULL WHERE session_id = ?", (session_id,))

    def sessions(self) -> list[Session]:
        with self._database.read() as connection:
            rows = connection.execute("SELECT session_id, role, pid, beat_at FROM sessions ORDER BY session_id").fetchall()
        return [Session(SessionId(session_id), role, pid, Instant(beat_at)) for session_id, role, pid, beat_at in rows]

    def lease(self, documents: Sequence[DocumentId], session_id: SessionId, now: Instant, lease_seconds: float) -> list[LeasedDocument]:
        with self._database.write(durable=False) as connection:
            if connection.execute("SELECT 1 FROM sessions WHERE session_id = ?", (session_id,)).fetchone() is None:
                return []
            roots: dict[int, Root] = {}
            leased = (lease_one(connection, document, session_id, now, lease_seconds, roots) for document in dict.fromkeys(documents))
            return [document for document in leased if document is not None]

    def leased(self, now: Instant, lease_seconds: float) -> set[DocumentId]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT n.name, c.name, d.uri FROM documents d JOIN sessions s USING (session_id)"
                " JOIN collections c USING (collection_key) JOIN namespaces n USING (namespace_key) WHERE s.beat_at > ?",
                (now - lease_seconds,),
            ).fetchall()
        return {DocumentId(Namespace(namespace), CollectionName(collection), Uri(uri)) for namespace, collection, uri in rows}


def lease_one(
    connection: sqlite3.Connection,
    document: DocumentId,
    session_id: SessionId,
    now: Instant,
    lease_seconds: float,
    roots: dict[int, Root],
) -> LeasedDocument | None:
    """`roots`: those that are read already, by key."""
    row = document_row(connection, document)
    if row is None or not row["wants_work"]:
        return None
    if row["session_id"] not in (None, session_id):
        holder = connection.execute("SELECT beat_at FROM sessions WHERE session_id = ?", (row["session_id"],)).fetchone()
        if holder is not None and holder["beat_at"] > now - row["lease_seconds"]:
            return None
    fence = next_number(connection, "fence")
    connection.execute(
        "UPDATE documents SET session_id = ?, lease_seconds = ?, fence = ?, renoticed_at = 0, leased_version = wanted_version"
        " WHERE document_key = ?",
        (session_id, lease_seconds, fence, row["document_key"]),
    )
    root_key = row["root_key"]
    if root_key not in roots:
        found = connection.execute("SELECT * FROM roots WHERE root_key = ?", (root_key,)).fetchone()
        roots[root_key] = root_of(found, document.home)
    return LeasedDocument(
        document=document,
        fence=Fence(fence),
        wanted_version=Version(row["wanted_version"]),
        root=roots[root_key],
        cause=Cause(row["cause"]),
        attempts=row["attempts"],
        signature=signature_of(row),
        moved_from=None if row["moved_from"] is None else document_by_key(connection, row["moved_from"]),
        metadata=json.loads(row["own_metadata"]) if row["own_metadata"] else {},
        content_hash=row["wanted_hash"],
        media_type=row["media_type"],
        noticed_at=Instant(row["noticed_at"]),
    )


def document_by_key(connection: sqlite3.Connection, document_key: int) -> DocumentId:
    row = connection.execute("SELECT collection_key, uri FROM documents WHERE document_key = ?", (document_key,)).fetchone()
    return home_of(connection, row["collection_key"]).document(row["uri"])
