"""Word documents (DOCX): paragraphs, lists with their numbers, tables and notes in reading order (python-docx's one door).

Inserted text is read and deleted text is not; content controls, text boxes and formulas are read. Comments, headers and footers are left
out. Page numbers are those that the word processor wrote when it last laid the document out.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from indexer.load.compose import Composer
from store.errors import DocumentUnparsable
from store.model import LoadedText

if TYPE_CHECKING:
    from docx.document import Document

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_NOTES = {"footnotes": "footnote", "endnotes": "endnote"}
_SKIPPED = frozenset({_W + "del", _W + "moveFrom", _MC + "Fallback", _W + "pPr", _W + "rPr", _W + "sdtPr", _W + "instrText"})
_SIGNS = {_W + "tab": "\t", _W + "cr": "\n", _W + "noBreakHyphen": "-", _W + "ptab": "\t"}
_FORMULAS = {_M + "f": ("", "/", ""), _M + "sSup": ("", "^", ""), _M + "sSub": ("", "_", ""), _M + "rad": ("√", "", "")}
_HEADING_STYLE = re.compile(r"heading (\d)", re.IGNORECASE)
TABLE_DEPTH_MAX = 4
"""Tables inside tables; deeper ones are read as the text of their cell."""


def load_docx(content: bytes, media_type: str) -> LoadedText:
    """Raises DocumentUnparsable: no such container, or damaged in a way that python-docx cannot pass."""
    from docx import Document as open_document

    try:
        document = open_document(io.BytesIO(content))
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged or no Word document ({_short(error)})") from error
    except Exception as error:
        if _is_of_the_parser(error):
            raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged ({_short(error)})") from error
        raise
    reading = _Reading(document, Composer(media_type))
    reading.read_blocks(document.element.body)
    reading.read_notes()
    if not any(relation.reltype.endswith("/core-properties") for relation in document.part.package.rels.values()):
        return reading.out.loaded(reading.title)
    properties = document.core_properties
    own: dict[str, Any] = {"author": properties.author, "subject": properties.subject, "keywords": properties.keywords}
    return reading.out.loaded(properties.title or reading.title, properties.language or None, own)


def _is_of_the_parser(error: Exception) -> bool:
    """Whether XML or the packaging failed: what python-docx raises there has no common class of its own."""
    return type(error).__module__.split(".")[0] in ("lxml", "docx")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


@dataclass(slots=True)
class _Line:
    """A paragraph as it grows."""

    parts: list[str] = field(default_factory=list)
    boxes: list[Any] = field(default_factory=list)
    """Text boxes anchored in it, read after it."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    pages: int = 0


