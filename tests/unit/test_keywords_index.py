"""The keyword index against a plain dictionary of rows, and against what can be wrong with its folder."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.keywords import engine, position_file
from store.keywords.analysis import row_terms
from store.keywords.pinned import Allowed
from store.keywords.segments import dead_rows, is_intact
from store.keywords.tantivy_index import DEAD_SHARE_MAX, KeywordFolderTaken, KeywordIndex, KeywordRow, KeywordsUnwritable, folder_of
from store.model import ChunkId, CollectionId, CollectionName, Namespace, Position, Seq

MATCH = "recipe 1"


def chunk(number: int) -> ChunkId:
    return ChunkId(number.to_bytes(16, "big"))


def row(number: int, text: str, document: str = "a.md", title: str | None = None, headings: tuple[str, ...] = ()) -> KeywordRow:
    return KeywordRow(chunk(number), document, text, title, headings)


def at(seq: int) -> Position:
    return Position("incarnation", Seq(seq))


def wait_until(is_so: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Waits for a state that another thread brings about."""
    gives_up_at = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > gives_up_at:
            return False
        threading.Event().wait(0.005)
    return True


def found(index: KeywordIndex, query: str, k: int = 10) -> list[int]:
    return [int.from_bytes(chunk_id, "big") for chunk_id, _ in index.search(query, k)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[KeywordIndex]:
    opened = KeywordIndex.open(tmp_path / "index", MATCH)
    yield opened
    opened.close()


# --- what is found ------------------------------------------------------------------------------------------


def test_a_new_index_has_no_position_and_finds_nothing(index: KeywordIndex) -> None:
    assert (index.position, index.count(), index.search("anything", 5)) == (None, 0, [])


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The server was running", "run"),
        ("公司的假期规定", "假期"),
        ("公司的假期规定", "假"),
        ("call getUserById first", "user"),
        ("call getUserById first", "getuserbyid"),
        ("set max_retry_count to 3", "retry"),
        ("Café", "cafe"),
        ("error E-1042 occurred", "e-1042"),
    ],
)
def test_a_word_is_found_in_any_of_its_forms(index: KeywordIndex, text: str, query: str) -> None:
    index.apply(at(1), [], [row(1, text), row(2, "something else 别的")])
    assert found(index, query) == [1]


def test_title_and_headings_are_searched(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(1, "text", title="Handbook"), row(2, "text", headings=("Leave", "Parental"))])
    assert (found(index, "handbook"), found(index, "parental")) == ([1], [2])


@pytest.mark.parametrize(
    "query", ['foo:bar AND "(', "* OR [a TO b}", "title:x^2 ~", "\\", "-", "", " \n", "NOT", "'", "?!。、", "\0", "/a(/"]
)
def test_nothing_in_a_query_is_syntax(index: KeywordIndex, query: str) -> None:
    index.apply(at(1), [], [row(1, "foo"), row(2, "quux")])
    assert 2 not in found(index, query)


def test_a_query_is_the_or_of_its_words_and_more_of_them_is_better(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(1, "alpha beta"), row(2, "alpha gamma"), row(3, "delta epsilon")])
    assert found(index, "beta alpha") == [1, 2]


