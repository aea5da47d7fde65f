"""JSON: laid out a value a line where its writer packed it into one, with escaped characters as people read them.

Nothing is parsed into values: numbers keep their digits, double keys stay, and depth costs nothing. What is laid out already, JSON lines
and what is no valid JSON stand as they are, so that an edited line changes one line.
"""

from __future__ import annotations

import re

from indexer.load.decode import clean, decode
from store.model import LoadedText

PACKED_LINE_CHARS = 2000
"""A line longer than this was not laid out for reading."""
INDENT_DEPTH_MAX = 32
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\\n]|\\.)*")|([\[{])|([\]}])|([,:])|([^\s",:\[\]{}]+))', re.DOTALL)
_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)((?:\\u[0-9a-fA-F]{4})+)")
"""Not after a backslash that is itself escaped."""


def load_json(content: bytes, media_type: str) -> LoadedText:
    """Raises TextUndecodable, DocumentUnparsable."""
    source, faults = decode(content, media_type)
    text = "\n".join(laid_out(line) or line for line in source.split("\n")) if _is_packed(source) else source
    if "\\u" in text:
        text = clean(_ESCAPE.sub(_unescaped, text))
    return LoadedText(text, media_type, faults=faults)


def _is_packed(source: str) -> bool:
    return any(len(line) > PACKED_LINE_CHARS for line in source.split("\n"))


def laid_out(line: str) -> str | None:
    """A packed line, a value a line and indented; None when it is short enough, or not made of JSON's signs."""
    if len(line) <= PACKED_LINE_CHARS:
        return None
    parts: list[str] = []
    depth, at, opened = 0, 0, False
    while found := _TOKEN.match(line, at):
        string, opening, closing, sign, word = found.groups()
        at = found.end()
        if closing is not None:
            depth = max(depth - 1, 0)
            parts.append(closing if opened else _break(depth) + closing)
        else:
            parts.append((_break(depth) if opened else "") + (string or opening or word or ""))
        if sign is not None:
            parts.append(": " if sign == ":" else "," + _break(depth))
        depth += opening is not None
        opened = opening is not None
    return "".join(parts) if not line[at:].strip() else None


def _break(depth: int) -> str:
    return "\n" + "  " * min(depth, INDENT_DEPTH_MAX)


def _unescaped(found: re.Match[str]) -> str:
    r"""`\u4e2d` as the character it means; control characters, quotes and backslashes stay escaped."""
    units = bytes.fromhex("".join(found[2].split("\\u")))
    text = units.decode("utf-16-be", "replace")
    return found[1] + "".join(f"\\u{ord(sign):04x}" if ord(sign) < 32 or sign in '"\\\x7f' else sign for sign in text)