class _Reading:
    """One document on its way into a text."""

    def __init__(self, document: Document, out: Composer) -> None:
        self.out = out
        self.title: str | None = None
        self._document = document
        self._styles = _style_names(document)
        self._numbering = _Numbering(document)
        self._notes: dict[tuple[str, str], Any] = {}
        self._noted: list[tuple[str, str]] = []
        self._page = 1
        self._break = _W + (
            "lastRenderedPageBreak" if next(document.element.body.iter(_W + "lastRenderedPageBreak"), None) is not None else "br"
        )
        self._has_pages = any(self._is_page_break(one) for one in document.element.body.iter(self._break))
        if self._has_pages:
            out.page(1)

    def read_blocks(self, parent: Any) -> None:
        for block in _blocks(parent):
            if block.tag == _W + "tbl":
                self.out.table(self._rows(block, TABLE_DEPTH_MAX))
            else:
                self._paragraph(block)

    def read_notes(self) -> None:
        """The notes that the text refers to, in its order."""
        for number, (kind, note_id) in enumerate(self._noted, 1):
            note = self._note(kind, note_id)
            if note is not None and (text := self._plain(note)):
                self.out.paragraph(f"[^{number}]: {text}")

    def _paragraph(self, paragraph: Any) -> None:
        line = self._line(paragraph)
        text = "".join(line.parts).strip()
        style_id, level = self._style(paragraph)
        number = self._numbering.next_number(paragraph, style_id)
        if text and level is not None:
            self.out.heading(level, f"{number} {text}" if number and number != "-" else text)
        elif text and number is not None:
            self.out.line(f"{'  ' * number.count(chr(0))}{number.replace(chr(0), '')} {text}")
        elif text:
            self.out.paragraph(text)
        if level == 1 and self.title is None:
            self.title = text or None
        for box in line.boxes:
            self.read_blocks(box)
        if line.pages:
            self._page += line.pages
            self.out.page(self._page)

    def _style(self, paragraph: Any) -> tuple[str | None, int | None]:
        """The paragraph's style and, when it is a heading, its level."""
        properties = paragraph.find(_W + "pPr")
        if properties is None:
            return None, None
        style = properties.find(_W + "pStyle")
        style_id = None if style is None else style.get(_W + "val")
        name = self._styles.get(style_id or "", "")
        if found := _HEADING_STYLE.fullmatch(name):
            return style_id, int(found[1]) or 1
        if name.lower() == "title":
            return style_id, 1
        outline = properties.find(_W + "outlineLvl")
        level = None if outline is None else outline.get(_W + "val")
        return style_id, int(level) + 1 if level is not None and level.isdigit() and int(level) < 6 else None

    def _line(self, paragraph: Any) -> _Line:
        line = _Line()
        self._read_inline(paragraph, line)
        return line

    def _read_inline(self, parent: Any, line: _Line) -> None:
        for node in parent:
            tag = node.tag
            if tag in _SKIPPED or not isinstance(tag, str):
                continue
            if tag in (_W + "t", _M + "t"):
                line.parts.append(node.text or "")
            elif tag in _SIGNS:
                line.parts.append(_SIGNS[tag])
            elif tag == _W + "txbxContent":
                line.boxes.append(node)
            elif tag in _FORMULAS:
                self._read_formula(node, line)
            elif tag in (_W + "footnoteReference", _W + "endnoteReference"):
                self._refer(node, line)
            elif tag == _DRAWING + "docPr":
                if description := " ".join((node.get("descr") or "").split()):
                    line.parts.append(f"![{description}]({node.get('name') or 'image'})")
            else:
                if tag == self._break and self._has_pages and self._is_page_break(node):
                    line.pages += 1
                elif tag == _W + "br":
                    line.parts.append("\n")
                self._read_inline(node, line)

    def _read_formula(self, node: Any, line: _Line) -> None:
        """Fractions, powers and roots with a sign between their parts."""
        before, between, after = _FORMULAS[node.tag]
        line.parts.append(before)
        parts = [part for part in node if isinstance(part.tag, str) and not part.tag.endswith("Pr")]
        for number, part in enumerate(parts):
            line.parts.append(between if number else "")
            compound = sum(1 for _ in part.iter(_M + "r")) > 1
            line.parts.append("(" if compound else "")
            self._read_inline(part, line)
            line.parts.append(")" if compound else "")
        line.parts.append(after)

    def _is_page_break(self, node: Any) -> bool:
        return bool(node.tag == _W + "lastRenderedPageBreak" or node.get(_W + "type") == "page")

    def _refer(self, node: Any, line: _Line) -> None:
        key = (node.tag.removeprefix(_W).removesuffix("Reference") + "s", node.get(_W + "id") or "")
        if key not in self._noted:
            self._noted.append(key)
        line.parts.append(f"[^{self._noted.index(key) + 1}]")

    def _note(self, kind: str, note_id: str) -> Any | None:
        if not self._notes:
            self._notes = {(part, one.get(_W + "id")): one for part in _NOTES for one in _parts_of(self._document, part, _NOTES[part])}
        return self._notes.get((kind, note_id))

    def _plain(self, parent: Any) -> str:
        """The text of everything below, on one line."""
        return " ".join(" ".join("".join(self._line(one).parts).split()) for one in parent.iter(_W + "p")).strip()

    def _rows(self, table: Any, depth: int) -> Iterator[list[str]]:
        """Cells that go over several columns or rows stand in the first of them; a row's missing cells are empty."""
        for row in _below(table, _W + "tr"):
            cells: list[str] = []
            for cell in _below(row, _W + "tc"):
                properties = cell.find(_W + "tcPr")
                span = None if properties is None else properties.find(_W + "gridSpan")
                merge = None if properties is None else properties.find(_W + "vMerge")
                continued = merge is not None and merge.get(_W + "val") != "restart"
                cells.append("" if continued else self._cell(cell, depth))
                cells += [""] * (_number(None if span is None else span.get(_W + "val"), 1) - 1)
            yield cells

    def _cell(self, cell: Any, depth: int) -> str:
        if depth == 0:
            return self._plain(cell)
        texts: list[str] = []
        for block in _blocks(cell):
            if block.tag == _W + "tbl":
                texts += ("; ".join(filter(None, row)) for row in self._rows(block, depth - 1))
            else:
                texts.append("".join(self._line(block).parts))
        return " ".join(texts)


def _blocks(parent: Any) -> Iterator[Any]:
    """Paragraphs and tables in order, those inside content controls and tracked changes included."""
    for node in parent:
        if node.tag in (_W + "p", _W + "tbl"):
            yield node
        elif isinstance(node.tag, str) and node.tag not in _SKIPPED and node.tag.startswith(_W):
            yield from _blocks(node)


def _below(parent: Any, tag: str) -> Iterator[Any]:
    """Rows of a table or cells of a row, those inside content controls included."""
    for node in parent:
        if node.tag == tag:
            yield node
        elif node.tag in (_W + "sdt", _W + "sdtContent", _W + "ins", _W + "customXml"):
            yield from _below(node, tag)


