"""A replica stays level with the catalog, whatever was missed, switched or deleted."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.retrieving import MAIN, Library, hashing_space, searching

from retriever.follow import Replica, Replicas
from retriever.gate import Gate
from retriever.premises import RetrieverBeat, beats, claim_premises
from retriever.serve import BEAT_SECONDS, Following
from retriever.wiring import Parts, QueryEmbedders
from store.bell import Bell
from store.catalog.memory import MemoryCatalog
from store.clock import SimulatedClock, SystemClock
from store.config import EmbeddingTable
from store.errors import UnknownCollection
from store.keywords.tantivy_index import KeywordIndex, folder_of
from store.model import CollectionId, CollectionName, Recipe, RecipeId, SpaceId
from store.ports import Catalog, Snapshot

TIDES = "# Tides\n\nThe tide turns at noon.\n\nA spring tide follows the new moon."


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    opened = MemoryCatalog(SystemClock())
    yield opened
    opened.close()


class Restored:
    """Reads whatever catalog stands there now, as a reader does when a backup was put back."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)


class Switching:
    """Serves the growing build from the moment right before the first snapshot is taken."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        self._catalog.switch(MAIN, SystemClock().now())
        with self._catalog.snapshot() as snapshot:
            yield snapshot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


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
        assert set(view.keys) == chunks
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


def test_what_was_missed_while_stopped_is_made_up_for_without_a_rebuild(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(catalog)
    for name in ("tides.md", "moon.md", "kept.md"):
        library.put(name, f"About {name[:-3]}.\n\nThe tide turns.")
    before = Replica(MAIN, catalog, tmp_path / "keywords")
    before.advance()
    before.close()
    library.delete("tides.md")
    library.put("moon.md", "About moon.\n\nThe moon pulls.")
    library.put("new.md", "Neap tides are weak.")

    def rebuilt(_: KeywordIndex) -> None:
        raise AssertionError("the keyword index was emptied")

    monkeypatch.setattr(KeywordIndex, "clear", rebuilt)
    after = Replica(MAIN, catalog, tmp_path / "keywords")
    after.advance()
    assert held(after) == {"moon.md": 2, "kept.md": 2, "new.md": 1}
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


def test_a_build_switched_while_it_is_loaded_is_never_taken_for_the_other(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", TIDES)
    other = dataclasses.replace(hashing_space(), space_id=SpaceId("another"))
    catalog.ensure_collection(MAIN, Recipe(RecipeId("paragraphs")), other)
    library.put("tides.md", TIDES)
    replica = Replica(MAIN, Switching(catalog), tmp_path / "keywords")
    replica.advance()
    with replica.reading() as view:
        assert view is not None
        assert view.build.space == other
    assert held(replica) == {"tides.md": 2}
    replica.close()


def test_keywords_that_lost_their_position_are_filled_anew(catalog: Catalog, replica: Replica) -> None:
    library = Library(catalog)
    library.put("tides.md", TIDES)
    replica.advance()
    with replica.reading() as view:
        assert view is not None
        view.keywords.clear()
    library.put("moon.md", "The moon pulls the sea.")
    replica.advance()
    assert held(replica) == {"tides.md": 2, "moon.md": 1}


@pytest.mark.parametrize(
    ("before", "after"),
    [("Guide\n\n# Ebb\n\nWater falls.", "Guide\n\n# Flood\n\nWater falls."), ("Ebb\n\nWater falls.", "Flood\n\nWater falls.")],
    ids=["heading", "title"],
)
def test_a_kept_chunk_is_found_by_its_new_heading_and_title_only(catalog: Catalog, replica: Replica, before: str, after: str) -> None:
    library = Library(catalog)
    library.put("tides.md", before)
    replica.advance()
    with replica.reading() as view:
        assert view is not None
        (kept,) = (chunk_id for chunk_id, _ in view.keywords.search("falls", 10))
    library.put("tides.md", after)
    replica.advance()
    with replica.reading() as view:
        assert view is not None
        assert view.keywords.search("ebb", 10) == []
        assert kept in {chunk_id for chunk_id, _ in view.keywords.search("flood", 10)}


def test_a_catalog_of_another_incarnation_is_read_anew(tmp_path: Path) -> None:
    restored = Restored(MemoryCatalog(SystemClock()))
    library = Library(restored.catalog)
    library.put("tides.md", TIDES)
    library.put("moon.md", "The moon pulls the sea.")
    replica = Replica(MAIN, restored, tmp_path / "keywords")
    replica.advance()
    restored.catalog = MemoryCatalog(SystemClock())
    Library(restored.catalog).put("backup.md", "As it was before.")
    replica.advance()
    assert held(replica) == {"backup.md": 1}
    assert replica.position == restored.position()
    replica.close()


def test_keyword_files_of_another_collections_build_are_not_believed(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", TIDES)
    other = MemoryCatalog(SystemClock())
    Library(other).put("other.md", "The tide of another catalog.")
    stranger = Replica(MAIN, other, tmp_path / "keywords")
    stranger.advance()
    stranger.close()
    replica = Replica(MAIN, catalog, tmp_path / "keywords")
    replica.advance()
    assert held(replica) == {"tides.md": 2}
    replica.close()


def test_a_retriever_is_ready_once_known_collections_reach_the_head_of_its_start(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", TIDES)
    with searching(catalog, tmp_path / "keywords") as desk:
        premises, clock = claim_premises(tmp_path / "retriever"), SimulatedClock()
        embedders = QueryEmbedders(EmbeddingTable(provider="hashing"))
        parts = Parts(catalog, desk.replicas, desk.searcher, embedders, premises, Bell(None, clock), clock)
        following = Following(parts, 8200)
        (reason,) = following.readiness().reasons
        assert "main" in reason
        assert following.lags() == {"replica": 0}
        desk.ask("tide")
        assert following.readiness().reasons == ()
        seq = library.put("moon.md", "The moon pulls the sea.")
        assert (following.readiness().reasons, following.lags()) == ((), {"replica": 1})
        following.follow_once()
        assert following.lags() == {"replica": 0}
        assert [(beat.port, beat.seq) for beat in beats(tmp_path / "retriever")] == [(8200, seq)]
        premises.leave()


def test_a_beat_that_moved_on_is_told_at_most_so_often(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    with searching(catalog, tmp_path / "keywords") as desk:
        premises, clock = claim_premises(tmp_path / "retriever"), SimulatedClock()
        embedders = QueryEmbedders(EmbeddingTable(provider="hashing"))
        following = Following(Parts(catalog, desk.replicas, desk.searcher, embedders, premises, Bell(None, clock), clock), 8200)
        told = []
        for _ in range(3):
            library.put("tides.md", TIDES + f" {catalog.position().seq}")
            following.follow_once()
            told.append(beats(tmp_path / "retriever")[0].seq)
            clock.advance(BEAT_SECONDS * 0.75)
        assert told == [1, 1, 3]
        premises.leave()


def test_a_folder_is_one_process_alone_and_free_again_when_left(tmp_path: Path) -> None:
    first, second = claim_premises(tmp_path), claim_premises(tmp_path)
    assert (first.path, second.path) == (tmp_path, tmp_path / "2")
    assert [first.beat(RetrieverBeat("retriever", 1, 2, "x", 3)) for _ in range(2)] == [True, False]
    assert beats(tmp_path) == [RetrieverBeat("retriever", 1, 2, "x", 3)]
    first.leave()
    assert beats(tmp_path) == []
    assert claim_premises(tmp_path).path == tmp_path


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


def test_the_replica_of_a_dropped_collection_leaves_with_its_keyword_files_and_holds_nobody_up(tmp_path: Path, catalog: Catalog) -> None:
    library, other = Library(catalog), Library(catalog, CollectionId(MAIN.namespace, CollectionName("other")))
    library.put("tides.md", TIDES)
    other.put("tides.md", TIDES)
    replicas = Replicas(catalog, tmp_path, SystemClock(), 5.0)
    replicas.load_known()
    replicas.advance_loaded()
    assert len(list(tmp_path.iterdir())) == 2
    catalog.drop_collection(other.home, SystemClock().now())
    replicas.advance_loaded()
    assert replicas.positions() == {MAIN: catalog.position()}
    assert [folder.name for folder in tmp_path.iterdir()] == [folder_of(tmp_path, MAIN).name]
    with pytest.raises(UnknownCollection), replicas.reading(other.home):
        pass
    Library(catalog, other.home).put("new.md", "Other words.")
    with replicas.reading(other.home) as view:
        assert list(view.documents) == ["new.md"]
    replicas.close()


def test_keyword_files_of_a_collection_that_was_dropped_while_nobody_followed_are_removed_at_the_start(
    tmp_path: Path, catalog: Catalog
) -> None:
    Library(catalog).put("tides.md", TIDES)
    stale = folder_of(tmp_path, CollectionId(MAIN.namespace, CollectionName("dropped")))
    stale.mkdir()
    (stale / "words").write_text("old")
    replicas = Replicas(catalog, tmp_path, SystemClock(), 5.0)
    replicas.load_known()
    replicas.advance_loaded()
    assert [folder.name for folder in tmp_path.iterdir()] == [folder_of(tmp_path, MAIN).name]
    replicas.close()
