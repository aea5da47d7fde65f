"""What a document is: its bytes first, then its name, then what its sender says."""

from __future__ import annotations

import io
import zipfile

import docx
import openpyxl
import pytest
from kit.pdfs import pdf_of

from indexer.load.detect import detect, type_of_declared
from indexer.load.formats import BY_TYPE, DOCX, EPUB, FEED, FORMATS, PDF, XLSX, XML
from indexer.load.registry import LOADER_VERSIONS, claims, load, loader_of
from store.errors import DocumentUnparsable


def saved(document: object) -> bytes:
    file = io.BytesIO()
    document.save(file)  # type: ignore[attr-defined]
    return file.getvalue()


def epub() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
    return file.getvalue()


CONTAINERS = {PDF: pdf_of([["x"]]), DOCX: saved(docx.Document()), XLSX: saved(openpyxl.Workbook()), EPUB: epub()}


@pytest.mark.parametrize("media_type", sorted(CONTAINERS))
@pytest.mark.parametrize("uri", ["a.txt", "a.pdf", "a.docx", "a", "a.md"])
def test_a_container_is_what_its_bytes_say_under_any_name(media_type: str, uri: str) -> None:
    assert detect(uri, CONTAINERS[media_type], "text/plain") == media_type


@pytest.mark.parametrize(
    ("uri", "declared", "media_type"),
    [
        ("a.md", "text/html", "text/markdown"),
        ("a", "text/html; charset=utf-8", "text/html"),
        ("a", "TEXT/Markdown", "text/markdown"),
        ("a", "application/x-ndjson", "application/json"),
        ("a", "text/unheard-of", "text/plain"),
        ("a", "application/octet-stream", "text/plain"),
        ("a.unknown", None, "text/plain"),
        ("a.png", None, None),
        ("a.PNG", "image/png", None),
        ("README", None, "text/plain"),
    ],
)
def test_of_text_the_name_goes_before_the_declaration(uri: str, declared: str | None, media_type: str | None) -> None:
    assert detect(uri, b"just text", declared) == media_type


def test_bytes_that_are_no_text_under_a_name_that_says_nothing_are_nobodys() -> None:
    assert detect("a", b"\x00\x01\x02", None) is None
    with pytest.raises(DocumentUnparsable, match="no loader claims"):
        load("a", b"\x00\x01\x02")


@pytest.mark.parametrize(
    "start", [b'<?xml version="1.0"?><rss version="2.0">', b"<feed xmlns='http://www.w3.org/2005/Atom'>", b"\n<rdf:RDF\n"]
)
def test_xml_that_is_a_feed_is_read_as_one(start: bytes) -> None:
    assert detect("a.xml", start) == FEED
    assert detect("a.xml", b"<config><rssreader/></config>") == XML
    assert detect("a.txt", start) == "text/plain"


def test_a_text_that_speaks_of_a_container_is_text() -> None:
    assert detect("a.txt", b"%PDF-1.4 is how such a file begins, and obj is a word") == "text/plain"


def test_every_format_has_a_loader_and_every_loader_a_version() -> None:
    assert all(callable(loader_of(one.media_type)) for one in FORMATS)
    assert {one.loader.partition(":")[0].rpartition(".")[2] for one in FORMATS} == set(LOADER_VERSIONS)


def test_no_extension_name_or_alias_means_two_formats() -> None:
    for part in ("extensions", "names", "aliases"):
        listed = [word for one in FORMATS for word in getattr(one, part).split()]
        assert sorted(set(listed)) == sorted(listed)
    assert not {alias for one in FORMATS for alias in one.aliases.split()} & set(BY_TYPE)


def test_what_a_document_is_claimed_by_is_what_it_is_loaded_as() -> None:
    assert all(claims(f"a.{extension}") for one in FORMATS for extension in one.extensions.split())


@pytest.mark.parametrize("declared", [None, "", ";", "application/octet-stream", "image/png", "nonsense"])
def test_a_declaration_that_says_nothing_is_none(declared: str | None) -> None:
    assert type_of_declared(declared) is None