def test_scores_are_bm25_and_ties_go_by_chunk_id(index: KeywordIndex) -> None:
    draw = random.Random(7)
    texts = {
        number: " ".join(draw.choices(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"], k=draw.randint(1, 12)))
        for number in range(40)
    }
    numbers = list(texts)
    draw.shuffle(numbers)
    for seq, number in enumerate(numbers):
        index.apply(at(seq), [], [row(number, texts[number])])
    hits = index.search("alpha zeta", 40)
    expected = bm25(texts, ["alpha", "zeta"])
    assert [hit[0] for hit in hits] == [
        item[0] for item in sorted(((item[0], item[1]) for item in hits), key=lambda hit: (-hit[1], hit[0]))
    ]
    assert {int.from_bytes(chunk_id, "big"): pytest.approx(score, rel=1e-4) for chunk_id, score in hits} == expected


def bm25(texts: dict[int, str], terms: list[str]) -> dict[int, float]:
    """Okapi BM25, k1 1.2, b 0.75, lucene's idf."""
    words = {number: Counter(text.split()) for number, text in texts.items()}
    average = sum(sum(counted.values()) for counted in words.values()) / len(words)
    scores: dict[int, float] = {}
    for term in terms:
        holding = sum(term in counted for counted in words.values())
        weight = math.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
        for number, counted in words.items():
            if count := counted[term]:
                length = 0.25 + 0.75 * sum(counted.values()) / average
                scores[number] = scores.get(number, 0.0) + weight * count * 2.2 / (count + 1.2 * length)
    return scores


def test_equal_rows_come_in_chunk_order_even_where_the_cut_falls_among_them(index: KeywordIndex) -> None:
    numbers = list(range(200))
    random.Random(3).shuffle(numbers)
    for seq, some in enumerate(numbers[at_ : at_ + 25] for at_ in range(0, 200, 25)):
        index.apply(at(seq), [], [row(number, "same words") for number in some])
    assert found(index, "same", 5) == [0, 1, 2, 3, 4]


# --- filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [2, 20, 50, 1_000])
def test_a_filter_loses_no_hit_however_rare_the_admitted_are(index: KeywordIndex, share: int) -> None:
    index.apply(at(1), [], [row(number, "common " + "filler " * (number % 9)) for number in range(3_000)])
    admitted = {chunk(number) for number in range(0, 3_000, share)}
    everything = [hit for hit in index.search("common", 3_000) if hit[0] in admitted][:5]
    assert len(everything) == min(5, len(admitted))
    assert index.search("common", 5, admitted) == everything
    assert index.search("common", 5, admitted.__contains__) == everything
    assert index.search("common", 5, list(admitted)) == everything
    known = Allowed(frozenset(admitted), frozenset({"a.md"}))
    assert [index.search("common", 5, known) for _ in range(2)] == [everything, everything]


def test_documents_limit_the_hits_to_their_chunks_without_changing_scores(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(1, "word", "a.md"), row(2, "word", "A.md"), row(3, "other", "a.md"), row(4, "word", "b c.md")])
    scores = dict(index.search("word", 9))
    assert index.search("word", 9, documents={"a.md", "b c.md"}) == [(chunk(1), scores[chunk(1)]), (chunk(4), scores[chunk(4)])]
    assert index.search("word", 9, documents=[]) == []


def test_nobody_admitted_is_no_hit(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(1, "word")])
    assert (index.search("word", 9, set()), index.search("word", 9, lambda _: False)) == ([], [])


# --- applying -----------------------------------------------------------------------------------------------


def test_what_is_applied_is_searchable_and_its_position_known(index: KeywordIndex) -> None:
    index.apply(at(7), [], [row(1, "alpha")])
    assert (index.position, found(index, "alpha")) == (at(7), [1])


def test_a_chunk_that_is_there_is_replaced(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(1, "alpha"), row(1, "beta")])
    index.apply(at(2), [], [row(1, "gamma")])
    assert (index.count(), found(index, "alpha"), found(index, "beta"), found(index, "gamma")) == (1, [], [], [1])


def test_a_chunk_both_removed_and_added_stays_as_added(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(1, "alpha")])
    index.apply(at(2), [chunk(1), chunk(1), chunk(99)], [row(1, "beta")])
    assert (found(index, "alpha"), found(index, "beta")) == ([], [1])


def test_any_run_of_changes_leaves_what_a_dictionary_has(tmp_path: Path) -> None:
    draw = random.Random(11)
    index, rows = KeywordIndex.open(tmp_path / "index", MATCH), {}
    for seq in range(60):
        removed = [chunk(draw.randrange(80)) for _ in range(draw.randrange(6))]
        added = [row(draw.randrange(80), f"word{draw.randrange(20)} common") for _ in range(draw.randrange(6))]
        for _ in range(draw.choice([1, 1, 2])):
            index.apply(at(seq), removed, added)
        for chunk_id in removed:
            rows.pop(chunk_id, None)
        rows |= {each.chunk_id: each for each in added}
        if draw.random() < 0.1:
            index.close()
            index = KeywordIndex.open(tmp_path / "index", MATCH)
            assert index.position == at(seq)
        assert {chunk_id for chunk_id, _ in index.search("common", 100)} == set(rows)
    words = {word for each in rows.values() for word in row_terms(each.text).words}
    assert set(index.vocabulary()) == words
    index.apply(at(60), [], [row(1_000, "last")])
    index.flush()
    assert wait_until(lambda: index.dead_share() <= DEAD_SHARE_MAX)
    index.close()


def test_scores_after_removals_are_those_of_an_index_that_never_had_the_removed(tmp_path: Path) -> None:
    worn, fresh = KeywordIndex.open(tmp_path / "worn", MATCH), KeywordIndex.open(tmp_path / "fresh", MATCH)
    worn.apply(at(1), [], [row(number, "alpha beta" if number % 2 else "alpha gamma delta") for number in range(100)])
    worn.apply(at(2), [chunk(number) for number in range(1, 100, 2)], [])
    worn.rewrite()
    fresh.apply(at(1), [], [row(number, "alpha gamma delta") for number in range(0, 100, 2)])
    fresh.flush()
    assert worn.search("alpha delta", 100) == fresh.search("alpha delta", 100)
    worn.close()
    fresh.close()


