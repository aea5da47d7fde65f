"""All visible chunks as JSON lines, from one snapshot: sorted by document and ordinal, byte for byte equal for equal states."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Iterator
from typing import Any

from store.catalog.visible import chunk_metadata
from store.model import ChunkId, CollectionId, VisibleDocument
from store.ports import CatalogReader, Snapshot

DOCUMENTS_A_READ = 64
_OF_THIS_BUILD = ("version", "indexed_at")
"""Filterable, but about the indexing, not the document: two builds of one state differ in them."""


def export_lines(catalog: CatalogReader, home: CollectionId, *, vectors: bool, versions: bool) -> Generator[str]:
    """A line a chunk."""
    with catalog.snapshot() as snapshot:
        batch: list[VisibleDocument] = []
        for document in snapshot.documents(home):
            batch.append(document)
            if len(batch) == DOCUMENTS_A_READ:
                yield from _lines(snapshot, home, batch, vectors=vectors, versions=versions)
                batch = []
        yield from _lines(snapshot, home, batch, vectors=vectors, versions=versions)


def _lines(snapshot: Snapshot, home: CollectionId, batch: list[VisibleDocument], *, vectors: bool, versions: bool) -> Iterator[str]:
    found: dict[ChunkId, bytes] = {}
    if vectors and batch:
        found = {row.chunk_id: row.vector for row in snapshot.vectors(home, [document.document for document in batch])}
    for document in batch:
        for row in _rows(document):
            if vectors:
                row["vector"] = base64.b64encode(found.get(ChunkId(bytes.fromhex(row["chunk_id"])), b"")).decode("ascii")
            if not versions:
                del row["version"]
            yield json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def _rows(document: VisibleDocument) -> Iterator[dict[str, Any]]:
    for ordinal, placement in enumerate(document.layout.placements):
        metadata = chunk_metadata(document, placement)
        yield {
            "document": document.document.uri,
            "chunk_id": placement.chunk_id.hex(),
            "ordinal": ordinal,
            "start": placement.start,
            "end": placement.end,
            "text": document.chunk_text(placement),
            "metadata": {key: metadata[key] for key in sorted(metadata) if key not in _OF_THIS_BUILD},
            "version": document.version,
        }
