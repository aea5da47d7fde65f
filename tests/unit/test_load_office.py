"""Word documents, presentations and workbooks: what people see in them is in the text, in reading order, with its structure."""

from __future__ import annotations

import io
from datetime import date, datetime, time
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from indexer.load.docx import load_docx
from indexer.load.pptx import load_pptx
from indexer.load.sheets import Merged, shown
from indexer.load.xls import load_xls
from indexer.load.xlsx import load_xlsx
from store.errors import DocumentUnparsable
from store.model import BlockKind, LoadedText

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def saved(document: Any) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def stretches(loaded: LoadedText) -> list[str]:
    return [loaded.text[block.start : block.end] for block in loaded.blocks]


# --- Word ---------------------------------------------------------------------------------------------------


def word(document: Any) -> LoadedText:
    return load_docx(saved(document), DOCX)


def test_a_word_document_gives_titles_paragraphs_and_tables_in_order() -> None:
    document = docx.Document()
    document.add_heading("The plan", 0)
    document.add_heading("First part", 1)
    document.add_paragraph("Some text.")
    table = document.add_table(2, 2)
    for at, text in enumerate(("Name", "Size", "A | b", "two\nlines")):
        table.cell(at // 2, at % 2).text = text
    document.add_heading("Detail", 2)
    document.add_paragraph("The end.")
    loaded = word(document)
    table_text = "| Name | Size |\n| --- | --- |\n| A \\| b | two lines |"
    assert loaded.text == f"# The plan\n\n# First part\n\nSome text.\n\n{table_text}\n\n## Detail\n\nThe end."
    assert [(heading.level, heading.title) for heading in loaded.headings] == [(1, "The plan"), (1, "First part"), (2, "Detail")]
    assert all(loaded.text[heading.start] == "#" for heading in loaded.headings)
    assert (stretches(loaded), loaded.blocks[0].kind) == ([table_text], BlockKind.TABLE)


def test_a_title_of_the_properties_goes_before_that_of_the_text() -> None:
    document = docx.Document()
    document.core_properties.title, document.core_properties.language = "Terms", "de-DE"
    document.core_properties.author, document.core_properties.keywords = "Legal", "a, b"
    document.add_heading("Something else", 1)
    loaded = word(document)
    assert (loaded.title, loaded.language, dict(loaded.metadata)) == ("Terms", "de-DE", {"author": "Legal", "keywords": "a, b"})


def test_times_of_a_file_are_no_metadata() -> None:
    document = docx.Document()
    document.core_properties.created = datetime(2001, 2, 3)  # noqa: DTZ001
    document.add_paragraph("x")
    assert "2001" not in str(word(document).metadata)


def paragraph_of(inner: str) -> Any:
    return parse_xml(f"<w:p {nsdecls('w')}>{inner}</w:p>")


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("<w:r><w:t>kept</w:t></w:r><w:ins><w:r><w:t> inserted</w:t></w:r></w:ins>", "kept inserted"),
        ("<w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText> deleted</w:delText></w:r></w:del>", "kept"),
        ("<w:sdt><w:sdtContent><w:r><w:t>in a control</w:t></w:r></w:sdtContent></w:sdt>", "in a control"),
        ("<w:smartTag><w:r><w:t>tagged</w:t></w:r></w:smartTag>", "tagged"),
        ("<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:noBreakHyphen/><w:t>c</w:t><w:br/><w:t>d</w:t></w:r>", "a\tb-c\nd"),
        ("<w:fldSimple w:instr='PAGE'><w:r><w:t>7</w:t></w:r></w:fldSimple><w:r><w:instrText>TOC</w:instrText></w:r>", "7"),
    ],
)
def test_what_a_reader_sees_of_a_paragraph_is_its_text(inner: str, text: str) -> None:
    document = docx.Document()
    document.element.body.insert(0, paragraph_of(inner))
    assert word(document).text == text


def test_a_control_around_paragraphs_hides_none_of_them() -> None:
    document = docx.Document()
    document.element.body.insert(
        0, parse_xml(f"<w:sdt {nsdecls('w')}><w:sdtContent><w:p><w:r><w:t>inside</w:t></w:r></w:p></w:sdtContent></w:sdt>")
    )
    assert word(document).text == "inside"


