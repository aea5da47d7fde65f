"""What `check` reads in memory: contradictions between the rows of one moment. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterator

from store.catalog.digest import text_digest
from store.catalog.memory.tables import CollectionRow, DocumentRow, Tables, VersionRow
from store.model import DocumentId, DocumentState
from store.ports import Finding

FLOAT32_BYTES = 4


class MemoryAudit:
    """Implements ports.CatalogAudit."""

    _tables: Tables

    def findings(self) -> Iterator[Finding]:
        tables = self._tables
        with tables.lock:
            found = [
                finding
                for collection in tables.collections.values()
                for row in tables.documents_of(collection.home)
                for finding in document_findings(tables, collection, row)
            ]
        return iter(found)


def document_findings(tables: Tables, collection: CollectionRow, row: DocumentRow) -> Iterator[Finding]:
    version = tables.living_version(row.document, collection.served.build_id)
    state = tables.state(row)
    if version is None:
        if state in (DocumentState.INDEXED, DocumentState.EMPTY):
            yield Finding("ledger_mismatch", row.document, f"the document is {state} and nothing of it is visible")
        return
    if not row.wanted and row.moving_to is None:
        yield Finding("ledger_mismatch", row.document, f"the document is {state} and still visible at version {version.version}")
    yield from version_findings(tables, collection, row.document, version)


def version_findings(tables: Tables, collection: CollectionRow, document: DocumentId, version: VersionRow) -> Iterator[Finding]:
    chunks = {row.chunk.chunk_id: row.chunk for row in tables.living_chunks(document, collection.served.build_id)}
    placed = {placement.chunk_id: placement for placement in version.layout.placements}
    for chunk_id in sorted(placed.keys() - chunks.keys()):
        yield Finding("chunk_missing", document, f"chunk {chunk_id.hex()} has a place and no row")
    for chunk_id in sorted(chunks.keys() - placed.keys()):
        yield Finding("orphan_chunk", document, f"chunk {chunk_id.hex()} has a row and no place")
    for chunk_id in sorted(chunks.keys() & placed.keys()):
        place, chunk = placed[chunk_id], chunks[chunk_id]
        if text_digest(version.text[place.start : place.end]) != chunk.text_hash:
            yield Finding("text_mismatch", document, f"chunk {chunk_id.hex()} does not have the text it was recorded with")
        vector = tables.vectors.get((document.namespace, collection.served.space.space_id, chunk.input_hash))
        if vector is None:
            yield Finding("vector_missing", document, f"chunk {chunk_id.hex()}: it has no vector")
        elif len(vector.vector) not in (0, collection.served.space.dimensions * FLOAT32_BYTES):
            yield Finding("vector_damaged", document, f"chunk {chunk_id.hex()}: its vector has {len(vector.vector)} bytes")
