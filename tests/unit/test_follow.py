"""A replica stays level with the catalog, whatever was missed, switched or deleted."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.retrieving import MAIN, Library, hashing_space, searching

from retriever.follow import Replica
from retriever.gate import Gate
from store.catalog.memory import MemoryCatalog
from store.clock import SystemClock
from store.errors import UnknownCollection
from store.model import CollectionId, CollectionName, Recipe, RecipeId, SpaceId
from store.ports import Catalog

TIDES = "# Tides\n\nThe tide turns at noon.\n\nA spring tide follows the new moon."


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    opened = MemoryCatalog(SystemClock())
    yield opened
    opened.close()


@pytest.fixture
def replica(catalog: Catalog, tmp_path: Path) -> Iterator[Replica]:
    made = Replica(MAIN, catalog, tmp_path / "keywords")
    yield made
    made.close()


def held(replica: Replica) -> dict[str, int]:
    """Chunks a document, as every part of the replica has them; all parts must agree."""
    with replica.reading() as view:
        assert view is not None
        chunks = set(view.owners)
        assert chunks == {chunk_id for facts in view.documents.values() for chunk_id in facts.chunk_fields}
        assert view.keywords.holds(sorted(chunks)) == chunks
        assert view.keywords.count() == len(chunks)
        assert view.keywords.position == view.position
        assert {chunk_id for chunk_id, _ in view.vectors.search(bytes(4 * 256), 1000)} == chunks
        return {str(uri): len(facts.chunk_fields) for uri, facts in view.documents.items()}


def test_a_replica_follows_additions_changes_and_deletions(catalog: Catalog, replica: Replica) -> None:
    library = Library(catalog)
    library.put("tides.md", TIDES)
    replica.advance()
    assert held(replica) == {"tides.md": 2}
    library.put("tides.md", TIDES + "\n\nNeap tides are weak.")
    library.put("moon.md", "The moon pulls the sea.")
    replica.advance()
    assert held(replica) == {"tides.md": 3, "moon.md": 1}
    library.delete("tides.md")
    replica.advance()
    assert held(replica) == {"moon.md": 1}
    assert replica.position == catalog.position()


def test_advancing_twice_changes_nothing(catalog: Catalog, replica: Replica) -> None:
    Library(catalog).put("tides.md", TIDES)
    replica.advance()
    once = held(replica)
    replica.advance()
    assert held(replica) == once == {"tides.md": 2}


def test_an_unknown_collection_is_named(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(UnknownCollection):
        Replica(CollectionId(MAIN.namespace, CollectionName("nowhere")), catalog, tmp_path / "keywords").advance()


def test_a_restarted_replica_catches_up_from_its_keyword_cursor(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", TIDES)
    before = Replica(MAIN, catalog, tmp_path / "keywords")
    before.advance()
    before.close()
    library.put("moon.md", "The moon pulls the sea.")
    after = Replica(MAIN, catalog, tmp_path / "keywords")
    after.advance()
    assert held(after) == {"tides.md": 2, "moon.md": 1}
    after.close()


def test_a_deletion_missed_while_stopped_leaves_no_keyword_row(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", TIDES)
    library.put("moon.md", "The moon pulls the sea.")
    before = Replica(MAIN, catalog, tmp_path / "keywords")
    before.advance()
    before.close()
    library.delete("tides.md")
    after = Replica(MAIN, catalog, tmp_path / "keywords")
    after.advance()
    assert held(after) == {"moon.md": 1}
    with after.reading() as view:
        assert view is not None
        assert view.keywords.search("tide", 10) == []
    after.close()


def test_deleted_keyword_files_are_rebuilt(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", TIDES)
    before = Replica(MAIN, catalog, tmp_path / "keywords")
    before.advance()
    before.close()
    shutil.rmtree(tmp_path / "keywords")
    after = Replica(MAIN, catalog, tmp_path / "keywords")
    after.advance()
    assert held(after) == {"tides.md": 2}
    after.close()


def test_a_switched_build_is_loaded_anew(catalog: Catalog, replica: Replica) -> None:
    library = Library(catalog)
    library.put("tides.md", TIDES)
    replica.advance()
    other = dataclasses.replace(hashing_space(), space_id=SpaceId("another"))
    catalog.ensure_collection(MAIN, Recipe(RecipeId("paragraphs")), other)
    library.put("tides.md", TIDES)
    assert catalog.switch(MAIN, SystemClock().now())
    replica.advance()
    with replica.reading() as view:
        assert view is not None
        assert view.build.space == other
    assert held(replica) == {"tides.md": 2}


def test_a_changed_heading_is_found_by_its_new_words_only(catalog: Catalog, replica: Replica) -> None:
    library = Library(catalog)
    library.put("tides.md", "# Ebb\n\nThe water falls.")
    replica.advance()
    library.put("tides.md", "# Flood\n\nThe water falls.")
    replica.advance()
    with replica.reading() as view:
        assert view is not None
        assert view.keywords.search("ebb", 10) == []
        assert len(view.keywords.search("flood", 10)) == 1


def test_a_change_waits_for_readers_and_later_readers_wait_for_it() -> None:
    gate, seen, entered = Gate(), [], threading.Event()

    def change() -> None:
        entered.set()
        with gate.changing():
            seen.append("changed")

    def read() -> None:
        with gate.reading():
            seen.append("read after")

    with gate.reading():
        changing = threading.Thread(target=change)
        changing.start()
        entered.wait(5)
        while not gate.is_change_waiting:
            assert changing.is_alive()
        reading = threading.Thread(target=read)
        reading.start()
        seen.append("read before")
    changing.join(5)
    reading.join(5)
    assert seen == ["read before", "changed", "read after"]


def test_queries_of_two_namespaces_read_their_own_replica(catalog: Catalog, tmp_path: Path) -> None:
    ours, theirs = MAIN, CollectionId(type(MAIN.namespace)("other"), MAIN.collection)
    Library(catalog, ours).put("ours.md", "The tide turns.")
    Library(catalog, theirs).put("theirs.md", "The tide turns.")
    with searching(catalog, tmp_path / "keywords") as desk:
        assert desk.found("tide") == ["ours.md"]
        assert desk.found("tide", home=theirs) == ["theirs.md"]