def test_the_numbers_of_lists_are_in_the_text() -> None:
    document = docx.Document()
    for style, text in (("List Number", "one"), ("List Number", "two"), ("List Bullet", "point"), ("List Number", "three")):
        document.add_paragraph(text, style=style)
    assert word(document).text.split("\n") == ["1. one", "2. two", "- point", "3. three"]


def numbered(level: int, text: str) -> Any:
    properties = f"<w:pPr><w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='77'/></w:numPr></w:pPr>"
    return paragraph_of(f"{properties}<w:r><w:t>{text}</w:t></w:r>")


def test_clauses_are_numbered_as_their_levels_say() -> None:
    document = docx.Document()
    numbering = document.part.numbering_part.element
    levels = "".join(
        f"<w:lvl w:ilvl='{level}'><w:start w:val='1'/><w:numFmt w:val='{kind}'/><w:lvlText w:val='{text}'/></w:lvl>"
        for level, kind, text in ((0, "decimal", "%1."), (1, "decimal", "%1.%2"), (2, "lowerLetter", "(%3)"), (3, "lowerRoman", "%4)"))
    )
    numbering.insert(0, parse_xml(f"<w:abstractNum {nsdecls('w')} w:abstractNumId='77'>{levels}</w:abstractNum>"))
    numbering.append(parse_xml(f"<w:num {nsdecls('w')} w:numId='77'><w:abstractNumId w:val='77'/></w:num>"))
    for at, (level, text) in enumerate([(0, "A"), (1, "B"), (1, "C"), (2, "D"), (2, "E"), (3, "F"), (0, "G"), (1, "H")]):
        document.element.body.insert(at, numbered(level, text))
    shown_lines = [line.strip() for line in word(document).text.split("\n")]
    assert shown_lines == ["1. A", "1.1 B", "1.2 C", "(a) D", "(b) E", "i) F", "2. G", "2.1 H"]


def test_pages_begin_where_the_document_breaks_them() -> None:
    document = docx.Document()
    document.add_paragraph("first")
    document.add_paragraph("still first").add_run().add_break(WD_BREAK.PAGE)
    document.add_paragraph("second")
    loaded = word(document)
    assert [(page.page, loaded.text[page.start :].split("\n")[0]) for page in loaded.pages] == [(1, "first"), (2, "second")]


def test_a_document_that_was_never_laid_out_has_no_pages() -> None:
    document = docx.Document()
    document.add_paragraph("x")
    assert word(document).pages == ()


def test_merged_cells_stand_once_and_rows_keep_their_length() -> None:
    document = docx.Document()
    table = document.add_table(2, 3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(0, 2).merge(table.cell(1, 2)).text = "tall"
    table.cell(1, 0).text = "x"
    assert word(document).text == "| wide |  | tall |\n| --- | --- | --- |\n| x |  |  |"


def test_a_table_in_a_cell_is_part_of_its_text() -> None:
    document = docx.Document()
    cell = document.add_table(1, 1).cell(0, 0)
    cell.text = "outer"
    inner = cell.add_table(1, 2)
    inner.cell(0, 0).text, inner.cell(0, 1).text = "a", "b"
    assert word(document).text.startswith("| outer a; b |")


@pytest.mark.parametrize("load", [load_docx, load_pptx, load_xlsx, load_xls])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"not at all", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600])
def test_what_is_no_office_document_is_rejected_with_the_reason(load: Any, content: bytes) -> None:
    with pytest.raises(DocumentUnparsable, match="it is"):
        load(content, "application/x")


# --- presentations ------------------------------------------------------------------------------------------


def test_slides_are_pages_with_their_titles_texts_tables_charts_and_notes() -> None:
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Opening"
    first.placeholders[1].text = "one\ntwo"
    first.notes_slide.notes_text_frame.text = "Say hello"
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Numbers"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(4), Inches(4), Inches(1)).table
    for at, text in enumerate(("a", "b", "1", "2")):
        table.cell(at // 2, at % 2).text = text
    data = CategoryChartData()
    data.categories = ["2003", "2004"]
    data.add_series("Sales", (1.5, 2))
    second.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(2), Inches(4), Inches(2), data)
    loaded = load_pptx(saved(deck), "x")
    assert loaded.text == (
        "# Opening\n\n- one\n- two\n\nNotes: Say hello\n\n# Numbers\n\n|  | Sales |\n| --- | --- |\n| 2003 | 1.5 |\n| 2004 | 2 |"
        "\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"
    )
    assert [(page.page, loaded.text[page.start :][:6]) for page in loaded.pages] == [(1, "# Open"), (2, "# Numb")]
    assert loaded.title == "Opening"


