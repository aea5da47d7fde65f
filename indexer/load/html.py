"""HTML: the visible text in reading order, with headings, title and language (selectolax's one door).

Scripts, styles, templates and hidden elements are left out; navigation is kept, since nothing here judges what is worth reading.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from indexer.load.decode import clean, decode
from store.model import Block, BlockKind, Heading, LoadedText

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_SNIFFED_BYTES = 4096
_WEB_NAMES = {"iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
"""What browsers read under these names (WHATWG Encoding Standard)."""


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


_UNSEEN = _tags("script style template noscript head iframe object embed canvas audio video svg math datalist")
_PARAGRAPHS = _tags(
    "p div section article main header footer nav aside blockquote figure figcaption form fieldset ul ol dl pre hr details "
    "address h1 h2 h3 h4 h5 h6 body html hgroup search dialog center"
)
_LINES = _tags("li dt dd br summary legend option optgroup title")
_ROWS = _tags("table caption thead tbody tfoot tr")
_CELLS = frozenset({"td", "th"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPACE = re.compile(r"[ \t\n\r\f\v\u00a0]+")


def load_html(content: bytes, media_type: str) -> LoadedText:
    """White space is collapsed outside `pre`; a table row is a line, its cells joined by ` | `.

    Raises TextUndecodable, DocumentUnparsable.
    """
    from selectolax.lexbor import LexborHTMLParser

    source, faults = decode(content, media_type, declared_encoding(content))
    tree = LexborHTMLParser(source)
    page = _Page()
    if tree.root is not None:
        _read(tree.root, page)
    title_node = tree.css_first("head > title") or tree.css_first("title")
    title = " ".join(clean(title_node.text()).split()) if title_node is not None else ""
    first = next((heading.title for heading in page.headings if heading.level == 1 and heading.title), None)
    language = (tree.root.attributes.get("lang") or "").strip() if tree.root is not None else ""
    return LoadedText(
        "".join(page.parts),
        media_type,
        title=title or first,
        language=language or None,
        headings=tuple(page.headings),
        blocks=tuple(page.blocks),
        faults=faults,
    )


def declared_encoding(content: bytes) -> str | None:
    """The encoding that a `meta` element names, as browsers read it; None when there is none or Python does not know it."""
    found = _CHARSET.search(content, 0, _SNIFFED_BYTES)
    if found is None:
        return None
    name = found[1].decode("ascii").lower()
    name = _WEB_NAMES.get(name, name)
    try:
        codecs.lookup(name)
    except LookupError:
        return None
    return None if name.startswith(("utf-16", "utf-32")) else name


class _Page:
    """The text as it grows. Breaks, spaces and bars between cells are owed, and paid only before visible characters."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.length = 0
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self._breaks = 0
        self._bars = 0
        self._space = ""

    def owe_breaks(self, count: int) -> None:
        """Inside a table row that has begun, a paragraph at the start of a cell does not leave the line."""
        if not self._bars:
            self._breaks = max(self._breaks, count)
        self._space = ""

    def owe_row(self, count: int) -> None:
        self._bars = 0
        self.owe_breaks(count)

    def owe_cell(self, empty: bool) -> None:
        if not empty:
            self._breaks = 0
        self._bars += 1
        self._space = ""

    def owe_space(self, space: str = " ") -> None:
        if not self._breaks and not self._bars:
            self._space = space

    def write(self, text: str) -> None:
        text = self._owed() + text
        self._breaks, self._bars, self._space = 0, 0, ""
        self.parts.append(text)
        self.length += len(text)

    def _owed(self) -> str:
        breaks = "\n" * self._breaks if self.length else ""
        if self._bars:
            bars = "| " * self._bars
            return breaks + bars if breaks or not self.length else f" {bars}"
        return breaks or (self._space if self.length else "")

    @property
    def next_start(self) -> int:
        """Offset that the next visible character will have."""
        return self.length + len(self._owed())

    def text_from(self, start: int) -> str:
        """What was written since `start`, an offset at which a write began; only the last parts are looked at."""
        at, length = len(self.parts), self.length
        while at and length > start:
            at -= 1
            length -= len(self.parts[at])
        return "".join(self.parts[at:])[max(0, start - length) :]


def _read(root: LexborNode, page: _Page) -> None:
    """Walks the tree without recursion: pages are nested as deeply as their writers like."""
    opened: list[tuple[LexborNode, int]] = []
    pre = 0
    node: LexborNode | None = root
    while node is not None:
        tag = node.tag or ""
        if node.is_text_node:
            _write_text(page, node.text_content or "", pre > 0)
        elif node.is_element_node and not _is_unseen(node, tag):
            _open(page, tag)
            pre += tag == "pre"
            if node.child is not None:
                opened.append((node, page.next_start))
                node = node.child
                continue
            _close(page, tag, page.next_start)
            pre -= tag == "pre"
        while node is not None and node.next is None:
            if not opened:
                return
            node, start = opened.pop()
            tag = node.tag or ""
            _close(page, tag, start)
            pre -= tag == "pre"
        node = node.next if node is not None else None


def _is_unseen(node: LexborNode, tag: str) -> bool:
    return tag in _UNSEEN or "hidden" in node.attributes


def _open(page: _Page, tag: str) -> None:
    if tag in _ROWS:
        page.owe_row(2 if tag == "table" else 1)
    elif tag in _PARAGRAPHS:
        page.owe_breaks(2)
    elif tag in _LINES:
        page.owe_breaks(1)


def _close(page: _Page, tag: str, start: int) -> None:
    if tag in _HEADINGS and page.length > start:
        page.headings.append(Heading(start, _HEADINGS[tag], " ".join(page.text_from(start).split())))
    elif tag in ("pre", "table") and page.length > start and not (page.blocks and page.blocks[-1].end > start):
        page.blocks.append(Block(start, page.length, BlockKind.FENCE if tag == "pre" else BlockKind.TABLE))
    if tag in _CELLS:
        page.owe_cell(empty=page.length <= start)
    else:
        _open(page, tag)


def _write_text(page: _Page, raw: str, verbatim: bool) -> None:
    text = clean(raw)
    if verbatim:
        _write_verbatim(page, text)
        return
    words = _SPACE.sub(" ", text)
    kept = words.strip(" ")
    if words.startswith(" "):
        page.owe_space()
    if kept:
        page.write(kept)
        if words.endswith(" "):
            page.owe_space()


def _write_verbatim(page: _Page, text: str) -> None:
    """Text inside `pre`: kept as it is, but for the line ends around it."""
    kept = text.strip("\n")
    if not kept.strip():
        if "\n" in text:
            page.owe_breaks(min(2, text.count("\n")))
        else:
            page.owe_space(text or " ")
        return
    if text.startswith("\n"):
        page.owe_breaks(1)
    page.write(kept)
    if text.endswith("\n"):
        page.owe_breaks(1)
