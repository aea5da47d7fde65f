"""What was noticed at a source, as frozen values. Events name documents by uri and say nothing about content."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    CREATED = "created"
    MODIFIED = "modified"
    CLOSED = "closed"
    """A writer closed it, or it was put in place whole: complete as far as the source knows."""
    MOVED = "moved"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Event:
    kind: EventKind
    uri: str
    at: float
    """Seconds of the monotonic clock, when it was noticed."""
    moved_to: str | None = None
    is_folder: bool = False

    def __post_init__(self) -> None:
        if (self.kind is EventKind.MOVED) is (self.moved_to is None):
            raise ValueError("a moved event, and only that, has a second uri")
