"""Laws of the splitter: what every cut keeps, whatever the text is."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.split.atoms import Atoms, prose_atoms
from indexer.split.boundaries import cuts_of
from indexer.split.clusters import cluster_starts
from indexer.split.cut import SplitSettings, cut
from indexer.split.text import split_text
from indexer.split.thin import filled
from store.model import Block, BlockKind, Heading, LoadedText, PageStart, Piece

MEDIA_TYPES = st.sampled_from(["text/plain", "text/csv", "text/markdown"])
PARTS = [
    "a",
    "Bc",
    "word ",
    ". ",
    "? ",
    "。",
    "，",
    "\n",
    "\n\n",
    "  ",
    "中",
    "文字",
    "e\u0301",
    "👨‍👩‍👧‍👦",
    "🇩🇪",
    "👍🏽",
    "한",
    "\u1112\u1161\u11ab",
    "…",
    "- ",
    "# ",
]
TEXTS = st.one_of(st.text(max_size=400), st.lists(st.sampled_from(PARTS), max_size=300).map("".join))
LIMITS = st.integers(8, 200).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most // 2), st.integers(0, most // 2)))


def pieces(
    text: str, chars_max: int = 1200, chars_min: int = 300, overlap_chars: int = 0, media_type: str = "text/plain"
) -> tuple[Piece, ...]:
    return split_text(LoadedText(text, media_type), chars_max=chars_max, chars_min=chars_min, overlap_chars=overlap_chars)


def texts(text: str, made: tuple[Piece, ...]) -> list[str]:
    return [text[piece.start : piece.end] for piece in made]


@settings(deadline=None)
@given(TEXTS, LIMITS, MEDIA_TYPES)
def test_every_visible_character_is_in_a_piece_and_pieces_ascend(text: str, limits: tuple[int, int, int], media_type: str) -> None:
    made = pieces(text, *limits, media_type)
    covered = {at for piece in made for at in range(piece.start, piece.end)}
    assert [at for at, character in enumerate(text) if not character.isspace() and at not in covered] == []
    assert all(before.start < after.start and before.end < after.end for before, after in pairwise(made))


@settings(deadline=None)
@given(TEXTS, LIMITS, MEDIA_TYPES)
def test_a_piece_has_no_white_space_around_it_and_fits_unless_it_is_one_cluster(
    text: str, limits: tuple[int, int, int], media_type: str
) -> None:
    for piece in pieces(text, *limits, media_type):
        chunk = text[piece.start : piece.end]
        assert chunk == chunk.strip()
        assert len(chunk) <= limits[0] or len(cluster_starts(text, piece.start, piece.end)) == 1


@settings(deadline=None)
@given(TEXTS, LIMITS)
def test_no_piece_begins_or_ends_inside_a_grapheme_cluster(text: str, limits: tuple[int, int, int]) -> None:
    text = re.sub(r"\s+(?=\w)", " ", re.sub(r"\s(?![\w#.。-])", "_", text))
    allowed = {*cluster_starts(text, 0, len(text)), len(text)}
    ragged = [piece for piece in pieces(text, *limits) if text[piece.end : piece.end + 1].isspace() is False and piece.end not in allowed]
    assert ragged == []
    assert [piece for piece in pieces(text, *limits) if piece.start not in allowed] == []


@settings(deadline=None)
@given(TEXTS, LIMITS)
def test_overlap_repeats_at_most_what_was_asked_and_moves_no_end(text: str, limits: tuple[int, int, int]) -> None:
    chars_max, chars_min, overlap = limits
    plain, overlapping = pieces(text, chars_max, chars_min), pieces(text, chars_max, chars_min, overlap)
    assert [piece.end for piece in plain] == [piece.end for piece in overlapping]
    assert all(before.end - after.start <= overlap for before, after in pairwise(overlapping))


def test_overlap_repeats_the_last_sentences_of_the_piece_before() -> None:
    text = " ".join(f"Sentence number {n} stands here." for n in range(40))
    made = pieces(text, 200, 50, 80)
    shared = [before.end - after.start for before, after in pairwise(made)]
    assert sum(length > 0 for length in shared) > len(shared) / 2
    assert all(chunk.startswith("Sentence") for chunk in texts(text, made))


def test_a_text_that_fits_is_one_piece_and_an_invisible_one_is_none() -> None:
    assert pieces("  one. Two.\n") == (Piece(2, 11),)
    assert pieces(" \n\t \u3000\n") == ()
    assert pieces("") == ()


def test_sentences_end_in_english_chinese_and_japanese() -> None:
    text = "It is so. 今天很好。明天呢？猫です。「はい。」そう"
    atoms = prose_atoms(text, 0, len(text))
    expected = ["It is so.", "今天很好。", "明天呢？", "猫です。", "「はい。」", "そう"]
    assert [text[start:end] for start, end in zip(atoms.starts, atoms.ends, strict=True)] == expected


def test_a_dot_before_a_small_letter_ends_no_sentence() -> None:
    text = "See e.g. the manual, please. Then go on with it."
    assert texts(text, pieces(text, 30, 0)) == ["See e.g. the manual, please.", "Then go on with it."]


def test_a_long_text_without_capital_letters_is_still_cut_at_its_dots() -> None:
    text = " ".join(f"the flow over plate {n}, at rest, is laminar . the wing is not ." for n in range(60))
    assert all(chunk.endswith(".") for chunk in texts(text, pieces(text, 300, 75)))


def test_an_over_long_sentence_is_cut_at_its_clauses_and_then_at_its_words() -> None:
    clauses = "，".join("甲乙丙丁戊己庚辛" for _ in range(40)) + "。"
    assert all(len(chunk) % 9 == 0 for chunk in texts(clauses, pieces(clauses, 60, 15)))
    words = " ".join(f"w{n:03}" for n in range(300))
    assert " ".join(texts(words, pieces(words, 60, 15))) == words


def test_wrapped_lines_are_joined_rather_than_sentences_torn() -> None:
    text = "One sentence that is\nwrapped over lines. Another\nsentence, wrapped as well."
    assert texts(text, pieces(text, 48, 10)) == ["One sentence that is\nwrapped over lines.", "Another\nsentence, wrapped as well."]


def test_rows_are_whole_in_tables_and_logs() -> None:
    rows = [f"{n},name {n}. Said so.,EU" for n in range(50)]
    text = "\n".join(rows)
    assert [row for chunk in texts(text, pieces(text, 100, 25, 0, "text/csv")) for row in chunk.split("\n")] == rows


def test_code_is_cut_before_lines_that_are_not_indented() -> None:
    blocks = [f"def f{n}():\n" + "".join(f"    x{i} = {n}\n" for i in range(8)) for n in range(12)]
    text = "\n".join(blocks)
    assert all(chunk.startswith("def ") for chunk in texts(text, pieces(text, 300, 75, 0, "text/x-python")))


@pytest.mark.parametrize("line", ["same line", "a longer line that is the same every time it comes"])
@pytest.mark.parametrize("joint", ["\n", "\n\n", ""])
def test_repeats_give_equal_large_pieces_and_one_more_costs_at_most_two(line: str, joint: str) -> None:
    def chunks(count: int) -> list[str]:
        text = joint.join([line] * count)
        return texts(text, pieces(text))

    before = chunks(2000)
    assert sorted(map(len, before))[len(before) // 2] > 600
    assert all(len(set(chunks(count)) - set(before)) <= 2 for count in range(2001, 2012))


def test_repeated_paragraphs_are_gathered_until_the_next_would_not_fit() -> None:
    paragraph = " ".join(f"Word{n}" for n in range(62)) + "."
    text = "\n\n".join([paragraph] * 50)
    assert {len(chunk) for chunk in texts(text, pieces(text))[:-1]} == {2 * len(paragraph) + 2}


def test_a_mark_after_a_sentence_end_stays_with_it() -> None:
    text = "好！\ufe0f再来。好"
    atoms = prose_atoms(text, 0, len(text))
    assert [text[start:end] for start, end in zip(atoms.starts, atoms.ends, strict=True)] == ["好！\ufe0f再来。", "好"]


def test_no_gap_between_places_is_longer_than_the_limit_where_there_are_places() -> None:
    assert filled([0, 10, 50], range(0, 60), 60, 20) == [0, *range(10, 51)]
    assert filled([0, 10, 50], [0, 10, 30, 50], 60, 20) == [0, 10, 30, 50]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 5000), st.integers(0, 40), st.text("abc. ,\n", max_size=40))
def test_cuts_far_from_an_edit_stay(seed: int, at: int, deleted: int, inserted: str) -> None:
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 9))) + draw.choice(["", "", ",", "."]) for _ in range(1200)]
    text = " ".join(words)
    edited = text[:at] + inserted + text[at + deleted :]
    shift = len(edited) - len(text)
    reach = 4 * (120 + 30)
    before = {piece.start for piece in pieces(text, 120, 30)}
    after = {piece.start for piece in pieces(edited, 120, 30)}
    assert {start for start in before if start < at - reach} == {start for start in after if start < at - reach}
    last = at + deleted + reach
    assert {start + shift for start in before if start > last} == {start for start in after if start > last + shift}


@pytest.mark.parametrize(
    "text",
    [
        "x" + " " * 200_000 + "y",
        "." * 200_000,
        "！" * 200_000,
        ".'" * 100_000,
        "a" * 200_000,
        "e" + "\u0301" * 200_000,
        "\n" * 200_000 + "\u0301",
        "，" * 200_000,
        "👨‍👩‍👧‍👦" * 20_000,
    ],
    ids=["spaces", "dots", "marks", "quotes", "one letter", "combining marks", "line ends", "commas", "families"],
)
@pytest.mark.parametrize("media_type", ["text/plain", "text/csv"])
def test_hostile_texts_are_cut_in_linear_time(text: str, media_type: str) -> None:
    assert pieces(text, media_type=media_type)


def test_only_a_single_cluster_exceeds_the_limit() -> None:
    text = "ab" + "e" + "\u0301" * 50 + "cd"
    assert texts(text, pieces(text, 20, 0)) == ["ab", "e" + "\u0301" * 50, "cd"]


def test_no_atoms_give_no_cuts() -> None:
    assert cuts_of("", Atoms(), chars_max=10, chars_min=2) == []


def test_marks_become_metadata_at_the_start_of_a_piece() -> None:
    sections = "".join(f"# Part {n}\n\n{'word ' * 30}\n\n" for n in range(3))
    headings = tuple(Heading(sections.index(f"# Part {n}"), 1, f"Part {n}") for n in range(3))
    pages = (PageStart(0, 1), PageStart(headings[2].start, 2))
    made = cut(LoadedText(sections, "text/markdown", headings=headings, pages=pages), SplitSettings(chars_max=200, chars_min=50))
    assert [metadata for _, metadata in made] == [
        {"headings": ["Part 0"], "page": 1},
        {"headings": ["Part 1"], "page": 1},
        {"headings": ["Part 2"], "page": 2},
    ]
    assert [dict(metadata) for _, metadata in cut(LoadedText("plain", "text/plain"), SplitSettings())] == [{}]


def test_a_block_stays_whole_where_it_fits() -> None:
    fence = "```\n" + "\n\n".join(f"x{n} = {n}" for n in range(12)) + "\n```"
    text = "Some words before it. " * 6 + "\n\n" + fence + "\n\n" + "Some words after it. " * 6
    start = text.index(fence)
    loaded = LoadedText(text, "text/markdown", blocks=(Block(start, start + len(fence), BlockKind.FENCE),))
    assert any(fence in text[piece.start : piece.end] for piece, _ in cut(loaded, SplitSettings(chars_max=200, chars_min=50)))
