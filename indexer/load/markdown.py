"""Markdown: the source as it stands, less the front matter, with its headings, fences and tables (markdown-it-py's one door).

Only markdown-it's block parser runs, since its line map is all that is needed, and only over stretches that are more than headings,
plain paragraphs, flat lists and fences: those have the same structure in every reading. PyYAML reads the front matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.load.decode import decode
from indexer.load.metadata import OwnMetadata, own_metadata
from store.model import Block, BlockKind, Fault, Heading, LoadedText

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FRONT_MATTER_CHARS_MAX = 64 * 1024
_LYING_TAGS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)
"""What PyYAML lets through for a value that is not what its tag says: `!!bool perhaps`."""
_ANCHOR = re.compile(r"\s*\{#[^}]*\}\s*$")
_PLAIN_START = r"(?:(?:\*{1,3}|_{1,3}|`{1,2})?[^\s#>\-+*_=~`|:<0-9]|[0-9]{1,9}(?![0-9.)]))"
_PLAIN = re.compile(_PLAIN_START)
"""How a line begins that is text of a paragraph, whatever stands around it, and neither underlines nor rules off another."""
_FLAT_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)]) {1,4}" + _PLAIN_START)
_HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_BLOCKS = {"fence": BlockKind.FENCE, "code_block": BlockKind.FENCE, "table_open": BlockKind.TABLE}


def load_markdown(content: bytes, media_type: str) -> LoadedText:
    """The title is the front matter's, else the first heading of level 1. Raises TextUndecodable, DocumentUnparsable."""
    source, faults = decode(content, media_type)
    raw, text, fault = split_front_matter(source)
    own = own_metadata(raw, text) if raw else OwnMetadata(None, None, {}, ())
    headings, blocks = structure_of(text)
    return LoadedText(
        text,
        media_type,
        title=own.title or next((heading.title for heading in headings if heading.level == 1 and heading.title), None),
        language=own.language,
        headings=headings,
        blocks=blocks,
        metadata=own.metadata,
        faults=(*faults, *((fault,) if fault else ()), *own.faults),
    )


def split_front_matter(source: str) -> tuple[dict[Any, Any], str, Fault | None]:
    """Returns the front matter, the text after it, and what was wrong; malformed front matter stays in the text.

    Front matter is a YAML mapping between a first line `---` and the next line that is `---` or `...`. A rule at the start of an
    ordinary text is no front matter.
    """
    found = _FRONT_MATTER.match(source) if source.startswith("---") else None
    if found is None:
        return {}, source, None
    if len(found[1]) > _FRONT_MATTER_CHARS_MAX:
        return {}, source, _malformed(f"it is longer than {_FRONT_MATTER_CHARS_MAX} characters")
    import yaml

    try:
        raw = yaml.safe_load(found[1])
    except (yaml.YAMLError, RecursionError, *_LYING_TAGS) as error:
        return {}, source, _malformed(" ".join(str(error).split())[:200])
    if isinstance(raw, dict):
        return raw, source[found.end() :], None
    return {}, source if raw is not None else source[found.end() :], None


def _malformed(reason: str) -> Fault:
    return Fault("front_matter_malformed", f"The front matter is not valid YAML and is kept as text: {reason}.")


def structure_of(text: str) -> tuple[tuple[Heading, ...], tuple[Block, ...]]:
    """The headings that stand in no list or quotation, and the code blocks and tables, as offsets."""
    starts = _line_starts(text)
    headings: list[Heading] = []
    blocks: list[Block] = []
    for mark in marks_of(text.split("\n")):
        start, end = _visible(text, starts, mark.lines)
        if isinstance(mark.kind, int):
            headings.append(Heading(start, mark.kind, _plain(mark.title)))
        elif start < end:
            blocks.append(Block(start, end, mark.kind))
    return tuple(headings), tuple(blocks)


class Mark(NamedTuple):
    """A heading (its level and source) or a block, on the lines [from, to)."""

    lines: tuple[int, int]
    kind: int | BlockKind
    title: str = ""


