"""What HTML keeps of links, lists and a page's own marks of what it is about."""

from __future__ import annotations

import pytest

from indexer.load.html import MAIN_CHARS_MIN, TARGET_CHARS_MAX, load_html
from store.model import LoadedText

LONG = "word " * (MAIN_CHARS_MIN // 4)


def html(source: str, **options: bool) -> LoadedText:
    return load_html(source.encode(), "text/html", **options)


def test_a_link_keeps_where_it_leads() -> None:
    assert html("a <a href='https://e.org/x?a=1&amp;b=2'>b <i>c</i></a>, d").text == "a [b c](https://e.org/x?a=1&b=2), d"


def test_links_can_be_left_out() -> None:
    assert html("a <a href=x>b</a>", links=False).text == "a b"


@pytest.mark.parametrize("target", ["#part", "javascript:x()", "JavaScript:x()", "data:text/html,x", "", "x" * (TARGET_CHARS_MAX + 1)])
def test_a_target_that_leads_nowhere_is_left_out(target: str) -> None:
    assert html(f"a <a href='{target}'>b</a> c").text == "a b c"


def test_a_bracket_in_a_target_does_not_end_the_link() -> None:
    assert html("<a href='/w/Mercury_(planet)'>Mercury</a>").text == "[Mercury](/w/Mercury_(planet%29)"


def test_a_link_around_blocks_is_no_link_and_offsets_stay_right() -> None:
    loaded = html("<a href=/x><h2>Title</h2><p>text</p></a><h2><a href=/y>Second</a></h2><p><a href=/z>end</a>")
    assert loaded.text == "Title\n\ntext\n\nSecond\n\n[end](/z)"
    assert [loaded.text[heading.start :].split("\n")[0] for heading in loaded.headings] == ["Title", "Second"]


def test_code_keeps_no_links() -> None:
    assert html("<pre>a <a href=/x>b</a>\nc</pre>").text == "a b\nc"


def test_blocks_after_a_link_are_found_at_their_place() -> None:
    loaded = html("<p><a href=/x>one</a></p><pre>x = 1</pre>")
    assert [loaded.text[block.start : block.end] for block in loaded.blocks] == ["x = 1"]


def test_items_are_marked_and_numbered_as_their_list_says() -> None:
    loaded = html("<ul><li>a<ol start=3><li>b<li>c</ol><li>d</ul>e")
    assert loaded.text == "- a\n  3. b\n  4. c\n- d\n\ne"


def test_a_link_that_is_an_item_has_the_sign_before_it() -> None:
    assert html("<ul><li><a href=/a>A</a><li><a href=/b>B</a></ul>").text == "- [A](/a)\n- [B](/b)"


def test_only_the_main_content_is_read_where_a_page_marks_it() -> None:
    page = f"<header>top</header><nav>menu</nav><main><h1>T</h1><nav>toc</nav><p>{LONG}</p></main><footer>end</footer>"
    assert html(page).text == f"T\n\n{LONG.strip()}"
    assert html(page, main_only=False).text.split("\n\n") == ["top", "menu", "T", "toc", LONG.strip(), "end"]


def test_what_follows_the_main_element_is_not_read() -> None:
    assert html(f"<div><main>{LONG}</main><p>after</p></div><p>last").text == LONG.strip()


@pytest.mark.parametrize("page", ["<main>short</main><p>rest", "<main>a</main><main>b</main><p>rest", "<p>rest</p><p>more"])
def test_a_page_without_one_main_content_that_says_enough_is_read_whole(page: str) -> None:
    assert "rest" in html(page).text


def test_a_page_that_is_nothing_but_navigation_is_read() -> None:
    assert html("<nav><a href=/a>A</a></nav>").text == "[A](/a)"


def test_a_main_element_marked_twice_is_one() -> None:
    assert html(f"<nav>menu</nav><main role=main>{LONG}</main>").text == LONG.strip()
