"""The atoms of a text: heading, paragraph, sentence, line, row, and inside what is over-long clause, word, cluster.

An atom is never cut further. Each has the level of the boundary before it: how good a place it is for a cut.
Which boundaries become cuts is not decided here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

from indexer.split.clusters import cluster_starts, marks


class Level(IntEnum):
    """How good a place for a cut; HEADING_1 is the best. The values order, nothing else."""

    GLUE = 0
    """Between a heading and what it heads."""
    CLUSTER = 1
    WORD = 2
    CLAUSE = 3
    LINE = 4
    """A line end inside a sentence, or before an indented line of code."""
    SENTENCE = 5
    ROW = 6
    """A line of code, log or table; a list item."""
    PARAGRAPH = 7
    """A blank line."""
    SECTION = 8
    """A blank line before a line that is not indented, in code."""
    HEADING_6 = 9
    HEADING_1 = 14


@dataclass(slots=True)
class Atoms:
    """Parallel lists: where each atom starts and ends (no white space around it), and the level of the boundary before it."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.starts)

    def append(self, start: int, end: int, level: int) -> None:
        self.starts.append(start)
        self.ends.append(end)
        self.levels.append(level)

    def extend(self, other: Atoms) -> None:
        self.starts += other.starts
        self.ends += other.ends
        self.levels += other.levels

    def join(self, ranges: Iterable[tuple[int, int]]) -> Atoms:
        """Returns atoms in which those that start inside one of the ascending `ranges` are one with the first."""
        joined, at = Atoms(), 0
        for start, end in ranges:
            first, last = bisect_left(self.starts, start, at), bisect_left(self.starts, end, at)
            if last - first < 2:
                continue
            joined.extend(self.between(at, first + 1))
            joined.ends[-1] = self.ends[last - 1]
            at = last
        joined.extend(self.between(at, len(self)))
        return joined

    def between(self, first: int, last: int) -> Atoms:
        return Atoms(self.starts[first:last], self.ends[first:last], self.levels[first:last])


_CLOSERS = "\"')\\]}”’»」』）】》〉"


_SENTENCE_SIGNS = "。！？｡‼⁇⁈⁉"
_SEPARATOR = re.compile(
    rf"\n\s*+|[.!?][{_CLOSERS}*_`]{{0,3}}+\s++(?![a-z])|[{_SENTENCE_SIGNS}]++[{_CLOSERS}]{{0,4}}+\s*+|…++\s*+",
)
"""Line ends and sentence ends. No branch fails after a long run, so the search is linear."""


@lru_cache(maxsize=1)
def _mark() -> re.Pattern[str]:
    return re.compile(f"[{marks()}\u200d]")


def _is_torn(text: str, at: int) -> bool:
    """Whether what starts at `at` belongs to the character before it."""
    return text[at] > "\u02ff" and _mark().match(text, at) is not None


_LINE_END = re.compile(r"\n\s*+")
_ITEM_SIGNS = frozenset("-*+•|>#")
_CLAUSE_END = re.compile(rf"[.!?,;:—][{_CLOSERS}*_`]{{0,3}}+\s++|[，；：、—]++\s*+")
"""Where an over-long sentence is cut first: also at the dot of a text that has no capital letters."""
_TOKEN = re.compile(r"\S++")


def prose_atoms(text: str, start: int, end: int) -> Atoms:
    """Sentences and lines of `text[start:end]`; wrapped lines are joined rather than sentences torn."""
    atoms = Atoms()
    at, level = _skip_space(text, start, end), int(Level.PARAGRAPH)
    for match in _SEPARATOR.finditer(text, at, end):
        if match.end() == end or _is_torn(text, match.end()):
            continue
        separator = match.group()
        kept = len(separator.rstrip())
        atom_end = match.start() + kept if kept else at + len(text[at : match.start()].rstrip())
        if atom_end > at:
            atoms.append(at, atom_end, level)
        at = match.end()
        level = _prose_level(separator, text[at])
    _close(atoms, text, at, end, level)
    return atoms


