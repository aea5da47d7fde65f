"""HTML: the visible text in reading order, with headings, title and language (selectolax's one door).

Scripts, styles, templates and hidden elements are left out. Where a page itself marks its main content only that is read, and what it marks
as navigation is not, unless all of it is asked for; nothing here guesses what is worth reading. Links are kept as `[text](target)`, items
of lists begin with `- ` or a number.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, NamedTuple

from indexer.load.decode import clean, decode
from store.model import Block, BlockKind, Heading, LoadedText

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

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
_LISTS = frozenset({"ul", "ol"})
_ROWS = _tags("table caption thead tbody tfoot tr")
_CELLS = frozenset({"td", "th"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
MAIN_CHARS_MIN = 200
"""A main element with less text than this is not believed to be what the page is about."""
TARGET_CHARS_MAX = 200
_NO_TARGET = re.compile(r"(?:javascript|data|vbscript|blob|about):|#|$", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\n\r\f\v\u00a0]+")


def load_html(content: bytes, media_type: str, *, main_only: bool = True, links: bool = True) -> LoadedText:
    """White space is collapsed outside `pre`; a table row is a line, its cells joined by ` | `.

    `main_only`: only what stands in the page's `main` element (or role), where it has just one with a text of its own, and no `nav`.
    `links`: whether their targets are kept. Raises TextUndecodable, DocumentUnparsable.
    """
    from selectolax.lexbor import LexborHTMLParser

    source, faults = decode(content, media_type, declared_encoding(content))
    tree = LexborHTMLParser(source)
    page = _page_of(tree, links, main_only)
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


def _page_of(tree: LexborHTMLParser, links: bool, main_only: bool) -> _Page:
    """The main content where it is asked for and says enough, else all."""
    main = _main_of(tree) if main_only else None
    for root, is_main, chars_min in ((main, True, MAIN_CHARS_MIN), (tree.root, main_only, 1)):
        page = _Page(links, is_main)
        if root is not None:
            _read(root, page)
        if page.length >= chars_min:
            return page
    page = _Page(links, main_only=False)
    if tree.root is not None:
        _read(tree.root, page)
    return page


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


def _main_of(tree: LexborHTMLParser) -> LexborNode | None:
    """The page's one main element; None when it has none or several."""
    found = {node.mem_id: node for node in tree.css("main, [role=main]")}
    return next(iter(found.values())) if len(found) == 1 else None


class _Page:
    """The text as it grows. Breaks, spaces and bars between cells are owed, and paid only before visible characters."""

    def __init__(self, links: bool, main_only: bool) -> None:
        self.links = links
        self.main_only = main_only
        self.parts: list[str] = []
        self.length = 0
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self._breaks = 0
        self._bars = 0
        self._space = ""
        self._item = ""
        self.heading_depth = 0
        self.items: list[int | None] = []
        """The lists that are open: the number of the last item, None where they are not numbered."""

    def owe_item(self) -> None:
        """Inside a table's cell a list has no signs: the cell is one line."""
        if self.items and not self._bars:
            number = self.items[-1]
            if number is not None:
                self.items[-1] = number = number + 1
            self._item = "  " * min(len(self.items) - 1, 8) + ("- " if number is None else f"{number}. ")

    def link(self, mark: int, target: str) -> None:
        """What was written since `mark` (a number of parts) leads to `target`; not where it goes over several lines."""
        text = "".join(self.parts[mark + 1 :])
        if text and "\n" not in text:
            self.parts[mark + 1 :] = [f"[{text}]({target})"]
            self.length += len(target) + 4

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
        """Writes what is owed, then `text`: always two parts, so that a link knows where its own text begins."""
        owed = self._owed()
        self._breaks, self._bars, self._space, self._item = 0, 0, "", ""
        self.parts += (owed, text)
        self.length += len(owed) + len(text)

    def _owed(self) -> str:
        breaks = ("\n" * self._breaks if self.length else "") + self._item
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


class _Opened(NamedTuple):
    """An element whose children are being read."""

    node: LexborNode
    start: int
    parts: int
    headings: int


def _read(root: LexborNode, page: _Page) -> None:
    """Walks the tree without recursion: pages are nested as deeply as their writers like."""
    opened: list[_Opened] = []
    verbatim = 0
    node: LexborNode | None = root
    while node is not None:
        tag = node.tag or ""
        if node.is_text_node:
            _write_text(page, node.text_content or "", verbatim > 0)
        elif node.is_element_node and not _is_unseen(node, tag, page):
            _open(page, node, tag)
            verbatim += tag == "pre"
            entered = _Opened(node, page.next_start, len(page.parts), len(page.headings))
            if node.child is not None:
                opened.append(entered)
                node = node.child
                continue
            _close(page, entered, tag, verbatim > 0)
            verbatim -= tag == "pre"
        while node is not None and (node.next is None or not opened):
            if not opened:
                return
            closing = opened.pop()
            node, tag = closing.node, closing.node.tag or ""
            _close(page, closing, tag, verbatim > 0)
            verbatim -= tag == "pre"
        node = node.next if node is not None else None


def _is_unseen(node: LexborNode, tag: str, page: _Page) -> bool:
    if tag in _UNSEEN or "hidden" in node.attributes:
        return True
    return page.main_only and (tag == "nav" or node.attributes.get("role") == "navigation")


def _open(page: _Page, node: LexborNode, tag: str) -> None:
    _owe(page, tag)
    if tag in _LISTS:
        page.items.append(_first_number(node) - 1 if tag == "ol" else None)
    elif tag == "li":
        page.owe_item()
    page.heading_depth += tag in _HEADINGS


def _owe(page: _Page, tag: str) -> None:
    if tag in _ROWS:
        page.owe_row(2 if tag == "table" else 1)
    elif tag in _LISTS and page.items:
        page.owe_breaks(1)
    elif tag in _PARAGRAPHS:
        page.owe_breaks(2)
    elif tag in _LINES:
        page.owe_breaks(1)


def _first_number(node: LexborNode) -> int:
    start = node.attributes.get("start") or ""
    return int(start) if start.isdecimal() and len(start) < 8 else 1


def _close(page: _Page, closing: _Opened, tag: str, verbatim: bool) -> None:
    start = closing.start
    page.heading_depth -= tag in _HEADINGS
    if tag in _LISTS and page.items:
        page.items.pop()
    if tag in _HEADINGS and page.length > start:
        page.headings.append(Heading(start, _HEADINGS[tag], " ".join(page.text_from(start).split())))
    elif tag in ("pre", "table") and page.length > start and not (page.blocks and page.blocks[-1].end > start):
        page.blocks.append(Block(start, page.length, BlockKind.FENCE if tag == "pre" else BlockKind.TABLE))
    elif tag == "a" and page.links and not verbatim and not page.heading_depth and closing.headings == len(page.headings):
        target = (closing.node.attributes.get("href") or "").strip()
        if len(target) <= TARGET_CHARS_MAX and not _NO_TARGET.match(target):
            page.link(closing.parts, clean("".join(target.split())).replace(")", "%29"))
    if tag in _CELLS:
        page.owe_cell(empty=page.length <= start)
    else:
        _owe(page, tag)


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
