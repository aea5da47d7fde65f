"""Whether a scan that misses documents is believed. Pure: a mass disappearance is more often a lost mount than a decision.

Only what a scan finds missing comes here. A deletion that was seen to happen in a live root is never held.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HELD_DOCUMENTS_MIN = 10


class RootState(StrEnum):
    ALIVE = "alive"
    ABSENT = "absent"
    """There is nothing at its path, or it cannot be entered."""
    EMPTY = "empty"
    """It is there and holds no document at all."""
    OTHER_DEVICE = "other_device"
    """Another file system stands at its path than when it was last seen."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The scan is not believed: the missing documents stay served, and are shown with this reason."""

    reason: str


def guard(missing: int, known: int, root_state: RootState) -> Hold | None:
    """Returns why `missing` of `known` documents are held, or None when they may leave."""
    if missing == 0:
        return None
    match root_state:
        case RootState.ABSENT:
            return Hold("the root is not there")
        case RootState.OTHER_DEVICE:
            return Hold("another file system stands at the root's path")
        case RootState.EMPTY:
            return Hold("the root is empty")
        case RootState.ALIVE:
            pass
    if missing >= HELD_DOCUMENTS_MIN and missing * 2 > known:
        return Hold(f"{missing} of {known} documents disappeared at once")
    return None
