"""The passage of a text that a person who asked wants to see: the window with the most distinct words of the query. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

CHARS_MAX = 240
PREFIX_CHARS_MIN = 4
"""From this length on a word of the query also finds the words that begin with it."""
SNAP_CHARS_MAX = 24
"""How far a cut moves to fall between words; texts without spaces are cut where the window ends."""
_WIDE = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_WIDE}]+|[^\W{_WIDE}]+")
_WIDE_FIRST = re.compile(f"[{_WIDE}]")


def snippet(text: str, query: str, chars_max: int = CHARS_MAX) -> str:
    """At most `chars_max` characters of `text` on one line, with an ellipsis where it was cut.

    Ideographs are looked for in pairs, as they stand without spaces. Without any word of the query it is the beginning.
    """
    line = " ".join(text.split())
    if len(line) <= chars_max:
        return line
    width = chars_max - 2
    first, last = _best(list(_found(line, words_of(query))), width)
    begin = max(0, min(first - (width - (last - first)) // 2, len(line) - width))
    return _cut(line, begin, min(len(line), begin + width), first, last)


def words_of(query: str) -> frozenset[str]:
    """The words of a query in lower case; of a run of ideographs its pairs."""
    words: set[str] = set()
    for run in _WORD.findall(_lower(query)):
        is_long = len(run) > 1 and _WIDE_FIRST.match(run)
        words.update((run[at : at + 2] for at in range(len(run) - 1)) if is_long else (run,))
    return frozenset(words)


def _found(line: str, words: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    """Where words of the query stand, in order: begin, end, word."""
    prefixes = tuple(word for word in words if len(word) >= PREFIX_CHARS_MIN)
    for match in _WORD.finditer(_lower(line)):
        run, start = match.group(), match.start()
        if _WIDE_FIRST.match(run):
            for at in range(len(run)):
                for size in (1, 2):
                    if (piece := run[at : at + size]) in words and len(piece) == size:
                        yield start + at, start + at + size, piece
        elif run in words:
            yield start, match.end(), run
        elif run.startswith(prefixes):
            yield start, match.end(), max((word for word in prefixes if run.startswith(word)), key=len)


def _best(found: list[tuple[int, int, str]], width: int) -> tuple[int, int]:
    """Begin and end of the words within `width` that are the most different ones, then the longest; the first of equals."""
    best, span = (0, 0), (0, 0)
    for at, (begin, _, _) in enumerate(found):
        seen: set[str] = set()
        end_of_last = begin
        for _, end, word in found[at:]:
            if end - begin > width:
                break
            if word not in seen:
                seen.add(word)
                end_of_last = end
        if (score := (len(seen), sum(map(len, seen)))) > best:
            best, span = score, (begin, end_of_last)
    return span


def _cut(line: str, begin: int, end: int, first: int, last: int) -> str:
    """The window, cut between words where a space is near, never inside of what was found."""
    if begin > 0 and line[begin - 1] != " ":
        space = line.find(" ", begin, min(begin + SNAP_CHARS_MAX, first))
        begin = begin if space < 0 else space + 1
    if end < len(line) and line[end] != " ":
        space = line.rfind(" ", max(end - SNAP_CHARS_MAX, last), end)
        end = end if space < 0 else space
    return ("…" if begin > 0 else "") + line[begin:end].strip() + ("…" if end < len(line) else "")


def _lower(text: str) -> str:
    """Lower case, character by character, so that places stay."""
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)
