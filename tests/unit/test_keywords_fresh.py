"""The newest rows are served from memory as if they were on disk, and files are written out and anew while searches go on."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from store.keywords import engine, tantivy_index
from store.keywords.fresh import kept_length
from store.keywords.pinned import Allowed
from store.keywords.reader import Damaged, KeywordReader
from store.keywords.tantivy_index import DEAD_SHARE_MAX, WAITING_ROWS_MAX, KeywordIndex, KeywordRow, KeywordsUnwritable
from store.model import ChunkId, Position, Seq

MATCH = "recipe 1"
WORDS = ["tide", "moon", "ebb", "flood", "neap", "spring", "wave", "shore", "running", "runs", "潮汐", "月", "max_retry"]
Script = list[tuple[list[ChunkId], list[KeywordRow]]]


def chunk(number: int) -> ChunkId:
    return ChunkId((number * 0x9E3779B97F4A7C15 % 2**128).to_bytes(16, "big"))


def at(seq: int) -> Position:
    return Position("incarnation", Seq(seq))


def row(number: int, text: str, document: str = "a.md") -> KeywordRow:
    return KeywordRow(chunk(number), document, text)


def written(draw: random.Random, number: int) -> KeywordRow:
    weights = [40, 20, 10, 5, 4, 3, 3, 2, 2, 2, 2, 1, 1]
    return row(number, " ".join(draw.choices(WORDS, weights, k=draw.randint(1, 60))), f"{number % 7}.md")


def wait_until(is_so: Callable[[], bool], seconds: float = 20.0) -> bool:
    gives_up_at = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > gives_up_at:
            return False
        threading.Event().wait(0.005)
    return True


def number_on_disk(folder: Path) -> Position | None:
    reader = KeywordReader.open(folder, MATCH)
    return reader.position if isinstance(reader, KeywordReader) else None


@pytest.fixture
def index(tmp_path: Path) -> Iterator[KeywordIndex]:
    opened = KeywordIndex.open(tmp_path / "index", MATCH)
    yield opened
    opened.close()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written out or anew by itself."""
    monkeypatch.setattr(tantivy_index.Flusher, "waiting", lambda _self, urgent: urgent)
    monkeypatch.setattr(tantivy_index.Rewriter, "wear", lambda _self: None)


# --- scores ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("committed", "fresh"), [(0, 30), (5, 40), (60, 3), (400, 100), (3_000, 1)])
def test_a_fresh_row_and_its_neighbours_score_as_in_one_index(tmp_path: Path, held: None, seed: int, committed: int, fresh: int) -> None:
    draw = random.Random(seed)
    rows = [written(draw, number) for number in range(committed + fresh)]
    two, one = KeywordIndex.open(tmp_path / "two", MATCH), KeywordIndex.open(tmp_path / "one", MATCH)
    for index in (two, one):
        index.apply(at(1), [], rows[:committed])
        index.flush()
        index.apply(at(2), [], rows[committed:])
    one.flush()
    assert (two.position, two.count()) == (one.position, one.count()) == (at(2), committed + fresh)
    for query in ("tide", "running moon 潮汐", "neap max_retry 月 tide tide", "nowhere"):
        for k in (1, 10, committed + fresh):
            ours, theirs = two.search(query, k), one.search(query, k)
            tolerance = 2e-6 if committed < 1_000 else 1e-4
            assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], rel=tolerance)
            assert_same_order(ours, theirs, tolerance)
    two.close()
    one.close()


def assert_same_order(ours: list[tuple[ChunkId, float]], theirs: list[tuple[ChunkId, float]], tolerance: float) -> None:
    """Two rows may change places only where their scores are equal but for rounding."""
    expected = dict(theirs)
    for (our_chunk, score), (their_chunk, their_score) in zip(ours, theirs, strict=True):
        assert our_chunk == their_chunk or expected.get(our_chunk, their_score) == pytest.approx(score, rel=2 * tolerance)


def test_replaced_and_removed_rows_are_masked_and_counted_as_the_engine_counts_them(tmp_path: Path, held: None) -> None:
    draw = random.Random(5)
    two, one = KeywordIndex.open(tmp_path / "two", MATCH), KeywordIndex.open(tmp_path / "one", MATCH)
    removed, replaced = [chunk(number) for number in range(0, 40, 4)], [written(draw, number) for number in range(1, 40, 4)]
    rows = [written(draw, number) for number in range(300)]
    for index in (two, one):
        index.apply(at(1), [], rows)
        index.flush()
        index.apply(at(2), removed, replaced)
    one.flush()
    assert two.count() == one.count() == 290
    ours, theirs = two.search("tide moon", 300), one.search("tide moon", 300)
    assert {chunk_id: pytest.approx(score, rel=2e-6) for chunk_id, score in ours} == dict(theirs)
    assert list(two.vocabulary()) == list(one.vocabulary())
    assert two.holds([chunk(number) for number in range(50)]) == one.holds([chunk(number) for number in range(50)])
    assert two.chunks_of(["1.md", "2.md", "none.md"]) == one.chunks_of(["1.md", "2.md", "none.md"])
    two.close()
    one.close()