def test_rewriting_leaves_no_word_of_a_removed_row_on_disk(tmp_path: Path) -> None:
    index = KeywordIndex.open(tmp_path / "index", MATCH)
    index.apply(at(1), [], [row(number, f"plain{number} text") for number in range(100)] + [row(500, "xylophonesecret")])
    index.flush()
    index.apply(at(2), [chunk(500)], [])
    index.flush()
    assert dead_rows(next((tmp_path / "index").glob("generation-*"))) == 1
    index.rewrite()
    assert [path for path in (tmp_path / "index").rglob("*") if path.is_file() and b"xylophonesecret" in path.read_bytes()] == []
    assert (index.count(), index.position, found(index, "plain7")) == (100, at(2), [7])
    index.close()
    reopened = KeywordIndex.open(tmp_path / "index", MATCH)
    assert (reopened.count(), reopened.position) == (100, at(2))
    reopened.close()


def test_an_index_still_being_filled_has_no_position_when_opened_again(tmp_path: Path) -> None:
    index = KeywordIndex.open(tmp_path, MATCH)
    index.apply(at(3), [], [row(1, "alpha")])
    index.apply(None, [], [row(2, "beta")])
    index.close()
    reopened = KeywordIndex.open(tmp_path, MATCH)
    assert (reopened.position, reopened.count()) == (None, 0)
    reopened.close()


def test_clear_leaves_nothing(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(1, "alpha")])
    index.clear()
    assert (index.position, index.count(), found(index, "alpha"), list(index.vocabulary())) == (None, 0, [], [])
    index.apply(at(2), [], [row(2, "alpha")])
    assert found(index, "alpha") == [2]


def test_holds_tells_which_chunks_a_search_could_return(index: KeywordIndex) -> None:
    index.apply(at(1), [], [row(number, "word") for number in range(30)])
    index.apply(at(2), [chunk(1)], [])
    assert index.holds([chunk(1), chunk(2), chunk(77)]) == {chunk(2)}


def test_searches_see_whole_commits_while_another_thread_applies(index: KeywordIndex) -> None:
    index.apply(at(0), [], [row(number, "even odd") for number in range(10)])
    counts, failures, done = set(), [], threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                counts.add(len(index.search("even", 100)))
        except BaseException as error:  # noqa: BLE001 (an engine's panic counts too)
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for seq in range(1, 25):
        fresh = [row(seq * 100 + number, "even odd") for number in range(10)]
        index.apply(
            at(seq),
            [chunk((seq - 1) * 100 + number) for number in range(10)] if seq > 1 else [chunk(number) for number in range(10)],
            fresh,
        )
        if seq % 8 == 0:
            index.rewrite()
    done.set()
    for thread in threads:
        thread.join()
    assert (failures, counts) == ([], {10})


# --- the folder ---------------------------------------------------------------------------------------------


def filled(folder: Path) -> None:
    index = KeywordIndex.open(folder, MATCH)
    index.apply(at(5), [], [row(number, f"alpha word{number} 中文") for number in range(50)])
    index.flush()
    index.apply(at(6), [chunk(3)], [])
    index.close()


def test_an_index_is_found_again_as_it_was_left(tmp_path: Path) -> None:
    filled(tmp_path)
    index = KeywordIndex.open(tmp_path, MATCH)
    assert (index.position, index.count(), found(index, "word7")) == (at(6), 49, [7])
    index.close()


def opened_anew(folder: Path, must_match: str = MATCH) -> bool:
    """Whether the folder was emptied, and works."""
    index = KeywordIndex.open(folder, must_match)
    emptied = (index.position, index.count()) == (None, 0)
    index.apply(at(9), [], [row(1, "zulu")])
    assert found(index, "zulu") == [1]
    index.close()
    return emptied


def test_another_must_match_empties_the_index(tmp_path: Path) -> None:
    filled(tmp_path)
    assert opened_anew(tmp_path, "recipe 2")


def test_another_analysis_version_empties_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    monkeypatch.setattr(position_file, "ANALYSIS_VERSION", position_file.ANALYSIS_VERSION + 1)
    assert opened_anew(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != "lock")


def damage_by_removal(path: Path) -> None:
    path.unlink()


