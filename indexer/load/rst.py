"""reStructuredText: the source as it stands, with its section titles, literal blocks and tables found by their shape.

Directives are not carried out and roles are not resolved: no include reads a file. Fields at the top (`:Author: …`) are metadata.
"""

from __future__ import annotations

import re

from indexer.load.decode import decode
from indexer.load.metadata import own_metadata
from store.model import Block, BlockKind, Heading, LoadedText

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_SHORT_ADORNMENT = re.compile(r"([=\-~^\"'*+#.`])\1*[ \t]*$")
_FIELD = re.compile(r":([A-Za-z][\w .-]{0,60}):(?:[ \t]+(.*))?$")
_LITERAL = re.compile(r"(?:.*::|\s*\.\. (?:code(?:-block)?|sourcecode|highlight|parsed-literal|literalinclude)::.*)[ \t]*$")
_GRID = re.compile(r"[ \t]*\+(?:[-=]+\+)+[ \t]*$")
_SIMPLE = re.compile(r"[ \t]*=+(?:[ \t]+=+)+[ \t]*$")
_ROLE = re.compile(r":[\w:+.-]+:`([^`<]*?)(?:\s*<[^`>]*>)?`|`([^`<]+?)(?:\s*<[^`>]*>)?`__?|``([^`]+)``")
LEVELS_MAX = 6


def load_rst(content: bytes, media_type: str) -> LoadedText:
    """The title is the first section's, where it stands alone at the top level. Raises TextUndecodable, DocumentUnparsable."""
    text, faults = decode(content, media_type)
    lines = text.split("\n")
    starts = _starts(lines)
    headings = _headings(lines, starts)
    own = own_metadata(_fields(lines), text)
    return LoadedText(
        text,
        media_type,
        title=own.title or (headings[0].title if headings else None),
        language=own.language,
        headings=tuple(headings),
        blocks=tuple(_blocks(lines, starts)),
        metadata=own.metadata,
        faults=(*faults, *own.faults),
    )


def _starts(lines: list[str]) -> list[int]:
    starts, at = [], 0
    for line in lines:
        starts.append(at)
        at += len(line) + 1
    return starts


def _headings(lines: list[str], starts: list[int]) -> list[Heading]:
    """A style of adornment is a level, in the order in which the styles appear."""
    styles: list[tuple[str, bool]] = []
    headings: list[Heading] = []
    at = 0
    while at < len(lines):
        found = _heading_at(lines, at)
        if found is None:
            at += 1
            continue
        style, title_at, after = found
        if style not in styles:
            styles.append(style)
        start = starts[at] + (len(lines[at]) - len(lines[at].lstrip()))
        headings.append(Heading(start, min(styles.index(style) + 1, LEVELS_MAX), _plain(lines[title_at])))
        at = after
    return headings


def _heading_at(lines: list[str], at: int) -> tuple[tuple[str, bool], int, int] | None:
    """A title that begins at line `at`: its style (sign, overlined), the title's line, the line after it."""
    line = lines[at]
    below = lines[at + 1] if at + 1 < len(lines) else ""
    after = lines[at + 2] if at + 2 < len(lines) else ""
    over = _ADORNMENT.match(line)
    if over is not None and below.strip() and after.rstrip() == line.rstrip() and not _ADORNMENT.match(below):
        return ((over[1], True), at + 1, at + 3) if len(line.rstrip()) >= _width(below.rstrip()) else None
    if not line.strip() or line[0].isspace() or over is not None or (at and lines[at - 1].strip()):
        return None
    under = _ADORNMENT.match(below) or (_SHORT_ADORNMENT.match(below) if _width(line.rstrip()) <= 2 else None)
    if under is None or len(below.rstrip()) < min(_width(line.rstrip()), 4):
        return None
    return (under[1], False), at, at + 2


def _width(text: str) -> int:
    return len(text.strip())


def _plain(title: str) -> str:
    return " ".join(_ROLE.sub(lambda found: found[1] or found[2] or found[3] or "", title).replace("**", "").split())


def _fields(lines: list[str]) -> dict[str, str]:
    """The field list that stands before the text, or right after the title."""
    fields: dict[str, str] = {}
    at, end = 0, min(len(lines), 200)
    while at < end:
        if found := _FIELD.match(lines[at]):
            parts = [found[2] or ""]
            while at + 1 < end and lines[at + 1][:1].isspace() and lines[at + 1].strip():
                at += 1
                parts.append(lines[at].strip())
            fields.setdefault(found[1].lower(), " ".join(part for part in parts if part))
        elif fields and lines[at].strip():
            break
        elif lines[at].strip() and not lines[at].startswith("..") and (heading := _heading_at(lines, at)):
            at = heading[2]
            continue
        elif lines[at].strip() and not lines[at].startswith(".."):
            break
        at += 1
    return {name: value for name, value in fields.items() if value}


def _blocks(lines: list[str], starts: list[int]) -> list[Block]:
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if _GRID.match(line) or _SIMPLE.match(line):
            end = _table_end(lines, at)
            if end > at + 1:
                blocks.append(
                    Block(starts[at] + len(line) - len(line.lstrip()), starts[end - 1] + len(lines[end - 1].rstrip()), BlockKind.TABLE)
                )
            at = end
        elif _LITERAL.match(line):
            first, end = _indented(lines, at + 1, len(line) - len(line.lstrip()))
            if first < end:
                begin = lines[first]
                blocks.append(
                    Block(starts[first] + len(begin) - len(begin.lstrip()), starts[end - 1] + len(lines[end - 1].rstrip()), BlockKind.FENCE)
                )
            at = max(end, at + 1)
        else:
            at += 1
    return blocks


def _table_end(lines: list[str], at: int) -> int:
    """The line after a table: a grid ends with its last `+`, a simple one with its last rule before a blank line."""
    grid = bool(_GRID.match(lines[at]))
    last = at
    number = at + 1
    while number < len(lines):
        line = lines[number]
        if grid and not line.lstrip().startswith(("+", "|")):
            break
        if _GRID.match(line) if grid else _SIMPLE.match(line):
            last = number
        elif not grid and not line.strip() and last > at and _SIMPLE.match(lines[number - 1]) and last != at:
            break
        number += 1
    return last + 1


def _indented(lines: list[str], at: int, indent: int) -> tuple[int, int]:
    """The stretch of lines from `at` on that is indented more than `indent`, blank ends left out."""
    first = at
    while first < len(lines) and not lines[first].strip():
        first += 1
    end = number = first
    while number < len(lines):
        line = lines[number]
        if line.strip():
            if len(line) - len(line.lstrip()) <= indent:
                break
            end = number + 1
        number += 1
    return first, end
