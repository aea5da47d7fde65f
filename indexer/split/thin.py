"""Too many places to cut become fewer, by content alone: of neighbouring ones the one with the greatest hash stays.

Used inside unbroken runs (a 5 MB line without a space), where every character would be a candidate.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_NEAR = 8
"""Characters before and after a place that its hash covers."""
_BLOCK = 1 << 20


def thinned(text: str, start: int, end: int, places: range | list[int], chars_max: int) -> list[int]:
    """Returns `start` and those of `places` (ascending) whose hash is the greatest within a 64th of `chars_max`, 16 at most.

    The choice at a place depends on a few characters around it, so an edit elsewhere does not change it.
    Of equal neighbours (a run of one character) one in every such distance stays, counted from the run's start.
    Where that leaves a gap longer than `chars_max` every place stays.
    """
    radius = min(16, chars_max // 64)
    if radius < 1:
        return list(places)
    allowed = np.ones(end - start, dtype=bool)
    if isinstance(places, list):
        allowed[:] = False
        allowed[np.asarray(places) - start] = True
    kept, last = [start], start
    for low in range(start, end, _BLOCK):
        for place in _greatest(text, start, end, low, min(end, low + _BLOCK), radius, allowed):
            if place - last > radius:
                kept.append(place)
                last = place
    return filled(kept, places, end, chars_max)


def filled(kept: list[int], places: range | list[int], end: int, chars_max: int) -> list[int]:
    """Returns `kept` with every place inside gaps longer than `chars_max`: only a text made against the hash has such gaps."""
    full: list[int] = []
    for low, high in pairwise([*kept, end]):
        full.append(low)
        if high - low > chars_max:
            full += places[bisect_right(places, low) : bisect_left(places, high)]
    return full


def _greatest(text: str, start: int, end: int, low: int, high: int, radius: int, allowed: NDArray[np.bool_]) -> list[int]:
    """Places in [low, high) whose hash is the greatest within `radius` on both sides."""
    first, last = max(start, low - radius), min(end, high + radius)
    hashes = _hashes(text, first, last)
    hashes[~allowed[first - start : last - start]] = 0
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(hashes, radius), 2 * radius + 1)
    greatest = (hashes == windows.max(axis=1)) & (hashes > 0)
    places: list[int] = (np.flatnonzero(greatest[low - first : high - first]) + low).tolist()
    return places


def _hashes(text: str, low: int, high: int) -> NDArray[np.uint64]:
    before, after = max(0, low - _NEAR), min(len(text), high + _NEAR)
    codes = np.frombuffer(text[before:after].encode("utf-32-le"), dtype="<u4").astype(np.uint64)
    codes = np.pad(codes, (_NEAR - (low - before), _NEAR - (after - high)))
    hashes = np.zeros(high - low, dtype=np.uint64)
    for offset in range(2 * _NEAR):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + codes[offset : offset + high - low]
    hashes ^= hashes >> np.uint64(29)
    return hashes * np.uint64(0xBF58476D1CE4E5B9) | np.uint64(1)