def test_lengths_are_kept_in_one_byte_as_the_engine_keeps_them() -> None:
    assert [kept_length(terms) for terms in (0, 1, 40, 41, 42, 57, 63, 100, 1_000, 2**31)] == [
        0, 1, 40, 40, 42, 56, 60, 96, 984, 2_013_265_944,
    ]  # fmt: skip


def test_filters_reach_fresh_rows_too(index: KeywordIndex, held: None) -> None:
    index.apply(at(1), [], [row(number, "tide", "old.md") for number in range(20)])
    index.flush()
    index.apply(at(2), [], [row(number, "tide", "new.md") for number in range(20, 30)])
    assert {chunk_id for chunk_id, _ in index.search("tide", 50, documents=["new.md"])} == {chunk(number) for number in range(20, 30)}
    only = {chunk(3), chunk(25)}
    assert {chunk_id for chunk_id, _ in index.search("tide", 50, only)} == only
    assert {chunk_id for chunk_id, _ in index.search("tide", 50, only.__contains__)} == only
    assert {chunk_id for chunk_id, _ in index.search("tide", 50, Allowed(only, {"old.md", "new.md"}))} == only


# --- what is written when ---------------------------------------------------------------------------------------


def test_a_fresh_row_is_searchable_at_once_and_on_disk_by_itself(index: KeywordIndex, tmp_path: Path) -> None:
    index.apply(at(7), [], [row(1, "tide")])
    assert (index.position, len(index.search("tide", 5))) == (at(7), 1)
    assert wait_until(lambda: number_on_disk(tmp_path / "index") == at(7))
    assert len(index.search("tide", 5)) == index.count() == 1


def test_many_rows_are_on_disk_when_apply_returns(index: KeywordIndex, tmp_path: Path, held: None) -> None:
    index.apply(at(1), [], [row(number, "tide") for number in range(WAITING_ROWS_MAX)])
    assert number_on_disk(tmp_path / "index") is None
    index.apply(at(2), [], [row(WAITING_ROWS_MAX, "tide")])
    assert number_on_disk(tmp_path / "index") == at(2)


def test_a_position_without_rows_reaches_the_disk_too(index: KeywordIndex, tmp_path: Path) -> None:
    index.apply(at(1), [], [row(1, "tide")])
    index.flush()
    index.apply(at(2), [], [])
    assert wait_until(lambda: number_on_disk(tmp_path / "index") == at(2))


def test_a_crash_before_the_flush_leaves_the_older_position_and_its_rows(tmp_path: Path) -> None:
    dying = (
        "import os, sys, pathlib; from store.keywords.tantivy_index import *; from store.model import *;"
        "index = KeywordIndex.open(pathlib.Path(sys.argv[1]), 'recipe 1');"
        "index.apply(Position('incarnation', Seq(4)), [], [KeywordRow(ChunkId(bytes(16)), 'a.md', 'alpha')]); index.flush();"
        "index.apply(Position('incarnation', Seq(5)), [ChunkId(bytes(16))], []); assert not index.count(); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", dying, str(tmp_path)], check=False).returncode == 9
    index = KeywordIndex.open(tmp_path, MATCH)
    assert (index.position, index.count()) == (at(4), 1)
    index.close()


def test_a_flush_that_fails_is_tried_again_and_its_rows_stay_served(
    index: KeywordIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.apply(at(1), [], [row(1, "ebb")])
    index.flush()
    failed = threading.Event()

    def no_space(_: object) -> object:
        failed.set()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "_document", no_space)
        index.apply(at(2), [chunk(1)], [row(2, "flood")])
        assert failed.wait(20)
        with pytest.raises(KeywordsUnwritable, match="No space left"):
            index.flush()
        assert (index.position, index.count(), len(index.search("flood", 5)), index.search("ebb", 5)) == (at(2), 1, 1, [])
        assert number_on_disk(tmp_path / "index") == at(1)
    assert wait_until(lambda: number_on_disk(tmp_path / "index") == at(2))
    assert (index.count(), len(index.search("flood", 5)), index.search("ebb", 5)) == (1, 1, [])


