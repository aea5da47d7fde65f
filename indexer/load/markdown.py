"""Markdown: the source as it stands, less the front matter, with its headings, fences and tables (markdown-it-py's one door).

Only markdown-it's block parser runs, since its line map is all that is needed; nothing is rendered. PyYAML reads the front matter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from indexer.load.decode import decode
from indexer.load.metadata import OwnMetadata, own_metadata
from store.model import Block, BlockKind, Fault, Heading, LoadedText

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FRONT_MATTER_CHARS_MAX = 64 * 1024
_ANCHOR = re.compile(r"\s*\{#[^}]*\}\s*$")
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
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return {}, source, _malformed(" ".join(str(error).split())[:200])
    if isinstance(raw, dict):
        return raw, source[found.end() :], None
    return {}, source if raw is not None else source[found.end() :], None


def _malformed(reason: str) -> Fault:
    return Fault("front_matter_malformed", f"The front matter is not valid YAML and is kept as text: {reason}.")


def structure_of(text: str) -> tuple[tuple[Heading, ...], tuple[Block, ...]]:
    """The headings that stand in no list or quotation, and the code blocks and tables, as offsets."""
    tokens = _tokens(text)
    lines = _line_starts(text)
    headings: list[Heading] = []
    blocks: list[Block] = []
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.map is None:
            continue
        if token.type == "heading_open" and token.level == 0 and following is not None:
            start, _ = _visible(text, lines, token.map)
            headings.append(Heading(start, int(token.tag[1]), _plain(following.content)))
        elif token.type in _BLOCKS:
            start, end = _visible(text, lines, token.map)
            if start < end:
                blocks.append(Block(start, end, _BLOCKS[token.type]))
    return tuple(headings), tuple(blocks)


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


def _visible(text: str, lines: list[int], line_map: list[int]) -> tuple[int, int]:
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
