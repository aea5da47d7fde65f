"""Feeds (RSS, Atom): the channel's title, then each entry with its title and its text, read as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indexer.load.compose import Composer
from indexer.load.html import load_html
from indexer.load.text import load_text
from indexer.load.xml import parsed
from store.model import LoadedText

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_CONTENT = ("encoded", "content", "description", "summary")
"""Where an entry's text stands; the first that says something is the fullest."""


def load_feed(content: bytes, media_type: str) -> LoadedText:
    """Other XML stands as it is. Raises DocumentUnparsable: not well formed, or it declares entities."""
    root = parsed(content, media_type)
    name = _local(root)
    if name not in ("rss", "feed", "RDF"):
        return load_text(content, media_type)
    channel = _child(root, "channel") if name in ("rss", "RDF") else root
    channel = root if channel is None else channel
    out = Composer(media_type)
    title = _text(channel, "title")
    out.heading(1, title)
    _append_html(out, _text(channel, "description") or _text(channel, "subtitle"))
    for entry in root if name == "RDF" else channel:
        if _local(entry) in ("item", "entry"):
            _read_entry(entry, out)
    own: dict[str, Any] = {"link": _link(channel)}
    return out.loaded(title or None, _text(channel, "language") or None, own)


def _read_entry(entry: Element, out: Composer) -> None:
    out.heading(2, _text(entry, "title"))
    if link := _link(entry):
        out.line(link)
    _append_html(out, next((text for name in _CONTENT if (text := _text(entry, name))), ""))


def _append_html(out: Composer, html: str) -> None:
    if html:
        out.append(load_html(f'<meta charset="utf-8"><body>{html}'.encode("utf-8", "replace"), "text/html"), level_below=2)


def _link(node: Element) -> str | None:
    """RSS writes it as text, Atom as an attribute."""
    for child in node:
        if _local(child) == "link" and child.get("rel") in (None, "alternate"):
            return (child.text or "").strip() or child.get("href")
    return None


def _text(node: Element, name: str) -> str:
    child = _child(node, name)
    return "" if child is None else "".join(child.itertext()).strip()


def _child(node: Element, name: str) -> Element | None:
    return next((child for child in node if _local(child) == name), None)


def _local(node: Element) -> str:
    return node.tag.rpartition("}")[2]
