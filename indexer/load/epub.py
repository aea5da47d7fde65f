"""Books (EPUB): the chapters in the order of the spine, each read as HTML; title, authors and language from the package.

Navigation documents and what no reader is led through (not linear) are left out. XML is read without entities and nothing outside the
container is fetched.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from indexer.load.compose import Composer
from indexer.load.html import load_html
from indexer.load.xml import parsed
from store.errors import DocumentUnparsable, Rejected
from store.model import LoadedText

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

CHAPTERS_MAX = 5000
MEMBER_BYTES_MAX = 64 * 1024 * 1024
_HTML = frozenset({"application/xhtml+xml", "text/html", "application/html"})


def load_epub(content: bytes, media_type: str) -> LoadedText:
    """Raises DocumentUnparsable: no such container, damaged, or protected (DRM)."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive, media_type)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged or no book ({str(error)[:120]})") from error


def _read(archive: zipfile.ZipFile, media_type: str) -> LoadedText:
    container = parsed(_member(archive, "META-INF/container.xml", media_type), media_type)
    package_path = next((node.get("full-path") for node in container.iter() if _local(node) == "rootfile" and node.get("full-path")), None)
    if package_path is None:
        raise DocumentUnparsable(media_type=media_type, reason="its container names no package")
    package = parsed(_member(archive, package_path, media_type), media_type)
    protected = _protected(archive, media_type)
    out = Composer(media_type)
    own = _own(package)
    if description := own.pop("description", None):
        out.append(load_html(f"<p>{description}</p>".encode(), "text/html"))
    unread = 0
    for href in _spine(package)[:CHAPTERS_MAX]:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(package_path), unquote(href)))
        if path in protected:
            unread += 1
            continue
        try:
            out.append(load_html(_member(archive, path, media_type), "text/html"))
        except Rejected as error:
            out.fault("chapter_unread", f"The chapter {path[:120]!r} could not be read: {error.message}")
    if unread and out.is_empty:
        raise DocumentUnparsable(media_type=media_type, reason="its chapters are encrypted (DRM); get a copy without protection")
    if unread:
        out.fault("chapter_unread", f"{unread} chapters are encrypted and left out.")
    return out.loaded(own.pop("title", None), own.pop("language", None), own)


def _own(package: Element) -> dict[str, Any]:
    """What the package says of the book (Dublin Core), the first of each; all of its authors."""
    said: dict[str, Any] = {}
    authors: list[str] = []
    for node in package.iter():
        text = " ".join("".join(node.itertext()).split())
        if not text or "purl.org/dc/" not in node.tag:
            continue
        match _local(node):
            case "creator":
                authors.append(text)
            case "title" | "language" | "description" | "publisher" | "subject" as name:
                said.setdefault(name, text)
            case _:
                pass
    if authors:
        said["authors"] = authors
    return said


def _spine(package: Element) -> list[str]:
    """Paths of the chapters, relative to the package, in reading order."""
    items = {node.get("id"): node for node in package.iter() if _local(node) == "item"}
    chapters: list[str] = []
    for node in package.iter():
        item = items.get(node.get("idref")) if _local(node) == "itemref" and node.get("linear") != "no" else None
        if item is None or item.get("media-type") not in _HTML or "nav" in (item.get("properties") or "").split():
            continue
        if href := item.get("href"):
            chapters.append(href.partition("#")[0])
    return chapters


def _protected(archive: zipfile.ZipFile, media_type: str) -> frozenset[str]:
    """Paths that are encrypted (fonts often are, which does no harm)."""
    if "META-INF/encryption.xml" not in archive.namelist():
        return frozenset()
    listing = parsed(_member(archive, "META-INF/encryption.xml", media_type), media_type)
    return frozenset(unquote(node.get("URI") or "") for node in listing.iter() if _local(node) == "CipherReference")


def _member(archive: zipfile.ZipFile, path: str, media_type: str) -> bytes:
    try:
        with archive.open(path) as member:
            content = member.read(MEMBER_BYTES_MAX + 1)
    except (KeyError, RuntimeError, OSError) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"its part {path[:120]!r} is missing or damaged") from error
    except Exception as error:
        if type(error).__module__ == "zlib":
            raise DocumentUnparsable(media_type=media_type, reason=f"its part {path[:120]!r} is damaged") from error
        raise
    if len(content) > MEMBER_BYTES_MAX:
        raise DocumentUnparsable(media_type=media_type, reason=f"its part {path[:120]!r} exceeds the limit of {MEMBER_BYTES_MAX} bytes")
    return content


def _local(node: Element) -> str:
    return node.tag.rpartition("}")[2]
