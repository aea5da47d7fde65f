"""What becomes of a text before the engine sees it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.keywords.analysis import TERM_CHARS_MAX, Terms, query_terms, row_terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Quick brown", ["the", "quick", "brown"]),
        ("snake_case_name", ["snake", "case", "name", "snake_case_name"]),
        ("kebab-case", ["kebab", "case", "kebab-case"]),
        ("getUserById", ["get", "user", "by", "id", "getuserbyid"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("v1.2.3", ["v1", "2", "3", "v1.2.3"]),
        ("the server's port", ["the", "server", "port"]),
        ("Café Łódź ØRSTED", ["cafe", "lodz", "orsted"]),
        ("ﬁle ｆｕｌｌ ½", ["file", "full", "1", "2"]),
        ("Straße", ["strasse"]),
        ("end.", ["end"]),
        ("- _ . '", []),
        ("Привет мир", ["привет", "мир"]),
    ],
)
def test_words_are_folded_and_identifiers_yield_their_parts_and_themselves(text: str, words: list[str]) -> None:
    assert list(row_terms(text).words) == words


@pytest.mark.parametrize(
    ("text", "words", "singles"),
    [
        ("中文假期", ["中文", "文假", "假期"], ["中", "文", "假", "期"]),
        ("第3章", ["3"], ["第", "章"]),
        ("卡万·肖特", ["卡万", "肖特"], ["卡", "万", "肖", "特"]),
        ("ガソリン", ["ガソ", "ソリ", "リン"], ["ガ", "ソ", "リ", "ン"]),
        ("한국어", ["한국", "국어"], ["한", "국", "어"]),
        ("NFL橄榄球", ["nfl", "橄榄", "榄球"], ["橄", "榄", "球"]),
        ("𠮷野家", ["𠮷野", "野家"], ["𠮷", "野", "家"]),
    ],
)
def test_runs_of_cjk_become_bigrams_with_each_character_kept_aside(text: str, words: list[str], singles: list[str]) -> None:
    assert row_terms(text) == Terms(tuple(words), tuple(singles))


def test_a_query_asks_for_a_cjk_character_only_where_it_stands_alone() -> None:
    assert query_terms("港 端口") == Terms(("端口",), ("港",))


@given(st.text(max_size=200))
def test_every_term_of_a_query_is_a_term_of_the_same_text_as_a_row(text: str) -> None:
    row, query = row_terms(text), query_terms(text)
    assert query.words == row.words
    assert set(query.singles) <= set(row.singles)


@given(st.text(max_size=200))
def test_a_term_holds_no_white_space_and_is_bounded(text: str) -> None:
    terms = row_terms(text)
    assert [term for term in terms.words + terms.singles if not term or term.split() != [term]] == []
    assert max((len(term) for term in terms.words), default=0) <= TERM_CHARS_MAX


@given(st.text(max_size=60), st.text(max_size=60))
def test_white_space_separates_texts(left: str, right: str) -> None:
    assert row_terms(f"{left}\n{right}").words == row_terms(left).words + row_terms(right).words


def test_a_mebibyte_without_a_space_is_one_bounded_term() -> None:
    assert row_terms("x" * (1 << 20)).words == ("x" * TERM_CHARS_MAX,)
    assert row_terms("a-" * 1000 + "a").words == ("a",) * 1001 + (("a-" * 1000)[:TERM_CHARS_MAX],)
