"""The newest rows, kept in memory over what is committed: which they are, and BM25 as the engine would score them. Pure.

A committed row and a fresh one are weighed by the same statistics, so a row's score does not change when it is written out.
The formula and the one-byte lengths are Lucene's (SmallFloat, byte4), which tantivy uses.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

K1 = 1.2
B = 0.75
FIELDS = ("words", "singles")
LENGTH_DRIFT_MAX = 1e-4
"""Fresh rows move the average length. Up to this share committed rows keep the score under their own average (off by less than
this share); beyond it those that could be among the best are scored anew, exactly."""

Stem = Callable[[str], list[str]]


def _length_of_byte(number: int) -> int:
    if number < 24:
        return number
    bits, shift = (number - 24) & 7, ((number - 24) >> 3) - 1
    return 24 + (bits if shift < 0 else (bits | 8) << shift)


_LENGTHS = tuple(_length_of_byte(number) for number in range(256))


def kept_length(terms: int) -> int:
    """A row's length as one byte keeps it: exact up to 40, then rounded down to four significant bits."""
    return _LENGTHS[bisect_right(_LENGTHS, terms) - 1]


@dataclass(frozen=True, slots=True)
class Row:
    """A row as the engine holds it: enough to write it anew without its text."""

    chunk: str
    document: str
    words: str
    singles: str


@dataclass(frozen=True, slots=True)
class Asked:
    field: str
    term: str
    times: int


@dataclass(frozen=True, slots=True)
class FieldLength:
    rows: int
    """All that scores count: dead ones too."""
    terms: float
    """Of all those rows together."""

    @property
    def average(self) -> float:
        return self.terms / self.rows if self.rows else 0.0

    def with_more(self, lengths: Sequence[int]) -> FieldLength:
        return FieldLength(self.rows + len(lengths), self.terms + sum(lengths))


Lengths = Mapping[str, FieldLength]
"""A field's."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each term stands in a row, and how many there are, a field."""

    terms: Mapping[str, Counter[str]]
    lengths: Mapping[str, int]


def counts_of(row: Row, stem: Stem) -> Counts:
    split = {"words": stem(row.words), "singles": row.singles.split()}
    return Counts({field: Counter(terms) for field, terms in split.items()}, {field: len(terms) for field, terms in split.items()})


class Pending:
    """What a chunk became since the last commit: a row, or nothing. Told apart by identity, so that two alike are still two."""

    def __init__(self, row: Row | None, stem: Stem) -> None:
        self.row = row
        self._stem = stem

    @cached_property
    def counts(self) -> Counts:
        """Counted when a search first looks."""
        assert self.row is not None
        return counts_of(self.row, self._stem)


@dataclass(frozen=True)
class Overlay:
    """What is laid over a commit. Never changed: a change makes another one."""

    latest: Mapping[str, Pending]
    """The chunks (hex) that changed since, each as it is now."""
    masked: frozenset[str]
    """Those of them that the commit has a row of: it is not served."""

    @cached_property
    def rows(self) -> tuple[Pending, ...]:
        return tuple(pending for pending in self.latest.values() if pending.row is not None)

    def with_changes(self, changes: Mapping[str, Pending], live: Callable[[Collection[str]], frozenset[str]]) -> Overlay:
        """`live` names the chunks that the commit has a row of. What was not there and is to be gone is nothing to remember."""
        masked = self.masked | live([chunk for chunk in changes if chunk not in self.latest])
        kept = {chunk: now for chunk, now in changes.items() if now.row is not None or chunk in masked or chunk in self.latest}
        return Overlay({**self.latest, **kept}, masked)

    def without(self, written: Mapping[str, Pending], live: Callable[[Collection[str]], frozenset[str]]) -> Overlay:
        """What is left when `written` is committed: what changed once more meanwhile. `live` is asked of the new commit."""
        left = {chunk: now for chunk, now in self.latest.items() if written.get(chunk) is not now}
        masked = live(list(left))
        return Overlay({chunk: now for chunk, now in left.items() if now.row is not None or chunk in masked}, masked)


NOTHING_FRESH = Overlay({}, frozenset())


# --- scores ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weighing:
    """How one query weighs rows when the fresh ones are counted among the committed ones."""

    weights: tuple[tuple[Asked, float], ...]
    """The weight of a term: its inverse frequency, as often as it is asked for."""
    committed_boosts: tuple[tuple[Asked, float], ...]
    """What the committed rows' own weight is multiplied by to be that; terms that no committed row has are left out."""
    averages: Mapping[str, float]
    growth_max: float
    """How many times higher a committed row's score can be under these averages than under its own; at least 1."""
    drift: float
    """The largest share by which an average moved."""

    def score(self, counts: Counts) -> float:
        """0 when the row holds none of the terms."""
        return sum(weight * _saturated(counts, asked, self.averages[asked.field]) for asked, weight in self.weights)


def weigh(asked: Sequence[Asked], lengths: Lengths, frequency: Callable[[str, str], int], fresh: Iterable[Counts]) -> Weighing:
    """`lengths` (of every field that is asked for) and `frequency` tell of the committed rows."""
    fresh = list(fresh)
    together = {field: lengths[field].with_more([counts.lengths[field] for counts in fresh]) for field in lengths}
    weights, boosts = [], []
    for each in asked:
        committed = frequency(each.field, each.term)
        holding = committed + sum(each.term in counts.terms[each.field] for counts in fresh)
        weight = _inverse_frequency(together[each.field].rows, holding)
        weights.append((each, each.times * weight))
        if committed:
            boosts.append((each, each.times * weight / _inverse_frequency(lengths[each.field].rows, committed)))
    ratios = [together[field].average / lengths[field].average for field in lengths if lengths[field].average]
    growth_max = max([1.0, *ratios]) * (1 + 1e-5)
    drift = max((abs(ratio - 1.0) for ratio in ratios), default=0.0)
    return Weighing(tuple(weights), tuple(boosts), {field: length.average for field, length in together.items()}, growth_max, drift)


def _inverse_frequency(rows: int, holding: int) -> float:
    """In 32 bits as the engine takes it, which shows with a word that nearly every row has."""
    return math.log(_single(1.0 + _single((rows - holding + 0.5) / (holding + 0.5))))


def _single(value: float) -> float:
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


def _saturated(counts: Counts, asked: Asked, average: float) -> float:
    times = counts.terms[asked.field][asked.term]
    if not times:
        return 0.0
    return times * (1 + K1) / (times + K1 * (1 - B + B * kept_length(counts.lengths[asked.field]) / average))
