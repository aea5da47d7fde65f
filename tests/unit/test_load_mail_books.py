"""Mail, books, feeds, notebooks: their parts are in the text, and one bad part does not hide the others."""

from __future__ import annotations

import io
import json
import zipfile
from email.message import EmailMessage
from typing import Any

import pytest

from indexer.load.eml import DEPTH_MAX, load_eml
from indexer.load.epub import load_epub
from indexer.load.feed import load_feed
from indexer.load.ipynb import OUTPUT_CHARS_MAX, load_ipynb
from store.errors import DocumentUnparsable
from store.model import LoadedText


def mail(subject: str = "Plan", body: str | None = "Hello") -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = subject, "Ann <ann@example.org>", "bob@example.org"
    message["Date"] = "Tue, 01 Dec 2026 10:00:00 +0100"
    if body is not None:
        message.set_content(body)
    return message


def read(message: EmailMessage) -> LoadedText:
    return load_eml(message.as_bytes(), "message/rfc822")


HEADER = "From: Ann <ann@example.org>\nTo: bob@example.org\nDate: Tue, 01 Dec 2026 10:00:00 +0100"


def test_a_mail_says_who_wrote_to_whom_about_what() -> None:
    loaded = read(mail("Prüfung", "Grüße\n\nzwei"))
    assert loaded.text == f"# Prüfung\n{HEADER}\n\nGrüße\n\nzwei"
    assert loaded.title == "Prüfung"
    assert dict(loaded.metadata) == {"from": "Ann <ann@example.org>", "to": "bob@example.org", "date": "2026-12-01T10:00:00+01:00"}


def test_the_plain_text_of_a_mail_is_preferred_to_its_html() -> None:
    message = mail()
    message.add_alternative("<p>Hello in <b>HTML</b></p>", subtype="html")
    assert read(message).text.endswith("\n\nHello")


@pytest.mark.parametrize("plain", [None, "  \n"])
def test_html_is_read_where_there_is_no_plain_text(plain: str | None) -> None:
    message = mail(body=plain)
    if plain is None:
        message.set_content("<p>Only <b>HTML</b></p>", subtype="html")
    else:
        message.add_alternative("<p>Only <b>HTML</b></p>", subtype="html")
    assert read(message).text.endswith("\n\nOnly HTML")


def test_attachments_are_sections_and_a_bad_one_is_a_fault() -> None:
    message = mail()
    message.add_attachment("# Notes\n\nremember", filename="notes.md")
    message.add_attachment(b"\x89PNG\r\n\x1a\n\0", maintype="image", subtype="png", filename="photo.png")
    message.add_attachment("a,b\n1,2", filename="table.csv")
    loaded = read(message)
    assert loaded.text.index("## notes.md") < loaded.text.index("remember") < loaded.text.index("## table.csv")
    assert [fault.code for fault in loaded.faults] == ["attachment_unread"]
    assert "photo.png" in loaded.faults[0].message
    assert loaded.metadata["attachments"] == ["notes.md", "photo.png", "table.csv"]
    assert [loaded.text[heading.start :].split("\n")[0].lstrip("# ") for heading in loaded.headings] == [
        "Plan",
        "notes.md",
        "Notes",
        "table.csv",
    ]


def test_mails_inside_mails_are_read_to_a_fixed_depth() -> None:
    message = mail("level 0", "text 0")
    for number in range(1, DEPTH_MAX + 2):
        outer = mail(f"level {number}", f"text {number}")
        outer.add_attachment(message)
        message = outer
    loaded = read(message)
    assert [number for number in range(DEPTH_MAX + 2) if f"text {number}" in loaded.text] == list(range(2, DEPTH_MAX + 2))
    assert [fault.code for fault in loaded.faults] == ["attachment_unread"]


@pytest.mark.parametrize("charset", ["iso-8859-15", "utf-8", "koi8-r", "no-such-charset"])
def test_a_declared_charset_is_only_a_hint(charset: str) -> None:
    body = "Straße und Größe".encode("utf-8" if charset in ("koi8-r", "no-such-charset") else charset)
    raw = f"Subject: x\nContent-Type: text/plain; charset={charset}\n\n".encode() + body
    assert load_eml(raw, "x").text.startswith("# x")


@pytest.mark.parametrize("raw", [b"", b"no header here", b"\0\0\0", b"<html>"])
def test_what_is_no_mail_is_rejected(raw: bytes) -> None:
    with pytest.raises(DocumentUnparsable, match="header of a mail"):
        load_eml(raw, "message/rfc822")


@pytest.mark.parametrize("value", ["=?utf-8?q?broken", "=?x?b?!!?=", "a" * 5000, ":", '"unclosed <a@'])
def test_malformed_headers_do_not_stop_a_mail(value: str) -> None:
    raw = f"Subject: {value}\nFrom: {value}\nTo: {value}\nDate: {value}\n\nbody here".encode()
    assert "body here" in load_eml(raw, "x").text


# --- books --------------------------------------------------------------------------------------------------

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)


def book(chapters: dict[str, str], *, spine: str = "", items: str = "", **parts: str) -> bytes:
    manifest = "".join(f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in chapters) + items
    order = spine or "".join(f'<itemref idref="{name}"/>' for name in chapters)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>The Book</dc:title>'
        "<dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator><dc:language>de</dc:language></metadata>"
        f"<manifest>{manifest}</manifest><spine>{order}</spine></package>"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OEBPS/book.opf", parts.pop("package", package))
        for name, text in chapters.items():
            archive.writestr(f"OEBPS/{name}.xhtml", f"<html><body>{text}</body></html>")
        for name, text in parts.items():
            archive.writestr(name.replace("__", "/"), text)
    return file.getvalue()


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    chapters = {"one": "<h1>One</h1><p>first</p>", "two": "<h1>Two</h1><p>second</p>"}
    loaded = load_epub(book(chapters, spine='<itemref idref="two"/><itemref idref="one"/><itemref idref="gone"/>'), "x")
    assert loaded.text == "Two\n\nsecond\n\nOne\n\nfirst"
    assert [(heading.start, heading.title) for heading in loaded.headings] == [(0, "Two"), (13, "One")]
    assert (loaded.title, loaded.language, loaded.metadata["authors"]) == ("The Book", "de", ["Ann", "Bob"])


