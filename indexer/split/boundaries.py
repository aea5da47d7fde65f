"""Which boundaries become cuts: by content alone, so that an edit changes the cuts around it and no others.

Every boundary has a priority: its level, then a hash of the text around it. Two local rules, then a remainder:

1. A *candidate* has the highest priority within `chars_min` on both sides (the text's ends count as higher).
2. A candidate is *cut* where the stretch between the nearest higher candidates to its left and right is longer than
   `chars_max`. This is what cutting an over-long range at its highest candidate, again and again, comes to
   (the candidates' Cartesian tree), said locally: beyond `chars_max + chars_min` from an edit nothing can change.
3. What is then still too long holds no candidate (one dominates the next, or the text repeats itself): it is cut, from the
   left, at its highest boundary that leaves both parts `chars_min`.

Boundaries tie only where the text repeats itself for hundreds of characters; there cuts are counted from the left, so that
equal stretches give equal pieces.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import pairwise

from xxhash import xxh3_64_intdigest

from indexer.split.atoms import Atoms

_NEAR = 32
"""Characters on each side that a boundary's hash covers; farther edits leave its priority alone."""
_FAR = 256
"""The same for the second hash, which orders boundaries whose first hash is equal."""
_LOOK_AHEAD = 4
"""Lengths of `chars_max` that rule 3 looks at, so that an endlessly repeating text costs linear time."""


def cuts_of(text: str, atoms: Atoms, *, chars_max: int, chars_min: int) -> list[int]:
    """Returns, ascending, the indices of the atoms that start a piece; the first is 0. Linear in the text, but for a sort.

    No stretch between two cuts is longer than `chars_max` unless it is one atom. Stretches shorter than `chars_min` are left
    only where there is no other way.
    """
    count = len(atoms)
    if count == 0 or atoms.ends[-1] - atoms.starts[0] <= chars_max:
        return [0] if count else []
    priorities = _priorities(text, atoms)
    candidates = _candidates(atoms, priorities, max(1, chars_min))
    cuts = [0, *_tree_cuts(atoms, priorities, candidates, chars_max)]
    remainder: list[int] = []
    for first, last in pairwise([*cuts, count]):
        if atoms.ends[last - 1] - atoms.starts[first] > chars_max:
            remainder += _remainder_cuts(atoms, priorities, first, last, chars_max, chars_min)
    return sorted(cuts + remainder)


def _priorities(text: str, atoms: Atoms) -> list[int]:
    """One number a boundary (before the atom of that index): level, then hash of the near text, then, for equals, of the far text."""
    starts, levels = atoms.starts, atoms.levels
    priorities = [
        level << 64 | xxh3_64_intdigest(text[start - _NEAR if start > _NEAR else 0 : start + _NEAR].encode())
        for start, level in zip(starts, levels, strict=True)
    ]
    if len(set(priorities)) == len(priorities):
        return priorities
    seen = Counter(priorities)
    return [
        priority << 64 | (xxh3_64_intdigest(text[max(0, start - _FAR) : start + _FAR].encode()) if seen[priority] > 1 else 0)
        for start, priority in zip(starts, priorities, strict=True)
    ]


def _candidates(atoms: Atoms, priorities: list[int], chars_min: int) -> list[int]:
    """Rule 1. Of equal boundaries the leftmost counts as the highest."""
    starts, ends, count = atoms.starts, atoms.ends, len(atoms)
    left, right = _nearest_higher(priorities[1:])
    return [
        i
        for i, (before, after) in enumerate(zip(left, right, strict=True), 1)
        if ends[i - 1] - starts[before + 1] >= chars_min and ends[after] - starts[i] >= chars_min and i < count
    ]


def _tree_cuts(atoms: Atoms, priorities: list[int], candidates: list[int], chars_max: int) -> list[int]:
    """Rule 2. Equal candidates under the same higher neighbours are taken from the left, each only when the next would not fit."""
    starts, ends, count = atoms.starts, atoms.ends, len(atoms)
    chosen = [priorities[i] for i in candidates]
    left, right = _nearest_higher(chosen)
    bounds = [0, *candidates, count]
    equals: dict[tuple[int, int], list[int]] = {}
    for i, before in enumerate(left):
        if before >= 0 and chosen[before] == chosen[i]:
            left[i] = left[before]
        stretch = bounds[left[i] + 1], bounds[right[i] + 1]
        if ends[stretch[1] - 1] - starts[stretch[0]] > chars_max:
            equals.setdefault(stretch, []).append(candidates[i])
    cuts: list[int] = []
    for (first, last), group in equals.items():
        at = first
        for boundary, following in zip(group, [*group[1:], last], strict=True):
            if ends[following - 1] - starts[at] > chars_max:
                cuts.append(boundary)
                at = boundary
    cuts.sort()
    return cuts


def _nearest_higher(priorities: list[int]) -> tuple[list[int], list[int]]:
    """For each position the nearest to the left that is higher or equal (-1: none) and to the right that is higher (the length: none)."""
    count = len(priorities)
    left, right = [-1] * count, [count] * count
    falling: list[int] = []
    for i, priority in enumerate(priorities):
        while falling and priorities[falling[-1]] < priority:
            right[falling.pop()] = i
        if falling:
            left[i] = falling[-1]
        falling.append(i)
    return left, right


def _remainder_cuts(atoms: Atoms, priorities: list[int], first: int, last: int, chars_max: int, chars_min: int) -> list[int]:
    """Rule 3, for the atoms [first, last), which are together too long."""
    starts, ends = atoms.starts, atoms.ends
    cuts: list[int] = []
    ranges = [(first, last)]
    while ranges:
        first, last = ranges.pop()
        if last - first < 2 or ends[last - 1] - starts[first] <= chars_max:
            continue
        cut = _remainder_cut(atoms, priorities, first, last, chars_max, chars_min)
        cuts.append(cut)
        ranges += [(cut, last), (first, cut)]
    return cuts


def _remainder_cut(atoms: Atoms, priorities: list[int], first: int, last: int, chars_max: int, chars_min: int) -> int:
    starts, ends = atoms.starts, atoms.ends
    horizon = bisect_right(starts, starts[first] + _LOOK_AHEAD * chars_max, first + 1, last)
    low = bisect_left(ends, starts[first] + chars_min, first, last) + 1
    high = min(horizon, bisect_right(starts, ends[last - 1] - chars_min, first, last))
    if low >= high:
        low, high = first + 1, max(horizon, first + 2)
    best = max(priorities[low:high])
    cut = priorities.index(best, low, high)
    fits = bisect_right(ends, starts[first] + chars_max, first, last)
    while True:
        try:
            following = priorities.index(best, cut + 1, min(high, fits + 1))
        except ValueError:
            return cut
        cut = following
