"""Sessions and leases in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from store.catalog.memory.ledger import has_live_lease
from store.catalog.memory.tables import DocumentRow, Tables
from store.model import DocumentId, Instant, LeasedDocument, SessionId
from store.ports import Session


class MemoryLeases:
    """Implements ports.Leases."""

    _tables: Tables

    def open_session(self, session_id: SessionId, role: str, pid: int, now: Instant) -> None:
        with self._tables.lock:
            self._tables.sessions[session_id] = Session(session_id, role, pid, now)

    def beat(self, session_id: SessionId, now: Instant) -> bool:
        with self._tables.lock:
            session = self._tables.sessions.get(session_id)
            if session is None:
                return False
            self._tables.sessions[session_id] = replace(session, beat_at=now)
            return True

    def end_session(self, session_id: SessionId) -> None:
        with self._tables.lock:
            end_session(self._tables, session_id)

    def sessions(self) -> list[Session]:
        with self._tables.lock:
            return sorted(self._tables.sessions.values(), key=lambda session: session.session_id)

    def lease(self, documents: Sequence[DocumentId], session_id: SessionId, now: Instant, lease_seconds: float) -> list[LeasedDocument]:
        tables = self._tables
        with tables.lock:
            if session_id not in tables.sessions:
                return []
            rows = [tables.documents[document] for document in dict.fromkeys(documents) if document in tables.documents]
            leased = (lease_one(tables, row, session_id, now, lease_seconds) for row in rows)
            return [document for document in leased if document is not None]

    def leased(self, now: Instant, lease_seconds: float) -> set[DocumentId]:
        tables = self._tables
        with tables.lock:
            live = {session_id for session_id, session in tables.sessions.items() if session.beat_at > now - lease_seconds}
            return {document for document, row in tables.documents.items() if row.session_id in live}


def end_session(tables: Tables, session_id: SessionId) -> None:
    tables.sessions.pop(session_id, None)
    for row in tables.documents.values():
        if row.session_id == session_id:
            row.session_id = None


def lease_one(tables: Tables, row: DocumentRow, session_id: SessionId, now: Instant, lease_seconds: float) -> LeasedDocument | None:
    if not tables.wants_work(row):
        return None
    if row.session_id != session_id and has_live_lease(tables, row, now):
        return None
    row.session_id, row.lease_seconds, row.fence = session_id, lease_seconds, tables.next_fence()
    row.leased_version = row.wanted_version
    home = row.document.home
    return LeasedDocument(
        document=row.document,
        fence=row.fence,
        wanted_version=row.wanted_version,
        root=next(root for root in tables.roots if root.home == home and root.name == row.root),
        cause=row.cause,
        attempts=row.attempts,
        signature=row.signature,
        moved_from=row.moved_from,
        metadata=dict(row.own_metadata or {}),
        content_hash=row.wanted_hash,
        media_type=row.media_type,
        noticed_at=row.noticed_at,
    )