def test_navigation_and_asides_of_a_book_are_left_out() -> None:
    chapters = {"one": "<p>text</p>", "aside": "<p>hidden</p>", "toc": "<p>contents</p>"}
    nav = '<item id="nav" href="toc.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    spine = '<itemref idref="nav"/><itemref idref="one"/><itemref idref="aside" linear="no"/>'
    assert load_epub(book(chapters, spine=spine, items=nav), "x").text == "text"


def test_a_missing_chapter_is_a_fault_and_the_others_are_read() -> None:
    lost = '<item id="lost" href="lost.xhtml" media-type="application/xhtml+xml"/>'
    loaded = load_epub(book({"one": "<p>text</p>"}, spine='<itemref idref="lost"/><itemref idref="one"/>', items=lost), "x")
    assert (loaded.text, [fault.code for fault in loaded.faults]) == ("text", ["chapter_unread"])


def test_a_protected_book_is_rejected_by_that_name() -> None:
    listing = '<encryption><CipherReference URI="OEBPS/one.xhtml"/></encryption>'
    with pytest.raises(DocumentUnparsable, match="DRM"):
        load_epub(book({"one": "<p>text</p>"}, **{"META-INF__encryption.xml": listing}), "x")


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(8))
    + "]><package>&i;</package>"
)


def test_entities_of_a_package_are_refused_not_expanded() -> None:
    with pytest.raises(DocumentUnparsable, match="declares entities"):
        load_epub(book({"one": "<p>text</p>"}, package=BOMB), "x")


# --- feeds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "feed",
    [
        "<rss><channel><title>News</title><language>en</language><link>https://e.org/</link>"
        "<item><title>A</title><link>https://e.org/a</link>"
        "<description>&lt;p&gt;b &lt;i&gt;c&lt;/i&gt;&lt;/p&gt;</description></item></channel></rss>",
        '<feed xmlns="http://www.w3.org/2005/Atom" ><title>News</title><link rel="self" href="https://e.org/feed"/><link href="https://e.org/"/>'
        '<entry><title>A</title><link href="https://e.org/a"/>'
        '<content type="html">&lt;p&gt;b &lt;i&gt;c&lt;/i&gt;</content><summary>x</summary></entry></feed>',
    ],
)
def test_a_feed_is_a_heading_an_entry(feed: str) -> None:
    loaded = load_feed(feed.encode(), "application/xml")
    assert loaded.text == "# News\n\n## A\nhttps://e.org/a\n\nb c"
    assert (loaded.title, loaded.metadata["link"]) == ("News", "https://e.org/")


def test_other_xml_stands_as_it_is() -> None:
    assert load_feed(b"<config><a>1</a></config>", "application/xml").text == "<config><a>1</a></config>"


@pytest.mark.parametrize("xml", [BOMB, '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><rss>&a;</rss>'])
def test_entities_of_a_feed_are_refused(xml: str) -> None:
    with pytest.raises(DocumentUnparsable, match="declares entities"):
        load_feed(xml.encode(), "application/xml")


# --- notebooks ----------------------------------------------------------------------------------------------


def notebook(*cells: Any, **metadata: Any) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells)}).encode()


def code(source: str | list[str], *outputs: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": list(outputs), "execution_count": 7}


def test_a_notebook_is_its_texts_its_code_and_what_it_printed() -> None:
    content = notebook(
        {"cell_type": "markdown", "source": ["# Study\n", "text"]},
        code("print(1)", {"output_type": "stream", "text": ["1\n"]}, {"output_type": "display_data", "data": {"image/png": "iVBOR"}}),
        code("1/0", {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["x"]}),
        language_info={"name": "python"},
    )
    loaded = load_ipynb(content, "x")
    assert loaded.text == (
        "# Study\ntext\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n```python\n1/0\n```\n\n```\nZeroDivisionError: division by zero\n```"
    )
    assert (loaded.title, len(loaded.blocks)) == ("Study", 4)


def test_code_that_contains_a_fence_stays_one_block() -> None:
    loaded = load_ipynb(notebook(code("s = '''\n```\n'''")), "x")
    assert [loaded.text[block.start : block.end] for block in loaded.blocks] == [loaded.text]


def test_a_long_output_is_cut_and_said() -> None:
    loaded = load_ipynb(notebook(code("x", {"output_type": "stream", "text": "y" * (OUTPUT_CHARS_MAX + 1)})), "x")
    assert loaded.text.count("y") == OUTPUT_CHARS_MAX
    assert [fault.code for fault in loaded.faults] == ["output_cut"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"a": 1}', b"[" * 100_000])
def test_what_is_no_notebook_is_rejected(raw: bytes) -> None:
    with pytest.raises(DocumentUnparsable):
        load_ipynb(raw, "application/x-ipynb+json")


@pytest.mark.parametrize(
    "cell", [None, 3, {}, {"cell_type": "code"}, {"cell_type": "code", "source": 5, "outputs": {}}, {"source": [1, "x"]}]
)
def test_odd_cells_do_not_stop_a_notebook(cell: Any) -> None:
    assert "kept" in load_ipynb(notebook(cell, {"cell_type": "markdown", "source": "kept"}), "x").text
