"""What a search promises: level with the catalog, isolated, masked before ranking, nothing deleted, degraded only visibly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.retrieving import MAIN, OPEN_LIMITS, Library, hashing_space, searching

from indexer.embedding.hashing import HashingEmbedder
from retriever.query import Mode
from retriever.rank import Asked, rank
from retriever.search import ROUNDS_MAX, VersionNotReached, answer_json
from store.catalog.memory import MemoryCatalog
from store.clock import SystemClock
from store.errors import EmbedderUnavailable, InputRejected, QueryRejected, ReplicaBehind, UnknownCollection
from store.model import ChunkId, CollectionId, CollectionName, Namespace, Recipe, RecipeId, Space, SpaceId
from store.ports import Catalog, Snapshot

MODES = [mode.value for mode in Mode]
ZERO = [0.0] * 256


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    opened = MemoryCatalog(SystemClock())
    yield opened
    opened.close()


class Interrupted:
    """The catalog itself, with something happening right before its `at`-th snapshot from now is taken."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._at = 0
        self._happening: Callable[[], Any] = lambda: None

    def before_snapshot(self, at: int, happening: Callable[[], Any]) -> None:
        self._at, self._happening = at, happening

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        self._at -= 1
        if self._at == 0:
            self._happening()
        with self._catalog.snapshot() as snapshot:
            yield snapshot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


class DownEmbedder(HashingEmbedder):
    def embed_query(self, text: str) -> bytes:
        raise EmbedderUnavailable(provider="hashing", reason="it is switched off")


class PickyEmbedder(HashingEmbedder):
    def embed_query(self, text: str) -> bytes:
        raise InputRejected(provider="hashing", reason="too long")


