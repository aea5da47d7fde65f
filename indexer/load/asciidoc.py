"""AsciiDoc: the source as it stands, with its section titles, delimited blocks and tables; attributes of the header are metadata.

Nothing is included or computed: `include::` stays a line of text, and attribute references stay as they are.
"""

from __future__ import annotations

import re

from indexer.load.decode import decode
from indexer.load.metadata import own_metadata
from store.model import Block, BlockKind, Heading, LoadedText

_TITLE = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*?)(?:[ \t]+\1)?[ \t]*$")
_ATTRIBUTE = re.compile(r":([\w][\w-]{0,60}):(?:[ \t]+(.*))?$")
_AUTHOR = re.compile(r"([^<>\n]{1,200}?)(?:[ \t]+<[^>]*>)?$")
_DELIMITERS = {"----": BlockKind.FENCE, "....": BlockKind.FENCE, "```": BlockKind.FENCE, "++++": None, "////": None}
_TABLE = re.compile(r"[|,:!]={3,}[ \t]*$")
_ANCHOR = re.compile(r"\[\[[^\]]*\]\]|\[#[^\]]*\]")
_DOCUMENT_ATTRIBUTES = frozenset({"author", "description", "keywords", "lang", "revnumber", "version", "authority", "series", "priority"})
"""Others steer the processor and say nothing of the document."""


def load_asciidoc(content: bytes, media_type: str) -> LoadedText:
    """The title is the line `= Title`. Raises TextUndecodable, DocumentUnparsable."""
    text, faults = decode(content, media_type)
    headings, blocks = _structure(text)
    own = own_metadata(_header(text), text)
    title = own.title or next((heading.title for heading in headings if heading.level == 1), None)
    return LoadedText(
        text,
        media_type,
        title=title,
        language=own.language,
        headings=tuple(headings),
        blocks=tuple(blocks),
        metadata=own.metadata,
        faults=(*faults, *own.faults),
    )


def _structure(text: str) -> tuple[list[Heading], list[Block]]:
    headings: list[Heading] = []
    blocks: list[Block] = []
    opened: tuple[str, BlockKind | None, int] | None = None
    at = 0
    for line in text.split("\n"):
        bare = line.rstrip()
        if opened is not None:
            if bare == opened[0]:
                if opened[1] is not None:
                    blocks.append(Block(opened[2], at + len(bare), opened[1]))
                opened = None
        elif _TABLE.match(line):
            opened = (bare, BlockKind.TABLE, at)
        elif (delimiter := _delimiter(bare)) is not None:
            opened = (bare if delimiter != "```" else "```", _DELIMITERS[delimiter], at)
        elif found := _TITLE.match(line):
            title = " ".join(_ANCHOR.sub("", found[2]).split())
            headings.append(Heading(at, len(found[1]), title))
        at += len(line) + 1
    return headings, blocks


def _delimiter(line: str) -> str | None:
    """Which delimiter a line of four or more equal signs is (three for a fence)."""
    if line.startswith("```"):
        return "```"
    start = line[:4]
    return start if start in _DELIMITERS and len(start) == 4 and not line.strip(line[0]) else None


def _header(text: str) -> dict[str, str]:
    """Author and attributes between the title and the first blank line."""
    said: dict[str, str] = {}
    seen_title = False
    for line in text.split("\n")[:200]:
        if found := _ATTRIBUTE.match(line):
            name = found[1].lower()
            if name in _DOCUMENT_ATTRIBUTES and found[2]:
                said["doc_version" if name in ("revnumber", "version") else name] = found[2].strip()
        elif not line.strip():
            if seen_title or said:
                break
        elif line.startswith("//"):
            continue
        elif not seen_title and _TITLE.match(line):
            seen_title = True
        elif seen_title and "author" not in said and not re.match(r"v?\d", line) and (author := _AUTHOR.match(line)):
            said["author"] = author[1].strip()
        elif not seen_title:
            break
    return said
