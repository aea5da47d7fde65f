"""The audit behind `check`: the catalog against itself, and the retriever's keyword index against the catalog.

Only looks: keyword files are read as they are on disk, beside a running retriever too, and neither made nor emptied.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evercurrent.call import Call
from store.errors import CursorLapsed
from store.folder import DataFolder
from store.model import ChunkId, Collection, DocumentId, Position
from store.ports import Catalog, Finding, Snapshot


def findings(call: Call, catalog: Catalog) -> Iterator[Finding]:
    yield from catalog.findings()
    for collection in catalog.collections():
        for folder in keyword_folders(call.folder):
            yield from keyword_findings(catalog, collection, folder)


def keyword_folders(folder: DataFolder) -> list[Path]:
    """Where retriever processes of this data folder keep their keyword indexes."""
    return sorted(path for pattern in ("keywords", "*/keywords") for path in folder.retriever.glob(pattern) if path.is_dir())


def keyword_findings(catalog: Catalog, collection: Collection, keywords: Path) -> Iterator[Finding]:
    """Visible chunks that the index on disk lacks, and rows it has too many; changes it has not written out yet are no finding."""
    from store.keywords.reader import Damaged, KeywordReader
    from store.keywords.tantivy_index import folder_of

    served = collection.served
    index = KeywordReader.open(folder_of(keywords, collection.home), f"{served.build_id}:{served.recipe.recipe_id}")
    match index:
        case None:
            return
        case Damaged(reason):
            yield Finding("keyword_damaged", None, f"the keyword index is damaged ({reason}); a retriever that starts builds it anew")
            return
    with catalog.snapshot() as snapshot:
        in_flight = documents_in_flight(snapshot, index.position, collection)
        if in_flight is None:
            return
        expected = {
            placement.chunk_id: document.document
            for document in snapshot.documents(collection.home)
            if document.document not in in_flight
            for placement in document.layout.placements
        }
    yield from _missing_rows(expected, index.holds(list(expected)))
    in_flight_rows = sum(map(len, index.chunks_of({document.uri for document in in_flight}).values()))
    surplus = index.count() - in_flight_rows - len(expected)
    if surplus > 0:
        yield Finding("keyword_surplus", None, f"the keyword index holds {surplus} rows that are no visible chunk")


def documents_in_flight(snapshot: Snapshot, position: Position, collection: Collection) -> set[DocumentId] | None:
    """Documents whose last change the index has not applied; None when it will be rebuilt anyway."""
    if position == snapshot.position:
        return set()
    try:
        changes = snapshot.changes(position, collection.home)
    except CursorLapsed:
        return None
    return None if changes.rebuild else set(changes.documents)


def _missing_rows(expected: dict[ChunkId, DocumentId], held: set[ChunkId]) -> Iterator[Finding]:
    for chunk_id in sorted(expected.keys() - held):
        yield Finding("keyword_missing", expected[chunk_id], f"chunk {chunk_id.hex()} is visible and not in the keyword index")
