"""Which rows can be among the best k, and which are. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from store.vectors.kernel import Doubles, Floats

Slots = npt.NDArray[np.intp]
Ids = npt.NDArray[np.uint64]
"""Chunk ids, (n, 2): the two halves of the 16 bytes as numbers that order as the bytes do."""

_GROUP_ROWS = 128
_LOWEST = np.finfo(np.float32).min


def contenders(lower: Floats, upper: Floats, k: int) -> Slots:
    """The positions whose upper bound reaches the k-th largest lower bound: all others have k rows certainly above them.

    Bounds of -inf mark rows that take no part.
    """
    reached = np.flatnonzero(upper >= max(_threshold_of_groups(lower, k), _LOWEST))
    if len(reached) <= k:
        return reached
    kth = np.partition(lower[reached], len(reached) - k)[len(reached) - k]
    certain: Slots = reached[upper[reached] >= max(kth, _LOWEST)]
    return certain


def _threshold_of_groups(lower: Floats, k: int) -> np.float32:
    """A cheap bound from below: k groups whose largest value reaches it hold at least k rows that do."""
    groups = len(lower) // _GROUP_ROWS
    if groups < 4 * k:
        return np.float32(-np.inf)
    largest = lower[: groups * _GROUP_ROWS].reshape(groups, _GROUP_ROWS).max(axis=1)
    return np.float32(np.partition(largest, groups - k)[groups - k])


def best(scores: Doubles, ids: Ids, k: int) -> Slots:
    """The positions of the k best scores, best first, ties by id."""
    reached = np.arange(len(scores))
    if len(scores) > k:
        reached = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
    order = np.lexsort((ids[reached, 1], ids[reached, 0], -scores[reached]))
    return reached[order[:k]]


def first_ids(ids: Ids, k: int) -> Slots:
    """The positions of the k smallest ids, in order."""
    reached = np.arange(len(ids))
    if len(ids) > k:
        reached = np.flatnonzero(ids[:, 0] <= np.partition(ids[:, 0], k - 1)[k - 1])
    return reached[np.lexsort((ids[reached, 1], ids[reached, 0]))[:k]]
