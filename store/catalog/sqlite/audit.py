"""What `check` reads: contradictions inside the SQLite catalog, at one snapshot. Nothing here writes.

Each fault has one code, so that one damage gives one kind of finding. Work in flight is not a finding: a pending document's
visible version still has to be whole.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator

from store.catalog.digest import text_digest, vector_digest
from store.catalog.layouts import decode_layout
from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import home_of
from store.model import CollectionId, DocumentId
from store.ports import Finding

FLOAT32_BYTES = 4


class SqliteAudit:
    """Implements ports.CatalogAudit."""

    _database: Database

    def findings(self) -> Iterator[Finding]:
        with self._database.pinned() as connection:
            yield from file_findings(connection)
            collections = connection.execute("SELECT * FROM collections ORDER BY collection_key").fetchall()
            for collection in collections:
                home = home_of(connection, collection["collection_key"])
                yield from ledger_findings(connection, collection, home)
                yield from document_findings(connection, collection, home)
                yield from vector_findings(connection, collection, home)
            yield from stray_chunk_findings(connection)


def file_findings(connection: sqlite3.Connection) -> Iterator[Finding]:
    for (line,) in connection.execute("PRAGMA quick_check(10)"):
        if line != "ok":
            yield Finding("catalog_damaged", None, line)


def ledger_findings(connection: sqlite3.Connection, collection: sqlite3.Row, home: CollectionId) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT d.*, v.version AS visible FROM documents d LEFT JOIN versions v"
        " ON v.document_key = d.document_key AND v.build_key = ? AND v.died IS NULL WHERE d.collection_key = ?",
        (collection["served_build"], collection["collection_key"]),
    )
    for row in rows:
        detail = ledger_contradiction(row)
        if detail is not None:
            yield Finding("ledger_mismatch", home.document(row["uri"]), detail)


def ledger_contradiction(row: sqlite3.Row) -> str | None:
    """What the ledger row says against itself or against the visible version, in words; None when it is sound."""
    visible, state = row["visible"], row["state"]
    if visible is not None and not row["wanted"] and row["moving_to"] is None:
        return f"the document is {state} and still visible at version {visible}"
    if visible is None and state in ("indexed", "empty"):
        return f"the document is {state} and nothing of it is visible"
    if visible is not None and visible > row["indexed_version"]:
        return f"version {visible} is visible, the ledger says {row['indexed_version']}"
    if row["wanted"] and state == "pending" and not row["wants_work"]:
        return "the document is pending and nobody will index it"
    if row["indexed_version"] > row["wanted_version"]:
        return f"version {row['indexed_version']} is indexed, {row['wanted_version']} is wanted"
    if row["wanted"] and state in ("indexed", "empty") and row["wanted_version"] > row["indexed_version"]:
        return f"the document is {state} and version {row['wanted_version']} is wanted, {row['indexed_version']} indexed"
    return None


def document_findings(connection: sqlite3.Connection, collection: sqlite3.Row, home: CollectionId) -> Iterator[Finding]:
    versions = connection.execute(
        "SELECT v.*, d.uri, t.text FROM versions v JOIN documents d USING (document_key) LEFT JOIN texts t USING (text_key)"
        " WHERE v.build_key = ? AND v.died IS NULL AND d.collection_key = ? ORDER BY d.uri",
        (collection["served_build"], collection["collection_key"]),
    )
    for version in versions:
        recorded = dict(
            connection.execute(
                "SELECT chunk_id, text_hash FROM chunks WHERE document_key = ? AND build_key = ? AND died IS NULL",
                (version["document_key"], version["build_key"]),
            ).fetchall()
        )
        yield from version_findings(version, recorded, home.document(version["uri"]))


def version_findings(version: sqlite3.Row, recorded: dict[bytes, bytes], document: DocumentId) -> Iterator[Finding]:
    try:
        text = zlib.decompress(version["text"] or b"").decode("utf-8")
    except (zlib.error, UnicodeDecodeError) as error:
        yield Finding("text_damaged", document, f"the stored text cannot be read: {error}")
        return
    try:
        placements = decode_layout(version["layout"]).placements
    except ValueError as error:
        yield Finding("layout_damaged", document, f"the stored layout cannot be read: {error}")
        return
    differing = 0
    for placement in placements:
        text_hash = recorded.get(placement.chunk_id)
        if text_hash is None:
            yield Finding("chunk_missing", document, f"chunk {placement.chunk_id.hex()} has a place and no row")
        elif text_digest(text[placement.start : placement.end]) != text_hash:
            differing += 1
    if differing:
        yield Finding("text_mismatch", document, f"{differing} of {len(placements)} chunks do not have the text they were recorded with")
    for chunk_id in sorted(recorded.keys() - {placement.chunk_id for placement in placements}):
        yield Finding("orphan_chunk", document, f"chunk {chunk_id.hex()} has a row and no place")


def vector_findings(connection: sqlite3.Connection, collection: sqlite3.Row, home: CollectionId) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT k.chunk_id, d.uri, v.vector_key, v.space_key, v.namespace_key, v.vector, v.digest, b.space_key AS wanted_space,"
        " s.dimensions FROM chunks k JOIN documents d USING (document_key) JOIN builds b USING (build_key)"
        " JOIN spaces s ON s.space_key = b.space_key LEFT JOIN vectors v USING (vector_key) WHERE k.build_key = ? AND k.died IS NULL",
        (collection["served_build"],),
    )
    for row in rows:
        found = vector_fault(row, collection["namespace_key"])
        if found is not None:
            code, detail = found
            yield Finding(code, home.document(row["uri"]), f"chunk {row['chunk_id'].hex()}: {detail}")


def vector_fault(row: sqlite3.Row, namespace_key: int) -> tuple[str, str] | None:
    if row["vector_key"] is None:
        return "vector_missing", "it has no vector"
    if row["space_key"] != row["wanted_space"]:
        return "wrong_space", "its vector is of another space"
    if row["namespace_key"] != namespace_key:
        return "wrong_namespace", "its vector is of another namespace"
    if len(row["vector"]) not in (0, row["dimensions"] * FLOAT32_BYTES):
        return "vector_damaged", f"its vector has {len(row['vector'])} bytes"
    if vector_digest(row["vector"]) != row["digest"]:
        return "vector_damaged", "its vector is not the one that was stored"
    return None


def stray_chunk_findings(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Living chunk rows of a document that the ledger does not know, or that has no visible version."""
    rows = connection.execute(
        "SELECT k.chunk_id, k.document_key, d.uri, d.collection_key FROM chunks k LEFT JOIN documents d USING (document_key)"
        " WHERE k.died IS NULL AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.document_key = k.document_key"
        " AND v.build_key = k.build_key AND v.died IS NULL)"
    )
    for row in rows:
        document = None if row["uri"] is None else home_of(connection, row["collection_key"]).document(row["uri"])
        yield Finding("orphan_chunk", document, f"chunk {row['chunk_id'].hex()} belongs to nothing that is visible")
