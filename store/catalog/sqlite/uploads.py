"""Uploaded contents that the ledger in SQLite wants."""

from __future__ import annotations

from collections.abc import Sequence

from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import document_row, marks, slices
from store.model import ContentHash, DocumentId, Namespace


class SqliteUploads:
    """Implements ports.Uploads."""

    _database: Database

    def wanted_blob(self, document: DocumentId) -> ContentHash | None:
        with self._database.read() as connection:
            row = document_row(connection, document)
            return row["wanted_hash"] if row is not None and row["wanted"] else None

    def wanted_blobs(self, namespace: Namespace, contents: Sequence[ContentHash]) -> set[ContentHash]:
        wanted: set[ContentHash] = set()
        with self._database.read() as connection:
            for some in slices(contents):
                rows = connection.execute(
                    "SELECT wanted_hash FROM documents JOIN collections USING (collection_key) JOIN namespaces n USING (namespace_key)"
                    f" WHERE n.name = ? AND wanted = 1 AND wanted_hash IN ({marks(some)})",
                    (namespace, *some),
                )
                wanted.update(content for (content,) in rows)
        return wanted
