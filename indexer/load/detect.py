"""What a document is, by its bytes, its name and what its sender declared: a container that cannot be mistaken goes first, then the
name's extension, then the declaration, then whether it reads as text. Pure.
"""

from __future__ import annotations

import re

from indexer.load.formats import BY_ALIAS, BY_EXTENSION, BY_NAME, BY_TYPE, DOCX, EPUB, FEED, PDF, PPTX, XLS, XLSX, XML

PDF_START_BYTES = 1024
"""Readers of PDF accept this much before its header."""
TEXT_BYTES = 8192
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_WORKBOOK = ("Workbook".encode("utf-16-le"), "Book\0".encode("utf-16-le"))
FEED_START_BYTES = 4096
_FEED_START = re.compile(rb"<(?:rss|feed|rdf:RDF)[\s>]")
_OBJECT = re.compile(rb"\d\s+\d+\s+obj\b")
_ZIP_PARTS = ((b"word/document", DOCX), (b"ppt/presentation", PPTX), (b"xl/workbook", XLSX))
_NO_TEXT_NAMES = (
    "png jpg jpeg gif bmp ico webp tif tiff heic avif psd svgz mp3 mp4 m4a m4v mov avi mkv webm wav flac ogg opus zip gz tgz bz2 xz zst 7z "
    "rar tar jar war exe dll so dylib bin o a class pyc wasm iso dmg deb rpm apk msi db sqlite sqlite3 parquet feather npy npz pt onnx doc "
    "ppt odt ods odp rtf msg pst mobi azw3 ttf otf woff woff2"
)
_NO_TEXT = frozenset(_NO_TEXT_NAMES.split())
"""Extensions of formats that are no text and that no loader reads."""
_CONTROL_BYTES = bytes(code for code in range(32) if code not in b"\t\n\x0b\f\r\x1b") + b"\x7f"


def detect(uri: str, content: bytes, declared: str | None = None) -> str | None:
    """The media type of the loader that reads the document; None: no loader does. `declared` is a Content-Type."""
    found = container_of(content) or type_of_name(uri) or type_of_declared(declared) or _type_of_text(uri, content)
    return FEED if found == XML and _FEED_START.search(content, 0, FEED_START_BYTES) else found


def type_of_name(uri: str) -> str | None:
    """By the extension or the whole name; None when no loader claims it."""
    name = uri[uri.rfind("/") + 1 :].lower()
    dot = name.rfind(".")
    if dot <= 0:
        return BY_NAME.get(name)
    return BY_NAME.get(name) or BY_EXTENSION.get(name[dot + 1 :])


def type_of_declared(declared: str | None) -> str | None:
    """The media type that a Content-Type names, when a loader reads it. `text/plain` and unknown text are text."""
    named = (declared or "").partition(";")[0].strip().lower()
    if not named or named == "application/octet-stream":
        return None
    known = named if named in BY_TYPE else BY_ALIAS.get(named)
    return known or ("text/plain" if named.startswith("text/") else None)


def container_of(content: bytes) -> str | None:
    """A format that its bytes name beyond doubt, and that a loader reads."""
    if content.startswith(b"PK\x03\x04"):
        if content.startswith(b"application/epub+zip", 38):
            return EPUB
        return next((media_type for part, media_type in _ZIP_PARTS if part in content), None)
    if content.startswith(_OLE):
        return XLS if any(name in content for name in _OLE_WORKBOOK) else None
    start = content[:PDF_START_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n\0")
    return PDF if start.startswith(b"%PDF-") and _OBJECT.search(content) else None


def _type_of_text(uri: str, content: bytes) -> str | None:
    """Text under a name that says nothing; a picture's name is not one of those."""
    stem, _, extension = uri[uri.rfind("/") + 1 :].lower().rpartition(".")
    return "text/plain" if not (stem and extension in _NO_TEXT) and _reads_as_text(content) else None


def _reads_as_text(content: bytes) -> bool:
    start = content[:TEXT_BYTES]
    if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    return len(start) - len(start.translate(None, _CONTROL_BYTES)) == 0
