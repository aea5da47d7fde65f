"""PDF: pages, paragraphs, and plain words for what cannot be read."""

from __future__ import annotations

import pytest
from kit.pdfs import pdf_of

from indexer.load.pdf import load_pdf, stretches
from store.errors import DocumentUnparsable

PDF = "application/pdf"
PROSE = "The quick brown fox jumps over the lazy dog while the band plays on and"


def test_pages_are_where_they_begin_and_the_title_is_the_documents() -> None:
    loaded = load_pdf(pdf_of([["First page here."], ["Second page here."], ["Third."]], title="The report"), PDF)
    assert [(page.page, loaded.text[page.start :].split("\n")[0]) for page in loaded.pages] == [
        (1, "First page here."),
        (2, "Second page here."),
        (3, "Third."),
    ]
    assert (loaded.title, loaded.faults) == ("The report", ())


@pytest.mark.parametrize("title", ["untitled", "(anonymous)", ""])
def test_a_writers_placeholder_is_no_title(title: str) -> None:
    assert load_pdf(pdf_of([["Text."]], title=title), PDF).title is None


def test_lines_of_prose_are_one_paragraph() -> None:
    lines = [PROSE, PROSE, "so it ends.", PROSE, "and ends again."]
    assert stretches("\n".join(lines)) == [f"{PROSE} {PROSE} so it ends.", f"{PROSE} and ends again."]


def test_lines_of_a_form_stay_lines() -> None:
    form = "Name: Ann\nCity: Bern\nTotal: 12.50"
    assert stretches(form) == [form]


def test_items_of_a_list_are_not_joined() -> None:
    assert stretches(f"1. {PROSE}\n2. {PROSE}\n- {PROSE}") == [f"1. {PROSE}\n2. {PROSE}\n- {PROSE}"]


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("divi\ufffe", "ded", "divided"),
        ("divi\u00ad", "ded", "divided"),
        ("divi-", "ded", "divided"),
        ("Self-", "Test", "Self-Test"),
        ("word", "next", "word next"),
    ],
)
def test_a_word_that_a_line_end_divides_is_one_again(first: str, second: str, joined: str) -> None:
    assert stretches(f"{PROSE} {first}\n{second} {PROSE}") == [f"{PROSE} {joined} {PROSE}"]


def test_chinese_lines_are_joined_without_a_space() -> None:
    line = "本系统只保留改变的部分删除的文档不再返回" * 3
    assert stretches(f"{line}\n{line}") == [line + line]


def test_a_page_without_text_is_a_fault_and_the_others_are_read() -> None:
    loaded = load_pdf(pdf_of([["One."], [], ["Three."]]), PDF)
    assert loaded.text.split() == ["One.", "Three."]
    assert [(fault.code, "2" in fault.message) for fault in loaded.faults] == [("page_without_text", True)]


def test_a_scan_says_that_it_has_no_text() -> None:
    loaded = load_pdf(pdf_of([[], []]), PDF)
    assert (loaded.text, loaded.pages) == ("", ())
    assert "no text" in loaded.faults[0].message


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7\nnothing", b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n", pdf_of([["x"]])[:200]])
def test_a_damaged_file_is_rejected_as_damaged(content: bytes) -> None:
    with pytest.raises(DocumentUnparsable, match="damaged"):
        load_pdf(content, PDF)
