"""reStructuredText, AsciiDoc, JSON: the source stands as it is (or laid out), its structure is found by its shape."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.load.asciidoc import load_asciidoc
from indexer.load.json_text import PACKED_LINE_CHARS, laid_out, load_json
from indexer.load.rst import load_rst
from store.model import LoadedText


def titles(loaded: LoadedText) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in loaded.headings]


def stretches(loaded: LoadedText) -> list[str]:
    return [loaded.text[block.start : block.end] for block in loaded.blocks]


# --- reStructuredText ---------------------------------------------------------------------------------------


def rst(source: str) -> LoadedText:
    return load_rst(source.encode(), "text/x-rst")


def test_levels_of_sections_follow_the_order_of_their_adornments() -> None:
    loaded = rst("====\nBook\n====\n\nA\n=\n\nB\n--\n\nC\n~~~\n\nD\n===\n")
    assert titles(loaded) == [(1, "Book"), (2, "A"), (3, "B"), (4, "C"), (2, "D")]
    assert loaded.title == "Book"


@pytest.mark.parametrize("title", ["`Ref <x.html>`_", ":doc:`Ref </x>`", "``Ref``", "**Ref**"])
def test_a_title_is_shown_without_its_marks(title: str) -> None:
    assert titles(rst(f"{title}\n{'=' * len(title)}\n\ntext")) == [(1, "Ref")]


@pytest.mark.parametrize(
    "source", ["text\n\n----\n\nmore", "a\nb\n---\n", "  indented\n==========\n", "- item\n\n  ====\n", "=====\n", "x\n="]
)
def test_rules_and_paragraphs_are_no_titles(source: str) -> None:
    assert titles(rst(source)) in ([], [(1, "x")])


def test_code_and_tables_are_blocks() -> None:
    grid = "+--+--+\n|a | b|\n+==+==+\n|c | d|\n+--+--+"
    simple = "== ==\nA  B\n== ==\n1  2\n\n3  4\n== =="
    loaded = rst(f"Look::\n\n   code\n     more\n\nThen\n\n.. code-block:: python\n\n   x = 1\n\n{grid}\n\nmid\n\n{simple}\n\nend\n")
    assert stretches(loaded) == ["code\n     more", "x = 1", grid, simple]


def test_fields_at_the_top_are_metadata() -> None:
    loaded = rst("Title\n=====\n\n:Author: Ann\n   Lee\n:Language: de\n:Version: 2\n\nText\n\n:not: metadata\n")
    assert (dict(loaded.metadata), loaded.language) == ({"author": "Ann Lee", "doc_version": "2"}, "de")


def test_no_directive_is_carried_out() -> None:
    assert rst(".. include:: /etc/hostname\n").text == ".. include:: /etc/hostname\n"


# --- AsciiDoc -----------------------------------------------------------------------------------------------


def adoc(source: str) -> LoadedText:
    return load_asciidoc(source.encode(), "text/x-asciidoc")


def test_asciidoc_gives_titles_blocks_and_its_header() -> None:
    loaded = adoc(
        "= Manual\nAnn Lee <a@e.org>\nv1.2\n:lang: de\n:toc: left\n\n"
        "Intro\n\n== Part [[p]]\n\n----\n== code\n----\n\n|===\n|a |b\n|===\n\n=== Deep ===\n"
    )
    assert titles(loaded) == [(1, "Manual"), (2, "Part"), (3, "Deep")]
    assert stretches(loaded) == ["----\n== code\n----", "|===\n|a |b\n|==="]
    assert (loaded.title, loaded.language, dict(loaded.metadata)) == ("Manual", "de", {"author": "Ann Lee"})


def test_a_block_that_never_ends_hides_no_text() -> None:
    loaded = adoc("= T\n\n----\ncode\n\n== hidden\n")
    assert (loaded.text, stretches(loaded)) == ("= T\n\n----\ncode\n\n== hidden\n", [])


def test_a_text_without_a_header_has_no_metadata() -> None:
    assert dict(adoc("Just text\n:author: not me\n").metadata) == {}


# --- JSON ---------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(values, st.booleans())
def test_laying_out_changes_no_value(value: object, escaped: bool) -> None:
    packed = json.dumps([value, "x" * PACKED_LINE_CHARS], ensure_ascii=escaped)
    text = load_json(packed.encode("utf-8", "replace"), "application/json").text
    expected = json.loads(packed.encode("utf-8", "replace").decode())
    assert _without_surrogates(json.loads(text, strict=False)) == _without_surrogates(expected)
    assert text.count("\n") >= 2


def _without_surrogates(value: object) -> object:
    """A lone surrogate cannot stand in a text, and NUL is removed from it."""
    plain = json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain.replace("\ufffd", "").replace("\\u0000", "")


def test_numbers_keep_their_digits_and_double_keys_stay() -> None:
    packed = '{"a": 1.10, "a": 10000000000000000000000001, "pad": "' + "x" * PACKED_LINE_CHARS + '"}'
    text = load_json(packed.encode(), "application/json").text
    assert text.startswith('{\n  "a": 1.10,\n  "a": 10000000000000000000000001,\n')


def test_what_is_laid_out_already_stands_as_it_is() -> None:
    source = '{\n    "a": [1,\n  2]\n}\n{"line": 2}\n'
    assert load_json(source.encode(), "application/json").text == source


def test_escaped_characters_are_shown_as_people_read_them() -> None:
    assert load_json(rb'{"a": "\u4e2d\u6587 \ud83d\ude00 \\u4e2d \u0007 \u0022"}', "x").text == '{"a": "中文 😀 \\\\u4e2d \\u0007 \\u0022"}'


@pytest.mark.parametrize("packed", ["[" * 100_000, '{"a": ' * 10_000, "x" * 5000, '"' + "y" * 5000, '{"a": }' * 1000])
def test_what_is_no_valid_json_loses_nothing(packed: str) -> None:
    text = load_json(packed.encode(), "application/json").text
    assert text.replace(" ", "").replace("\n", "") == packed.replace(" ", "")


def test_a_short_line_is_left_alone() -> None:
    assert laid_out('{"a": 1}') is None