def marks_of(lines: Sequence[str]) -> list[Mark]:
    """What `parsed` says of all lines, in order, by parsing as few of them as are enough.

    A line that begins a paragraph in the first column after a blank one ends every list, quotation and table before it, and a heading
    or fence in the first column does so at any place; so what stands between two such lines can be read by itself.
    """
    marks: list[Mark] = []
    at, count = 0, len(lines)
    opened: int | None = None
    """The first line of the paragraph or list that `at` may belong to."""
    in_list = after_blank = False
    while at < count:
        line = lines[at]
        if not line.strip(" \t"):
            after_blank, opened = True, opened if in_list else None
        elif _PLAIN.match(line):
            if opened is None or after_blank:
                opened, in_list = at, False
            after_blank = False
        elif _FLAT_ITEM.match(line):
            opened = at if opened is None else opened
            in_list, after_blank = True, False
        else:
            at, found = _marked_stretch(lines, at, at if opened is None else opened)
            marks += found
            opened, in_list, after_blank = None, False, False
            continue
        at += 1
    return marks


def _marked_stretch(lines: Sequence[str], at: int, opened: int) -> tuple[int, list[Mark]]:
    """The marks of the heading, the fence, or the stretch around something else at line `at`; and the line after it."""
    if heading := _HEADING.match(lines[at]):
        level = len(heading[1])
        return at + 1, [Mark((at, at + 1), level, _without_tail(lines[at][level:]))]
    if fence := _FENCE.match(lines[at]):
        end = _fence_end(lines, at, fence[1] or fence[2])
        return end, [Mark((at, end), BlockKind.FENCE)]
    end = next((number for number in range(at + 1, len(lines)) if _stands_alone(lines, number)), len(lines))
    found, is_open = parsed(lines, opened, end)
    if is_open and end < len(lines):
        end = len(lines)
        found, _ = parsed(lines, opened, end)
    return end, found


def _stands_alone(lines: Sequence[str], number: int) -> bool:
    return not lines[number - 1].strip(" \t") and any(pattern.match(lines[number]) for pattern in (_PLAIN, _HEADING, _FENCE))


def _without_tail(title: str) -> str:
    """A heading's source without the closing signs."""
    title = title.rstrip(" \t")
    bare = title.rstrip("#")
    return (bare if bare.endswith((" ", "\t")) else title).strip(" \t\n\v\f\r")


def _fence_end(lines: Sequence[str], at: int, opening: str) -> int:
    closing = re.compile(rf" {{0,3}}{opening[0]}{{{len(opening)},}}[ \t]*$")
    return next((number + 1 for number in range(at + 1, len(lines)) if closing.match(lines[number])), _end_of_text(lines))


def _end_of_text(lines: Sequence[str]) -> int:
    """What stands after the last line end is a line only when there is something."""
    return len(lines) if lines[-1] else len(lines) - 1


def parsed(lines: Sequence[str], first: int, end: int) -> tuple[list[Mark], bool]:
    """markdown-it's reading of the lines [first, end) by themselves; and whether their last block waits for an end."""
    tokens = _tokens("\n".join(lines[first:end]) + ("\n" if end < len(lines) else ""))
    marks: list[Mark] = []
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.map is None:
            continue
        stretch = (first + token.map[0], first + token.map[1])
        if token.type == "heading_open" and token.level == 0 and following is not None:
            marks.append(Mark(stretch, int(token.tag[1]), following.content))
        elif token.type in _BLOCKS:
            marks.append(Mark(stretch, _BLOCKS[token.type]))
    last = next((token for token in reversed(tokens) if token.map is not None and token.level == 0), None)
    is_open = last is not None and last.map is not None and last.type in ("fence", "html_block") and last.map[1] >= end - first
    return marks, is_open


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def _tokens(text: str) -> list[Token]:
    parser = _parser()
    tokens: list[Token] = []
    parser.block.parse(text, parser, {}, tokens)
    return tokens


def _line_starts(text: str) -> list[int]:
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return [*starts, len(text) + 1]


def _visible(text: str, lines: list[int], line_map: tuple[int, int]) -> tuple[int, int]:
    """Offsets of the first and after the last visible character of the lines [from, to)."""
    start, end = lines[line_map[0]], lines[line_map[1]] - 1
    stretch = text[start:end]
    return start + len(stretch) - len(stretch.lstrip()), start + len(stretch.rstrip())


def _plain(source: str) -> str:
    """A heading's title as it is read: without marks, links' targets and anchors."""
    source = _ANCHOR.sub("", source)
    if not any(sign in source for sign in "*_`[]<&\\!"):
        return " ".join(source.split())
    parts: list[str] = []
    for token in _parser().parseInline(source)[0].children or ():
        if token.type in ("text", "code_inline", "image"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
    return " ".join("".join(parts).split())