def damage_by_truncation(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage_by_a_flipped_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 0x55
    path.write_bytes(bytes(content))


def damage_by_garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff" * 40)


@pytest.mark.parametrize("damage", [damage_by_removal, damage_by_truncation, damage_by_a_flipped_byte, damage_by_garbage])
def test_a_damaged_file_never_fails_a_reader_and_never_serves_wrongly(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    filled(tmp_path / "model")
    for name in names(tmp_path / "model"):
        folder = tmp_path / name.replace("/", "-")
        filled(folder)
        victims = [path for path in folder.rglob("*") if path.is_file() and path.suffix == Path(name).suffix and path.name != "lock"]
        for victim in victims if Path(name).suffix not in (".lock", "") else []:
            damage(victim)
        index = KeywordIndex.open(folder, MATCH)
        assert (index.position, index.count()) in ((None, 0), (at(6), 49))
        assert found(index, "alpha", 100) == ([] if index.position is None else [number for number in range(50) if number != 3])
        index.apply(at(7), [], [row(900, "zulu")])
        assert found(index, "zulu") == [900]
        index.close()


def test_every_file_of_a_segment_is_checked(tmp_path: Path) -> None:
    filled(tmp_path)
    generation = next(tmp_path.glob("generation-*"))
    assert is_intact(generation)
    for path in [
        path for path in generation.iterdir() if path.suffix in {".idx", ".pos", ".term", ".store", ".fast", ".fieldnorm", ".del"}
    ]:
        kept = path.read_bytes()
        damage_by_a_flipped_byte(path)
        assert not is_intact(generation), path.suffix
        path.write_bytes(kept)
    assert is_intact(generation)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 1}', '{"seq": "x"}'])
def test_a_foreign_position_file_empties_the_index(tmp_path: Path, content: str) -> None:
    filled(tmp_path)
    (tmp_path / "position.json").write_text(content)
    assert opened_anew(tmp_path)


def test_foreign_files_in_the_folder_are_wiped(tmp_path: Path) -> None:
    (tmp_path / "generation-1").write_text("a file where a folder should be")
    (tmp_path / "sub" / "sub").mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("x")
    assert opened_anew(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["generation-1", "lock", "position.json"]


def test_a_generation_left_by_a_crashed_rewrite_is_removed_and_the_recorded_one_served(tmp_path: Path) -> None:
    filled(tmp_path)
    number = json.loads((tmp_path / "position.json").read_text())["generation"]
    (tmp_path / f"generation-{number + 1}").mkdir()
    (tmp_path / f"generation-{number + 1}" / "half.idx").write_bytes(b"x")
    index = KeywordIndex.open(tmp_path, MATCH)
    assert (index.position, index.count()) == (at(6), 49)
    index.rewrite()
    assert (index.count(), len(list(tmp_path.glob("generation-*")))) == (49, 1)
    index.close()


def test_a_failed_write_is_reported_and_the_committed_state_stays_served(index: KeywordIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.apply(at(1), [], [row(1, "alpha")])
    index.flush()

    def no_space(_: object) -> object:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "_document", no_space)
        with pytest.raises(KeywordsUnwritable, match="No space left"):
            index.apply(at(2), [chunk(1)], [row(number, "beta") for number in range(2, 2_000)])
        assert (index.position, found(index, "alpha"), found(index, "beta")) == (at(1), [1], [])
    index.apply(at(2), [chunk(1)], [row(2, "beta")])
    assert (index.position, found(index, "alpha"), found(index, "beta")) == (at(2), [], [2])


def test_a_second_opener_is_told_that_the_folder_is_taken(index: KeywordIndex, tmp_path: Path) -> None:
    with pytest.raises(KeywordFolderTaken, match="Another process writes"):
        KeywordIndex.open(tmp_path / "index", MATCH)


def test_the_folder_is_free_once_its_process_is_gone(tmp_path: Path) -> None:
    dying = (
        "import os, sys, pathlib; from store.keywords.tantivy_index import *; from store.model import *;"
        "index = KeywordIndex.open(pathlib.Path(sys.argv[1]), 'recipe 1');"
        "index.apply(Position('incarnation', Seq(4)), [], [KeywordRow(ChunkId(bytes(16)), 'a.md', 'alpha')]); index.flush(); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", dying, str(tmp_path)], check=False).returncode == 9
    index = KeywordIndex.open(tmp_path, MATCH)
    assert (index.position, found(index, "alpha")) == (at(4), [0])
    index.close()


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    index = KeywordIndex.open(tmp_path, MATCH)
    index.close()
    index.close()


def test_no_two_collections_share_a_folder_and_every_name_is_a_safe_one() -> None:
    pairs = [("a", "b/c"), ("a/b", "c"), ("a", "b"), ("..", "/etc"), ("", "x" * 5_000), ("A", "B"), ("\0", "空"), ("a", "B")]
    folders = {folder_of(Path("/root"), CollectionId(Namespace(namespace), CollectionName(name))) for namespace, name in pairs}
    assert (len(folders), {folder.parent for folder in folders}) == (len(pairs), {Path("/root")})
    assert {folder.name.isalnum() for folder in folders} == {True}
