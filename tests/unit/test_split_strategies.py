"""Every strategy: nothing visible is lost, nothing is longer than asked, and each does what its name says."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.split.cut import STRATEGIES, SplitSettings, cut, strategy_for
from indexer.split.table import columns_of, delimiter_of, records
from store.model import Block, BlockKind, Heading, LoadedText

PARTS = ["a", "Bc", "word ", ". ", "。", "，", "\n", "\n\n", "  ", "文字", "e\u0301", "👨‍👩‍👧‍👦", "👍🏽", '"', ",", ";", "- ", "# "]
TEXTS = st.one_of(st.text(max_size=300), st.lists(st.sampled_from(PARTS), max_size=250).map("".join))
LIMITS = st.integers(12, 200).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most // 2), st.integers(0, most // 2)))
BOUNDED = sorted(STRATEGIES.keys() - {"whole"})


def texts(text: str, strategy: str, chars_max: int = 100, overlap_chars: int = 0, media_type: str = "text/plain") -> list[str]:
    made = cut(LoadedText(text, media_type), SplitSettings(strategy, chars_max, chars_max // 4, overlap_chars))  # type: ignore[arg-type]
    return [text[piece.start : piece.end] for piece, _ in made]


def visible(text: str) -> list[int]:
    return [at for at, character in enumerate(text) if not character.isspace()]


@pytest.mark.parametrize("strategy", BOUNDED)
def test_pieces_cover_what_is_visible_ascend_and_keep_their_length(strategy: str) -> None:
    @settings(deadline=None, max_examples=120, derandomize=True)
    @given(TEXTS, LIMITS)
    def holds(text: str, limits: tuple[int, int, int]) -> None:
        most, least, overlap = limits
        split = STRATEGIES[strategy]
        pieces = split(LoadedText(text, "text/plain"), chars_max=most, chars_min=least, overlap_chars=overlap)
        covered = {at for piece in pieces for at in range(piece.start, piece.end)}
        assert set(visible(text)) <= covered
        assert all(before.start < after.start for before, after in itertools.pairwise(pieces))
        for piece in pieces:
            stretch = text[piece.start : piece.end]
            assert stretch == stretch.strip()
            assert len(stretch) <= max(most, 12)
        assert pieces == split(LoadedText(text, "text/plain"), chars_max=most, chars_min=least, overlap_chars=overlap)

    holds()


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("text", ["", " \n\t ", "\n"])
def test_nothing_is_cut_into_nothing(strategy: str, text: str) -> None:
    assert texts(text, strategy) == []


def test_whole_is_one_piece() -> None:
    assert texts(" one\n\n" + "two " * 100, "whole") == ["one\n\n" + ("two " * 100).strip()]


def test_fixed_windows_repeat_what_was_asked_for() -> None:
    text = "".join(random.Random(1).choice("abcdef") for _ in range(250))
    assert texts(text, "fixed", 100, 20) == [text[0:100], text[80:180], text[160:250]]
    assert texts(text, "fixed", 100) == [text[0:100], text[100:200], text[200:250]]


def test_fixed_windows_tear_no_cluster() -> None:
    assert texts("👨‍👩‍👧‍👦" * 5, "fixed", 16) == ["👨‍👩‍👧‍👦" * 2, "👨‍👩‍👧‍👦" * 2, "👨‍👩‍👧‍👦"]


def test_recursion_goes_from_paragraphs_to_words() -> None:
    paragraph = "some words of a paragraph " * 3
    assert texts(f"{paragraph}\n\n{paragraph}\n\nshort\n\nshorter", "recursive", 80) == [
        paragraph.strip(),
        paragraph.strip(),
        "short\n\nshorter",
    ]
    assert all(len(piece) <= 50 and not piece.startswith("ords") for piece in texts(paragraph * 4, "recursive", 50))


def test_sentences_stay_whole_and_are_packed() -> None:
    text = "One is here. Two is here. Three is here! 四在这里。五在这里。"
    assert texts(text, "sentence", 26) == ["One is here. Two is here.", "Three is here! 四在这里。五在这里。"]


def test_an_overlap_is_made_of_whole_parts() -> None:
    text = " ".join(f"This is sentence {number}." for number in range(12))
    made = texts(text, "sentence", 100, 30)
    for before, after in itertools.pairwise(made):
        repeated = re.match(r"This is sentence \d+\.", after)
        assert repeated is not None
        assert repeated[0] in before


# --- tables -------------------------------------------------------------------------------------------------


def test_no_record_is_cut_however_many_lines_it_has() -> None:
    rows = [f'{number};"first line\nsecond; line ""quoted"" {number}";{number * 7}' for number in range(40)]
    text = "Name;Note;Count\n" + "\n".join(rows) + "\n"
    made = texts(text, "table", 200)
    assert len(made) > 5
    assert all(any(row in piece for piece in made) for row in rows)


def test_an_edited_row_changes_the_pieces_around_it_alone() -> None:
    draw = random.Random(3)
    rows = [f"{number},{draw.random():.9f},name {draw.randrange(10**9)}" for number in range(400)]
    before = texts("id,value,name\n" + "\n".join(rows), "table", 500, media_type="text/csv")
    changed = []
    for _ in range(60):
        edited = list(rows)
        place = draw.randrange(len(rows))
        match draw.randrange(3):
            case 0:
                edited.insert(place, f"new,{draw.random()},row")
            case 1:
                del edited[place]
            case _:
                edited[place] = f"{place},changed,{draw.random()}"
        after = texts("id,value,name\n" + "\n".join(edited), "table", 500, media_type="text/csv")
        changed.append(len(set(after) - set(before)))
    assert sum(changed) / len(changed) <= 2
    assert max(changed) <= 4


@pytest.mark.parametrize(
    ("text", "delimiter", "columns"),
    [
        ("a,b\n1,2\n", ",", ["a", "b"]),
        ("Name;Region;Note\nx;y;1,5\n", ";", ["Name", "Region", "Note"]),
        ("a\tb c\n1\t2\n", "\t", ["a", "b c"]),
        ('"a;x";"b"\n1;2\n', ";", ["a;x", "b"]),
        ("1,2\n3,4\n", ",", []),
        ("a,a\n1,2\n", ",", []),
        ("a,\n1,2\n", ",", []),
        ("just a line\nand another\n", ",", []),
        ("", ",", []),
    ],
)
def test_the_first_record_names_the_columns_when_it_reads_as_a_head(text: str, delimiter: str, columns: list[str]) -> None:
    assert (delimiter_of(text), columns_of(LoadedText(text, "text/csv"))) == (delimiter, columns)


def test_every_piece_of_a_table_knows_its_columns() -> None:
    text = "id,name\n" + "\n".join(f"{number},name {number}" for number in range(50))
    made = cut(LoadedText(text, "text/csv"), SplitSettings("auto", 100, 25, 0))
    assert len(made) > 3
    assert {tuple(metadata["columns"]) for _, metadata in made} == {("id", "name")}


@pytest.mark.parametrize("head", ["x" * 200_000 + ",b", '"a\r",b'])
def test_a_first_record_that_no_reader_of_tables_takes_names_no_columns(head: str) -> None:
    assert columns_of(LoadedText(f"{head}\n1,2\n", "text/csv")) in ([], ["a", "b"])


def test_a_stray_quote_ends_with_its_line() -> None:
    text = 'a,b\n1,5" pipe\n' + "2,x\n" * 20_000
    assert [text[start:end] for start, end in records(text)][:3] == ["a,b", '1,5" pipe', "2,x"]


@pytest.mark.parametrize(
    ("loaded", "strategy"),
    [
        (LoadedText("a,b", "text/csv"), "table"),
        (LoadedText("a", "text/tab-separated-values"), "table"),
        (LoadedText("# T", "application/pdf", headings=(Heading(0, 1, "T"),)), "markdown"),
        (LoadedText("| a |", "text/x-rst", blocks=(Block(0, 5, BlockKind.TABLE),)), "markdown"),
        (LoadedText("plain", "text/markdown"), "text"),
        (LoadedText("def f(): ...", "text/x-python"), "text"),
    ],
)
def test_auto_takes_what_the_structure_asks_for(loaded: LoadedText, strategy: str) -> None:
    assert strategy_for(loaded) == strategy