def _prose_level(separator: str, next_character: str) -> int:
    breaks = separator.count("\n")
    if breaks > 1:
        return Level.PARAGRAPH
    if breaks and next_character in _ITEM_SIGNS:
        return Level.ROW
    return Level.LINE if separator[0] == "\n" else Level.SENTENCE


def row_atoms(text: str, start: int, end: int) -> Atoms:
    """Lines of `text[start:end]`: code, logs, tables. An indented line belongs to the one above where there is a choice."""
    atoms = Atoms()
    at, level = _skip_space(text, start, end), int(Level.PARAGRAPH)
    for match in _LINE_END.finditer(text, at, end):
        if match.end() == end or _is_torn(text, match.end()):
            continue
        atom_end = at + len(text[at : match.start()].rstrip())
        if atom_end > at:
            atoms.append(at, atom_end, level)
        at = match.end()
        level = _row_level(match.group())
    _close(atoms, text, at, end, level)
    return atoms


def _row_level(separator: str) -> int:
    indented = separator[-1] != "\n"
    if separator.count("\n") > 1:
        return Level.PARAGRAPH if indented else Level.SECTION
    return Level.LINE if indented else Level.ROW


def _skip_space(text: str, start: int, end: int) -> int:
    stretch = text[start:end]
    return start + len(stretch) - len(stretch.lstrip())


def _close(atoms: Atoms, text: str, at: int, end: int, level: int) -> None:
    atom_end = at + len(text[at:end].rstrip())
    if atom_end > at:
        atoms.append(at, atom_end, level)


def fitted(text: str, atoms: Atoms, chars_max: int) -> Atoms:
    """Returns atoms no longer than `chars_max`, single clusters apart: over-long ones become clauses, these words, these clusters."""
    long = [i for i in range(len(atoms)) if atoms.ends[i] - atoms.starts[i] > chars_max]
    if not long:
        return atoms
    fit, at = Atoms(), 0
    for i in long:
        fit.extend(atoms.between(at, i))
        _append_clauses(fit, text, atoms.starts[i], atoms.ends[i], atoms.levels[i], chars_max)
        at = i + 1
    fit.extend(atoms.between(at, len(atoms)))
    return fit


def _append_clauses(fit: Atoms, text: str, start: int, end: int, level: int, chars_max: int) -> None:
    at = start
    for match in _CLAUSE_END.finditer(text, start, end):
        if match.end() == end or _is_torn(text, match.end()):
            continue
        separator = match.group()
        _append_clause(fit, text, at, match.start() + len(separator.rstrip()), level, chars_max)
        at = match.end()
        level = Level.SENTENCE if separator[0] in ".!?" else Level.CLAUSE
    _append_clause(fit, text, at, end, level, chars_max)


def _append_clause(fit: Atoms, text: str, start: int, end: int, level: int, chars_max: int) -> None:
    if end - start <= chars_max:
        fit.append(start, end, level)
        return
    for word_start, word_end in _words(text, start, end, chars_max):
        if word_end - word_start > chars_max:
            _append_clusters(fit, text, word_start, word_end, level, chars_max)
        else:
            fit.append(word_start, word_end, level)
        level = Level.WORD


def _words(text: str, start: int, end: int, chars_max: int) -> Iterator[tuple[int, int]]:
    """Runs between spaces; a mark that follows a space keeps it, where that fits."""
    at = until = start
    for match in _TOKEN.finditer(text, start, end):
        if match.start() > start and _is_torn(text, match.start()) and match.end() - at <= chars_max:
            until = match.end()
            continue
        if until > at:
            yield at, until
        at, until = match.span()
    if until > at:
        yield at, until


def _append_clusters(fit: Atoms, text: str, start: int, end: int, level: int, chars_max: int) -> None:
    from indexer.split.thin import thinned  # brings numpy, which a pass that finds nothing changed must not pay for

    starts = thinned(text, start, end, cluster_starts(text, start, end), chars_max)
    fit.starts += starts
    fit.ends += [*starts[1:], end]
    fit.levels += [level] + [int(Level.CLUSTER)] * (len(starts) - 1)