def _number(text: str | None, otherwise: int, most: int = 64) -> int:
    return min(int(text), most) if text and text.isdigit() else otherwise


def _style_names(document: Document) -> Mapping[str, str]:
    return {
        style.get(_W + "styleId") or "": (name.get(_W + "val") or "") if (name := style.find(_W + "name")) is not None else ""
        for style in _parts_of(document, "styles", "style")
    }


def _parts_of(document: Document, part: str, tag: str) -> list[Any]:
    """Elements of a part of the package that may be missing."""
    from docx.oxml import parse_xml

    for relation in document.part.rels.values():
        if relation.reltype.endswith(f"/{part}") and not relation.is_external:
            return list(parse_xml(relation.target_part.blob).iter(_W + tag))
    return []


# --- numbers of lists ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Level:
    format: str
    text: str
    start: int


class _Numbering:
    """Counts the numbered paragraphs as a word processor does: `1.`, `(a)`, `2.3`. A bullet is a hyphen."""

    def __init__(self, document: Document) -> None:
        abstract = {one.get(_W + "abstractNumId"): _levels(one) for one in _parts_of(document, "numbering", "abstractNum")}
        self._levels: dict[str, dict[int, _Level]] = {}
        self._kind: dict[str, str] = {}
        for one in _parts_of(document, "numbering", "num"):
            link = one.find(_W + "abstractNumId")
            kind = "" if link is None else link.get(_W + "val") or ""
            self._levels[one.get(_W + "numId") or ""] = abstract.get(kind, {})
            self._kind[one.get(_W + "numId") or ""] = kind
        self._of_style = {
            style.get(_W + "styleId") or "": found
            for style in _parts_of(document, "styles", "style")
            if (found := _numbered(style.find(_W + "pPr"))) is not None
        }
        self._counts: dict[str, list[int | None]] = {}

    def next_number(self, paragraph: Any, style_id: str | None) -> str | None:
        """The number of this paragraph, NULs before it for its depth; None when it stands in no list."""
        own = _numbered(paragraph.find(_W + "pPr"))
        of_style = self._of_style.get(style_id or "")
        num_id, depth = own or of_style or ("0", 0)
        if own is not None and not own[0] and of_style is not None:
            num_id = of_style[0]
        levels = self._levels.get(num_id)
        if not levels or depth not in levels:
            return None if num_id in ("0", "") else "\0" * depth + "-"
        level = levels[depth]
        if level.format in ("bullet", "none"):
            return "\0" * depth + "-" if level.format == "bullet" else None
        counts = self._counts.setdefault(self._kind[num_id], [None] * 9)
        before = counts[depth]
        counts[depth] = level.start if before is None else before + 1
        counts[depth + 1 :] = [None] * (8 - depth)

        def shown(found: re.Match[str]) -> str:
            at = int(found[1]) - 1
            count = counts[at] if at < len(counts) else None
            of_level = levels.get(at, level)
            return _spelled(of_level.start if count is None else count, of_level.format)

        return "\0" * depth + (re.sub(r"%([1-9])", shown, level.text).strip() or "-")


def _numbered(properties: Any | None) -> tuple[str, int] | None:
    if properties is None or (found := properties.find(_W + "numPr")) is None:
        return None
    num_id, depth = found.find(_W + "numId"), found.find(_W + "ilvl")
    return (
        "" if num_id is None else num_id.get(_W + "val") or "",
        _number(None if depth is None else depth.get(_W + "val"), 0, 8),
    )


def _levels(abstract: Any) -> dict[int, _Level]:
    levels: dict[int, _Level] = {}
    for level in abstract.iter(_W + "lvl"):
        values = {child.tag: child.get(_W + "val") or "" for child in level if isinstance(child.tag, str)}
        start = _number(values.get(_W + "start"), 1, 1_000_000)
        levels[_number(level.get(_W + "ilvl"), 0, 8)] = _Level(values.get(_W + "numFmt", "decimal"), values.get(_W + "lvlText", ""), start)
    return levels


def _spelled(count: int, kind: str) -> str:
    match kind:
        case "lowerLetter" | "upperLetter":
            letter = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1) if 0 < count < 1000 else str(count)
            return letter.upper() if kind == "upperLetter" else letter
        case "lowerRoman" | "upperRoman":
            roman = _roman(count)
            return roman.upper() if kind == "upperRoman" else roman
        case _:
            return str(count)


def _roman(count: int) -> str:
    if not 0 < count < 4000:
        return str(count)
    spelled = ""
    for value, sign in zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"),
        strict=True,
    ):
        spelled += sign * (count // value)
        count %= value
    return spelled
