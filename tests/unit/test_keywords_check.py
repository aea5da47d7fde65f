"""`check` looks at the keyword side as it is on disk, beside a running retriever too, and changes nothing there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.retrieving import MAIN, Library

from evercurrent.checking import keyword_findings
from retriever.follow import Replica
from store.catalog.memory import MemoryCatalog
from store.clock import SystemClock
from store.keywords import tantivy_index
from store.model import ChunkId
from store.ports import Catalog


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    opened = MemoryCatalog(SystemClock())
    yield opened
    opened.close()


@pytest.fixture
def replica(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replica]:
    """Nothing is written out by itself."""
    monkeypatch.setattr(tantivy_index.Flusher, "waiting", lambda _self, urgent: urgent)
    made = Replica(MAIN, catalog, tmp_path)
    yield made
    made.close()


def codes(catalog: Catalog, keywords: Path) -> list[tuple[str, str | None]]:
    collection = catalog.collection(MAIN)
    assert collection is not None
    found = keyword_findings(catalog, collection, keywords)
    return [(finding.code, finding.document.uri if finding.document else None) for finding in found]


def flush(replica: Replica) -> None:
    with replica.reading() as view:
        assert view is not None
        view.keywords.flush()


def test_beside_a_running_retriever_a_level_index_has_no_finding_and_no_file_changes(
    catalog: Catalog, replica: Replica, tmp_path: Path
) -> None:
    Library(catalog).put("tides.md", "The tide turns.\n\nIt ebbs.")
    replica.advance()
    flush(replica)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert codes(catalog, tmp_path) == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_is_not_written_out_yet_is_in_flight(catalog: Catalog, replica: Replica, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", "The tide turns.")
    library.put("moon.md", "The moon pulls.")
    replica.advance()
    flush(replica)
    library.delete("tides.md")
    library.put("moon.md", "The moon pulls.\n\nThe sea follows.")
    library.put("new.md", "Neap tides.")
    replica.advance()
    assert codes(catalog, tmp_path) == []


def test_a_lost_row_and_one_too_many_are_found_beside_a_running_retriever(catalog: Catalog, replica: Replica, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", "The tide turns.")
    library.put("moon.md", "The moon pulls.")
    replica.advance()
    with replica.reading() as view:
        assert view is not None
        ((lost, _),) = view.keywords.search("tide", 1)
        stray = tantivy_index.KeywordRow(ChunkId(bytes(16)), "tides.md", "stray")
        view.keywords.apply(view.position, [lost], [stray, *(stray for _ in range(2))])
        view.keywords.apply(view.position, [], [tantivy_index.KeywordRow(ChunkId(bytes(15) + b"1"), "moon.md", "stray")])
    flush(replica)
    assert codes(catalog, tmp_path) == [("keyword_missing", "tides.md"), ("keyword_surplus", None)]


def test_an_index_of_another_build_is_neither_judged_nor_emptied(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns.")
    index = tantivy_index.KeywordIndex.open(tantivy_index.folder_of(tmp_path, MAIN), "another build")
    index.apply(catalog.position(), [], [tantivy_index.KeywordRow(ChunkId(bytes(16)), "a.md", "stray")])
    index.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert codes(catalog, tmp_path) == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_damaged_index_is_found(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns.")
    replica = Replica(MAIN, catalog, tmp_path)
    replica.advance()
    replica.close()
    next(tmp_path.rglob("*.idx")).write_bytes(b"not an index")
    assert codes(catalog, tmp_path) == [("keyword_damaged", None)]
