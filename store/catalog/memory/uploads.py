"""Uploaded contents that the ledger in memory wants."""

from __future__ import annotations

from collections.abc import Sequence

from store.catalog.memory.tables import Tables
from store.model import ContentHash, DocumentId, Namespace


class MemoryUploads:
    """Implements ports.Uploads."""

    _tables: Tables

    def wanted_blob(self, document: DocumentId) -> ContentHash | None:
        with self._tables.lock:
            row = self._tables.documents.get(document)
            return row.wanted_hash if row is not None and row.wanted else None

    def wanted_blobs(self, namespace: Namespace, contents: Sequence[ContentHash]) -> set[ContentHash]:
        with self._tables.lock:
            rows = [row for row in self._tables.documents.values() if row.document.namespace == namespace and row.wanted]
        return {row.wanted_hash for row in rows if row.wanted_hash is not None} & set(contents)