@pytest.mark.parametrize("mode", MODES)
def test_what_was_committed_before_a_query_is_in_its_answer(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    library = Library(catalog)
    with searching(catalog, tmp_path / "keywords") as desk:
        for day in range(5):
            seq = library.put(f"day-{day}.md", f"The tide of day {day} turns at noon.")
            answer = desk.ask("tide turns", mode=mode)
            assert (len(answer.hits), answer.snapshot, answer.complete) == (day + 1, seq, True)
        library.delete("day-0.md")
        assert "day-0.md" not in desk.found("tide turns", mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_document_deleted_after_ranking_is_not_answered_and_the_next_takes_its_place(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    library, interrupted = Library(catalog), Interrupted(catalog)
    library.put("best.md", "tide tide tide")
    library.put("second.md", "The tide turns at noon.")
    with searching(interrupted, tmp_path / "keywords") as desk:
        assert desk.found("tide tide tide", k=1, mode=mode) == ["best.md"]
        interrupted.before_snapshot(1, lambda: library.delete("best.md"))
        assert desk.found("tide tide tide", k=1, mode=mode) == ["second.md"]


def test_deletions_in_every_round_leave_visible_hits_and_say_incomplete(catalog: Catalog, tmp_path: Path) -> None:
    library, interrupted = Library(catalog), Interrupted(catalog)
    for number in range(20):
        library.put(f"{number:02}.md", "tide " * (number + 1))
    with searching(interrupted, tmp_path / "keywords") as desk:
        ranked = iter(desk.found("tide", k=20, mode="keyword"))
        gone: list[str] = []

        def delete_the_best_before_every_last_step() -> None:
            gone.append(next(ranked))
            library.delete(gone[-1])
            interrupted.before_snapshot(2, delete_the_best_before_every_last_step)  # the next is the replica's

        interrupted.before_snapshot(1, delete_the_best_before_every_last_step)
        answer = desk.ask("tide", k=3, mode="keyword")
    assert len(gone) == ROUNDS_MAX
    assert (len(answer.hits), answer.complete) == (3, False)
    assert not set(gone) & {hit.chunk.document.uri for hit in answer.hits}


def test_permissions_withdrawn_in_every_round_are_obeyed_in_the_last_one_too(catalog: Catalog, tmp_path: Path) -> None:
    library, interrupted = Library(catalog), Interrupted(catalog)
    for number in range(20):
        library.put(f"{number:02}.md", "tide " * (number + 1), acl=("*",))
    with searching(interrupted, tmp_path / "keywords", limits=dataclasses.replace(OPEN_LIMITS, acl=True)) as desk:
        texts = {hit.chunk.document.uri: hit.chunk.text for hit in desk.ask("tide", k=20, mode="keyword").hits}
        ranked, withdrawn = iter(texts), list[str]()

        def withdraw_the_best_before_every_last_step() -> None:
            withdrawn.append(next(ranked))
            library.put(withdrawn[-1], texts[withdrawn[-1]], acl=("user:boss",))
            interrupted.before_snapshot(2, withdraw_the_best_before_every_last_step)  # the next is the replica's

        interrupted.before_snapshot(1, withdraw_the_best_before_every_last_step)
        answer = desk.ask("tide", k=3, mode="keyword", principals=("user:me",))
    assert len(withdrawn) == ROUNDS_MAX
    assert len(answer.hits) == 3
    assert not set(withdrawn) & {hit.chunk.document.uri for hit in answer.hits}


@pytest.mark.parametrize("mode", MODES)
def test_a_version_committed_after_ranking_is_answered_whole(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    library, interrupted = Library(catalog), Interrupted(catalog)
    library.put("tides.md", "The tide turns at noon.")
    with searching(interrupted, tmp_path / "keywords") as desk:
        desk.ask("tide", mode=mode)
        interrupted.before_snapshot(1, lambda: library.put("tides.md", "The tide turns at midnight."))
        assert [hit.chunk.text for hit in desk.ask("tide turns", mode=mode).hits] == ["The tide turns at midnight."]


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_gives_k_hits_when_k_exist_however_low_they_rank(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    library = Library(catalog)
    for number in range(150):
        library.put(f"near-{number}.md", f"tide tide tide {number}", metadata={"area": "north"})
    for number in range(3):
        library.put(f"far-{number}.md", f"Far away, in other words and at length, a tide {number}.", metadata={"area": "south"})
    with searching(catalog, tmp_path / "keywords") as desk:
        answer = desk.ask("tide tide tide", k=3, mode=mode, filter={"area": "south"}, explain=True)
        assert sorted(hit.chunk.document.uri for hit in answer.hits) == ["far-0.md", "far-1.md", "far-2.md"]
        assert answer.explain is not None
        assert (answer.explain["ranked"], answer.explain["rounds"]) == (3, 1)
        assert desk.found("tide", mode=mode, filter={"no_such_field": "south"}) == []


def test_filters_see_document_and_chunk_fields_alike(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", "# Ebb\n\nThe water falls.\n\n# Flood\n\nThe water rises.", metadata={"area": "north"})
    library.put("other.md", "The water stands.", metadata={"area": "south"})
    with searching(catalog, tmp_path / "keywords") as desk:
        texts = [hit.chunk.text for hit in desk.ask("water", filter={"area": "north", "headings": "Flood"}).hits]
        assert texts == ["The water rises."]
        assert desk.found("water", filter={"document": "other.md"}) == ["other.md"]
        assert desk.found("water", filter={"$or": [{"headings": "Ebb"}, {"area": "south"}]}).count("tides.md") == 1


@pytest.mark.parametrize("mode", MODES)
def test_the_same_filter_asked_again_obeys_what_was_committed_since(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    library, north = Library(catalog), {"area": "north"}
    library.put("tides.md", "The tide turns at noon.", metadata=north)
    with searching(catalog, tmp_path / "keywords") as desk:
        assert desk.found("tide turns", mode=mode, filter=north) == ["tides.md"]
        library.put("moon.md", "The tide follows the moon.", metadata=north)
        assert sorted(desk.found("tide turns", mode=mode, filter=north)) == ["moon.md", "tides.md"]
        library.put("tides.md", "The tide turns at noon.", metadata={"area": "south"})
        assert desk.found("tide turns", mode=mode, filter=north) == ["moon.md"]


@pytest.mark.parametrize("mode", MODES)
def test_namespaces_and_collections_never_see_each_other(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    homes = [
        MAIN,
        CollectionId(Namespace("rival"), CollectionName("main")),
        CollectionId(Namespace("default"), CollectionName("second")),
    ]
    for home in homes:
        Library(catalog, home).put(f"{home.namespace}-{home.collection}.md", "The tide turns at noon.")
    with searching(catalog, tmp_path / "keywords") as desk:
        for home in homes:
            assert desk.found("tide", home=home, mode=mode) == [f"{home.namespace}-{home.collection}.md"]


def test_another_namespaces_words_change_no_keyword_score(catalog: Catalog, tmp_path: Path) -> None:
    rival = CollectionId(Namespace("rival"), CollectionName("main"))
    library, theirs = Library(catalog), Library(catalog, rival)
    library.put("tides.md", "The tide turns at noon.")
    theirs.put("theirs.md", "Nothing yet.")
    with searching(catalog, tmp_path / "keywords") as desk:
        before = desk.ask("tide", mode="keyword").hits[0].score
        theirs.put("theirs.md", "tide " * 50)
        assert desk.ask("tide", mode="keyword").hits[0].score == before


@pytest.mark.parametrize("mode", MODES)
def test_an_acl_admits_its_principals_and_a_document_without_one_is_nobodys(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    library = Library(catalog)
    library.put("mine.md", "The tide of mine.", acl=("user:me",))
    library.put("all.md", "The tide of all.", acl=("*",))
    library.put("none.md", "The tide of none.")
    with searching(catalog, tmp_path / "keywords", limits=dataclasses.replace(OPEN_LIMITS, acl=True)) as desk:

        def seen(*principals: str) -> list[str]:
            answer = desk.ask("tide", mode=mode, principals=principals, explain=True)
            assert answer.explain is not None
            assert answer.explain["ranked"] == len(answer.hits)
            return sorted(hit.chunk.document.uri for hit in answer.hits)

        assert seen() == ["all.md"]
        assert seen("group:x", "user:me") == ["all.md", "mine.md"]


def test_without_acls_in_force_everything_in_the_namespace_is_readable(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("mine.md", "The tide of mine.", acl=("user:me",))
    with searching(catalog, tmp_path / "keywords") as desk:
        assert desk.found("tide") == ["mine.md"]


def test_hybrid_without_its_embedder_answers_by_keyword_and_says_so(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns at noon.")
    with searching(catalog, tmp_path / "keywords", embedder=DownEmbedder) as desk:
        answer = desk.ask("tide")
        assert (len(answer.hits), answer.degraded) == (1, ("dense",))
        assert (answer.hits[0].dense, answer.hits[0].keyword) == (None, answer.hits[0].score)
        with pytest.raises(EmbedderUnavailable):
            desk.ask("tide", mode="dense")


def test_a_cosine_threshold_that_could_not_be_compared_is_named(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns at noon.")
    with searching(catalog, tmp_path / "keywords", embedder=DownEmbedder) as desk:
        answer = desk.ask("tide", min_score=0.99)
        assert (len(answer.hits), answer.degraded) == (1, ("dense", "min_score"))


def test_a_query_that_cannot_be_embedded_is_the_queries_fault(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns at noon.")
    with searching(catalog, tmp_path / "keywords", embedder=PickyEmbedder) as desk, pytest.raises(QueryRejected) as refused:
        desk.ask("tide")
    assert refused.value.context["place"] == "query"


def test_scores_name_the_sides_that_were_used(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", "The tide turns at noon.")
    library.put("moon.md", "Nothing of the sort.")
    with searching(catalog, tmp_path / "keywords") as desk:
        dense, keyword = desk.ask("tide", mode="dense").hits[0], desk.ask("tide", mode="keyword").hits[0]
        assert (dense.score, dense.keyword) == (dense.dense, None)
        assert (keyword.score, keyword.dense) == (keyword.keyword, None)
        hybrid = {hit.chunk.document.uri: hit for hit in desk.ask("tide").hits}
        assert (hybrid["tides.md"].dense, hybrid["tides.md"].keyword) == (dense.dense, keyword.keyword)
        assert hybrid["moon.md"].keyword is None


@pytest.mark.parametrize("dense_weight", [0.01, 0.99])
def test_hybrid_scores_with_both_sides_what_only_one_side_fetched(catalog: Catalog, tmp_path: Path, dense_weight: float) -> None:
    library, query = Library(catalog), "zebra tide"
    for number in range(20):
        library.put(f"words-{number}.md", f"zebra tide {number} " + "unrelated filler of great length " * number)
        library.put(f"shape-{number}.md", f"zebras tides {number} " + "tidal " * number)
    asked = Asked(Mode.HYBRID, query, HashingEmbedder(library.space).embed_query(query), dense_weight, fetch_k=1)
    with searching(catalog, tmp_path / "keywords") as desk, desk.replicas.reading(MAIN) as view:

        def scored(depth: int, mode: Mode = Mode.HYBRID) -> dict[ChunkId, tuple[float | None, float | None]]:
            ranking = rank(view, dataclasses.replace(asked, mode=mode), None, depth)
            return {candidate.chunk_id: (candidate.dense, candidate.keyword) for candidate in ranking.candidates}

        hybrid, whole = scored(13), scored(40)
        one_side = set(scored(13, Mode.DENSE)) ^ set(scored(13, Mode.KEYWORD))
        assert one_side & set(hybrid)
        assert hybrid == {chunk_id: whole[chunk_id] for chunk_id in hybrid}


def test_min_score_compares_the_cosine_in_dense_and_hybrid_and_bm25_in_keyword(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("same.md", "tide")
    library.put("near.md", "The tide turns at noon, say the fishermen.")
    library.put("far.md", "Nothing of the sort.")
    with searching(catalog, tmp_path / "keywords") as desk:
        for mode in ("dense", "hybrid"):
            assert desk.found("tide", mode=mode, min_score=0.9) == ["same.md"]
            assert desk.found("tide", mode=mode, min_score=-1) == ["same.md", "near.md", "far.md"]
        best, second = (hit.score for hit in desk.ask("tide", mode="keyword").hits)
        assert desk.found("tide", mode="keyword", min_score=(best + second) / 2) == ["same.md"]
        nothing = desk.ask("tide", mode="dense", min_score=1.5)
        assert (nothing.hits, nothing.below_threshold, nothing.complete) == ((), True, True)


def test_a_query_vector_of_another_dimension_is_refused_with_the_place(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns at noon.")
    with searching(catalog, tmp_path / "keywords") as desk:
        with pytest.raises(QueryRejected) as refused:
            desk.ask(vector=[1.0, 0.0])
        assert refused.value.context["place"] == "vector"


def test_a_zero_query_vector_scores_zero(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns at noon.")
    with searching(catalog, tmp_path / "keywords") as desk:
        assert [hit.score for hit in desk.ask(vector=ZERO).hits] == [0.0]


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_collection_answers_no_hits_and_an_unknown_one_is_named(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    Library(catalog)
    with searching(catalog, tmp_path / "keywords") as desk:
        assert desk.ask("tide", mode=mode).hits == ()
        with pytest.raises(UnknownCollection):
            desk.ask("tide", mode=mode, home=CollectionId(MAIN.namespace, CollectionName("nowhere")))


def test_a_query_is_embedded_in_the_space_of_the_served_build(catalog: Catalog, tmp_path: Path) -> None:
    library, asked = Library(catalog), []

    def embedder(space: Space) -> HashingEmbedder:
        asked.append(space.space_id)
        return HashingEmbedder(space)

    library.put("tides.md", "The tide turns at noon.")
    other = dataclasses.replace(hashing_space(), space_id=SpaceId("another"))
    with searching(catalog, tmp_path / "keywords", embedder=embedder) as desk:
        desk.ask("tide")
        catalog.ensure_collection(MAIN, Recipe(RecipeId("paragraphs")), other)
        library.put("tides.md", "The tide turns at noon.")
        desk.ask("tide")
        assert catalog.switch(MAIN, SystemClock().now())
        assert desk.found("tide") == ["tides.md"]
    assert asked == [library.space.space_id, library.space.space_id, other.space_id]


def test_a_build_switched_while_the_query_is_embedded_gets_a_vector_of_its_own_space(catalog: Catalog, tmp_path: Path) -> None:
    library, asked = Library(catalog), []
    library.put("tides.md", "The tide turns at noon.")
    other = dataclasses.replace(hashing_space(), space_id=SpaceId("another"))
    catalog.ensure_collection(MAIN, Recipe(RecipeId("paragraphs")), other)
    library.put("tides.md", "The tide turns at noon.")

    def embedder(space: Space) -> HashingEmbedder:
        asked.append(space.space_id)
        catalog.switch(MAIN, SystemClock().now())
        return HashingEmbedder(space)

    with searching(catalog, tmp_path / "keywords", embedder=embedder) as desk:
        assert desk.found("tide", mode="dense") == ["tides.md"]
    assert asked == [library.space.space_id, other.space_id]


def test_min_version_waits_for_a_version_that_is_not_committed_yet(catalog: Catalog, tmp_path: Path) -> None:
    library, waits = Library(catalog), []

    def commit_at_the_second_look(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            library.put("tides.md", "The tide turns at midnight.")

    library.put("tides.md", "The tide turns at noon.")
    status = catalog.status_of(library.document("tides.md"))
    assert status is not None
    with searching(catalog, tmp_path / "keywords", wait=commit_at_the_second_look) as desk:
        answer = desk.ask("tide", min_version={"tides.md": status.indexed_version + 1})
        assert [hit.chunk.text for hit in answer.hits] == ["The tide turns at midnight."]
        assert len(waits) == 2


def test_min_version_gives_up_with_the_document_named(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns at noon.")
    with searching(catalog, tmp_path / "keywords", limits=dataclasses.replace(OPEN_LIMITS, patience_seconds=0.01)) as desk:
        desk.replicas.load_known()
        with pytest.raises(VersionNotReached, match=r"tides\.md"):
            desk.ask("tide", min_version={"tides.md": 1_000_000})


def test_a_replica_that_cannot_follow_in_time_is_behind_not_empty(catalog: Catalog, tmp_path: Path) -> None:
    Library(catalog).put("tides.md", "The tide turns at noon.")
    limits = dataclasses.replace(OPEN_LIMITS, patience_seconds=0.0)
    with searching(catalog, tmp_path / "keywords", limits=limits) as desk, pytest.raises(ReplicaBehind):
        desk.ask("tide")


def test_chunks_are_answered_in_the_order_asked_and_only_when_visible(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    library.put("tides.md", "The tide turns at noon.\n\nThe moon pulls.")
    library.put("gone.md", "The tide is gone.")
    with searching(catalog, tmp_path / "keywords") as desk:
        hits = {hit.chunk.text: hit.chunk.chunk_id for hit in desk.ask("tide moon", k=10).hits}
        library.delete("gone.md")
        asked: Sequence[ChunkId] = [
            hits["The moon pulls."],
            ChunkId(bytes(16)),
            hits["The tide is gone."],
            hits["The tide turns at noon."],
        ]
        found = desk.searcher.chunks(MAIN, asked)
        assert [chunk.text for chunk in found] == ["The moon pulls.", "The tide turns at noon."]


def test_the_answer_as_json_has_the_contracts_fields(catalog: Catalog, tmp_path: Path) -> None:
    library = Library(catalog)
    seq = library.put("tides.md", "The tide turns at noon.", metadata={"area": "north"})
    with searching(catalog, tmp_path / "keywords") as desk:
        body = answer_json(desk.ask("tide", explain=True))
    (hit,) = body["hits"]
    assert set(hit) == {
        "document", "chunk_id", "score", "scores", "text", "start", "end", "metadata", "version", "indexed_at", "stale",
    }  # fmt: skip
    assert (hit["document"], hit["text"], hit["start"], hit["end"], hit["stale"]) == ("tides.md", "The tide turns at noon.", 0, 23, False)
    assert hit["metadata"]["area"] == "north"
    assert (body["snapshot"], body["complete"], body["degraded"], body["cache"]) == (seq, True, [], "miss")
    assert body["explain"]["rounds"] == 1