def test_shapes_are_read_from_top_to_bottom_also_inside_groups() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    for top, left, text in ((5, 1, "last"), (1, 4, "right"), (1, 1, "left")):
        slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(1)).text_frame.text = text
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(Inches(1), Inches(3), Inches(2), Inches(1)).text_frame.text = "grouped"
    assert load_pptx(saved(deck), "x").text.split("\n\n") == ["left", "right", "grouped", "last"]


# --- workbooks ----------------------------------------------------------------------------------------------


def workbook(fill: Any) -> LoadedText:
    book = openpyxl.Workbook()
    fill(book)
    return load_xlsx(saved(book), "x")


def test_sheets_are_headings_with_their_tables() -> None:
    def fill(book: Any) -> None:
        book.active.title = "North"
        for row in (["Name", "Points"], ["Ann", 3], ["Bob", 4.5], [], ["Total", 7.5]):
            book.active.append(row)
        book.create_sheet("Empty")
        book.create_sheet("South")["C3"] = "far"

    loaded = workbook(fill)
    assert loaded.text == (
        "## North\n\n| Name | Points |\n| --- | --- |\n| Ann | 3 |\n| Bob | 4.5 |\n\n"
        "| Total | 7.5 |\n| --- | --- |\n\n## South\n\n| far |\n| --- |"
    )
    assert [heading.title for heading in loaded.headings] == ["North", "South"]
    assert loaded.metadata["sheets"] == ["North", "Empty", "South"]


def test_a_cell_merged_downwards_says_its_value_in_every_row() -> None:
    def fill(book: Any) -> None:
        for row in (["Team", "Person"], ["Red", "Ann"], [None, "Bob"], ["Blue", "Cyd"]):
            book.active.append(row)
        book.active.merge_cells("A2:A3")

    assert "| Red | Bob |\n| Blue | Cyd |" in workbook(fill).text


def test_hidden_sheets_are_left_out_and_said() -> None:
    def fill(book: Any) -> None:
        book.active["A1"] = "seen"
        hidden = book.create_sheet("Secret")
        hidden["A1"], hidden.sheet_state = "unseen", "hidden"

    loaded = workbook(fill)
    assert "unseen" not in loaded.text
    assert [fault.code for fault in loaded.faults] == ["sheet_hidden"]


def test_a_sheet_that_lies_about_its_size_is_read_whole() -> None:
    def fill(book: Any) -> None:
        for number in range(50):
            book.active.append([f"row {number}"])

    assert "row 49" in workbook(fill).text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "TRUE"),
        (3.0, "3"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (12345678901234567890, "12345678901234567890"),
        (datetime(2026, 12, 1), "2026-12-01"),  # noqa: DTZ001
        (datetime(2026, 12, 1, 10, 30), "2026-12-01 10:30:00"),  # noqa: DTZ001
        (date(2026, 12, 1), "2026-12-01"),
        (time(9, 5), "09:05:00"),
        ("as is", "as is"),
    ],
)
def test_a_value_is_shown_as_people_read_it(value: Any, text: str) -> None:
    assert shown(value) == text


def test_merged_cells_that_overlap_or_lie_outside_do_no_harm() -> None:
    from indexer.load.compose import Composer
    from indexer.load.sheets import write_sheet

    out = Composer("x")
    write_sheet(
        out, "S", [["a", "b"], [None, "c"], [None]], [Merged(0, 0, 2, 0), Merged(0, 0, 1, 0), Merged(7, 9, 8, 9), Merged(1, 5, 2, 5)]
    )
    assert out.loaded().text == "## S\n\n| a | b |\n| --- | --- |\n| a | c |\n| a |  |"
