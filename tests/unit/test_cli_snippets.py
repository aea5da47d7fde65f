from __future__ import annotations

from evercurrent.snippets import snippet, words_of

FILLER = "filler words that nobody asked for stand here, "


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert snippet("one\n\n  two", "two") == "one two"


def test_the_passage_around_the_words_is_shown_and_cut_between_words() -> None:
    text = FILLER * 20 + "turn the blue key until it clicks, " + FILLER * 20
    shown = snippet(text, "Which KEY clicks?")
    assert "turn the blue key until it clicks" in shown
    assert (shown[0], shown[-1], len(shown) <= 240) == ("…", "…", True)
    assert set(shown.strip("…").replace(",", " ").split()) <= set(text.replace(",", " ").split())


def test_the_window_with_the_most_distinct_words_wins() -> None:
    text = "key key key " + FILLER * 20 + "the key and the door " + FILLER * 20
    assert "the key and the door" in snippet(text, "key door")


def test_without_a_word_of_the_query_the_beginning_is_shown() -> None:
    shown = snippet(FILLER * 20, "zebra")
    assert shown.startswith("filler words")
    assert shown.endswith("…")


def test_at_the_end_of_the_text_nothing_is_cut_behind() -> None:
    shown = snippet(FILLER * 20 + "the key", "key")
    assert shown.startswith("…")
    assert shown.endswith("the key")


def test_ideographs_are_found_in_pairs() -> None:
    assert words_of("关闭电源") == {"关闭", "闭电", "电源"}
    text = "安装说明。" * 100 + "请先关闭电源，再打开盖子。" + "其他内容。" * 100
    shown = snippet(text, "怎么关闭电源？")
    assert "关闭电源" in shown
    assert len(shown) <= 240


def test_a_word_also_finds_its_longer_forms() -> None:
    text = FILLER * 20 + "pressing the button " + FILLER * 20
    assert "pressing" in snippet(text, "press")


def test_letters_that_grow_in_lower_case_move_no_place() -> None:
    text = "İ" * 400 + " the key " + FILLER * 20
    assert "the key" in snippet(text, "key")