# --- writing anew -------------------------------------------------------------------------------------------------


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Runs `act` when the rows are copied and the switch is still to come."""
    really = tantivy_index.written_anew

    def copied_then_act(*arguments: Any) -> Any:
        fresh = really(*arguments)
        act()
        return fresh

    monkeypatch.setattr(tantivy_index, "written_anew", copied_then_act)


def test_what_changes_during_a_rewrite_is_in_the_new_files(
    index: KeywordIndex, tmp_path: Path, held: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        index.apply(at(2), [chunk(1), chunk(2)], [row(3, "flood"), row(50, "flood")])
        index.flush()
        index.apply(at(3), [chunk(50)], [row(2, "neap"), row(51, "neap")])

    index.apply(at(1), [], [row(number, "ebb") for number in range(10)])
    meanwhile(monkeypatch, change)
    index.rewrite()
    for _ in range(2):
        assert {chunk_id for chunk_id, _ in index.search("ebb", 50)} == {chunk(number) for number in (0, 4, 5, 6, 7, 8, 9)}
        assert {chunk_id for chunk_id, _ in index.search("flood", 50)} == {chunk(3)}
        assert {chunk_id for chunk_id, _ in index.search("neap", 50)} == {chunk(2), chunk(51)}
        assert (index.count(), index.position) == (10, at(3))
        index.flush()
    assert len(list((tmp_path / "index").glob("generation-*"))) == 1


def test_more_changes_than_a_switch_may_hold_back_are_written_before_it(
    index: KeywordIndex, held: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.apply(at(1), [], [row(number, "ebb") for number in range(10)])
    really = engine.Committed.pages

    def change_after_the_copy(source: engine.Committed) -> Iterator[list[Any]]:
        yield from really(source)
        index.apply(at(2), [chunk(1)], [row(number, "flood") for number in range(100, 100 + 2 * WAITING_ROWS_MAX)])

    with monkeypatch.context() as patched:
        patched.setattr(engine.Committed, "pages", change_after_the_copy)
        index.rewrite()
    assert (index.count(), len(index.search("ebb", 50)), index.position) == (9 + 2 * WAITING_ROWS_MAX, 9, at(2))


def test_an_index_cleared_during_a_rewrite_stays_empty(
    index: KeywordIndex, tmp_path: Path, held: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.apply(at(1), [], [row(1, "ebb")])
    with monkeypatch.context() as patched:
        meanwhile(patched, index.clear)
        index.rewrite()
    assert (index.position, index.count(), len(list((tmp_path / "index").glob("generation-*")))) == (None, 0, 1)
    index.apply(at(2), [], [row(2, "ebb")])
    index.rewrite()
    assert (index.position, len(index.search("ebb", 5))) == (at(2), 1)


def test_a_rewrite_that_fails_leaves_the_old_files_served(
    index: KeywordIndex, tmp_path: Path, held: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space() -> None:
        raise OSError(28, "No space left on device")

    index.apply(at(1), [], [row(1, "ebb")])
    with monkeypatch.context() as patched:
        meanwhile(patched, no_space)
        with pytest.raises(KeywordsUnwritable, match="No space left"):
            index.rewrite()
    index.apply(at(2), [], [row(2, "ebb")])
    index.flush()
    assert (number_on_disk(tmp_path / "index"), len(index.search("ebb", 5))) == (at(2), 2)
    assert len(list((tmp_path / "index").glob("generation-*"))) == 1


def test_a_crash_before_the_switch_leaves_the_old_generation_valid(tmp_path: Path) -> None:
    dying = (
        "import os, sys, pathlib; from store.keywords import tantivy_index; from store.keywords.tantivy_index import *;"
        "from store.model import *; index = KeywordIndex.open(pathlib.Path(sys.argv[1]), 'recipe 1');"
        "index.apply(Position('incarnation', Seq(4)), [], [KeywordRow(ChunkId(bytes(16)), 'a.md', 'alpha')]);"
        "tantivy_index.KeywordIndex._switch = lambda *_: os._exit(9); index.rewrite()"
    )
    assert subprocess.run([sys.executable, "-c", dying, str(tmp_path)], check=False).returncode == 9
    assert len(list(tmp_path.glob("generation-*"))) == 2
    index = KeywordIndex.open(tmp_path, MATCH)
    assert (index.position, index.count(), len(list(tmp_path.glob("generation-*")))) == (at(4), 1, 1)
    index.close()


def test_worn_files_are_written_anew_by_themselves(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(number, "ebb") for number in range(100)])
    index.flush()
    index.apply(at(2), [chunk(number) for number in range(50)], [])
    index.flush()
    assert wait_until(lambda: index.dead_share() <= DEAD_SHARE_MAX)
    assert (index.count(), index.position) == (50, at(2))


def test_closing_ends_a_rewrite_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    really = engine.Committed.pages

    def endless(source: engine.Committed) -> Iterator[list[Any]]:
        begun.set()
        while True:
            yield from really(source)

    index = KeywordIndex.open(tmp_path, MATCH)
    index.apply(at(1), [], [row(number, "ebb") for number in range(20)])
    index.flush()
    monkeypatch.setattr(engine.Committed, "pages", endless)
    index.apply(at(2), [chunk(number) for number in range(10)], [])
    index.flush()
    assert begun.wait(20)
    index.close()
    index = KeywordIndex.open(tmp_path, MATCH)
    assert (index.position, index.count(), len(list(tmp_path.glob("generation-*")))) == (at(2), 10, 1)
    index.close()


def scripts(seed: int, steps: int) -> Script:
    draw = random.Random(seed)
    return [
        (
            [chunk(draw.randrange(120)) for _ in range(draw.randrange(5))],
            [written(draw, draw.randrange(120)) for _ in range(draw.randrange(6))],
        )
        for _ in range(steps)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_flushes_and_rewrites_at_any_moment_change_no_answer(tmp_path: Path, seed: int) -> None:
    draw = random.Random(1_000 + seed)
    disturbed, calm = KeywordIndex.open(tmp_path / "disturbed", MATCH), KeywordIndex.open(tmp_path / "calm", MATCH)
    rows: dict[ChunkId, KeywordRow] = {}
    rewriting: list[threading.Thread] = []
    for seq, (removed, added) in enumerate(scripts(seed, 25), 1):
        for index in (disturbed, calm):
            index.apply(at(seq), removed, added)
        for chunk_id in removed:
            rows.pop(chunk_id, None)
        rows |= {each.chunk_id: each for each in added}
        match draw.randrange(8):
            case 0:
                disturbed.flush()
            case 1:
                disturbed.rewrite()
            case 2:
                rewriting.append(threading.Thread(target=disturbed.rewrite))
                rewriting[-1].start()
        assert disturbed.count() == calm.count() == len(rows)
        for query in ("tide", "moon 月"):
            assert {hit[0] for hit in disturbed.search(query, 200)} == {hit[0] for hit in calm.search(query, 200)}
        assert disturbed.holds(list(rows)) == set(rows)
    for thread in rewriting:
        thread.join()
    for index in (disturbed, calm):
        index.rewrite()
    assert disturbed.search("tide moon 潮汐", 200) == calm.search("tide moon 潮汐", 200)
    assert list(disturbed.vocabulary()) == list(calm.vocabulary())
    for index in (disturbed, calm):
        index.close()


# --- looking only -------------------------------------------------------------------------------------------------


def test_a_reader_sees_what_is_on_disk_beside_its_writer(index: KeywordIndex, tmp_path: Path, held: None) -> None:
    index.apply(at(1), [], [row(1, "ebb", "a.md"), row(2, "ebb", "b.md")])
    index.flush()
    index.apply(at(2), [], [row(3, "ebb", "c.md")])
    reader = KeywordReader.open(tmp_path / "index", MATCH)
    assert isinstance(reader, KeywordReader)
    assert (reader.position, reader.count(), reader.holds([chunk(1), chunk(3)])) == (at(1), 2, {chunk(1)})
    assert reader.chunks_of(["a.md", "c.md"]) == {"a.md": {chunk(1)}, "c.md": set()}
    assert [chunk_id for chunk_id, _ in reader.search("ebb", 5, [chunk(2), chunk(3)])] == [chunk(2)]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("must_match", [MATCH, "recipe 2"])
def test_a_reader_changes_no_file(tmp_path: Path, must_match: str) -> None:
    index = KeywordIndex.open(tmp_path / "index", MATCH)
    index.apply(at(1), [], [row(1, "ebb")])
    index.close()
    before = contents(tmp_path)
    reader = KeywordReader.open(tmp_path / "index", must_match)
    assert (reader is None, contents(tmp_path)) == (must_match != MATCH, before)


def test_a_reader_creates_nothing(tmp_path: Path) -> None:
    assert KeywordReader.open(tmp_path / "nowhere", MATCH) is None
    assert list(tmp_path.iterdir()) == []


def test_damage_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    index = KeywordIndex.open(tmp_path / "index", MATCH)
    index.apply(at(1), [], [row(1, "ebb")])
    index.close()
    for suffix in ("idx", "store"):
        folder = tmp_path / suffix
        shutil.copytree(tmp_path / "index", folder)
        victim = next(folder.rglob(f"*.{suffix}"))
        victim.write_bytes(bytes([victim.read_bytes()[0] ^ 0x55]) + victim.read_bytes()[1:])
        before = contents(folder)
        assert isinstance(KeywordReader.open(folder, MATCH), Damaged)
        assert contents(folder) == before
