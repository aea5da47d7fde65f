"""The bounded place where watching threads leave events and the loop takes them from. A full inbox forgets its events and says so:
a comparison with the source then finds what they told."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from indexer.events import Event


@dataclass(frozen=True, slots=True)
class Taken:
    """What came in since the last time. A barrier stands behind every event that was noticed before it was asked for."""

    events: tuple[tuple[int, Event], ...]
    """With the number of the root they came from."""
    barriers: tuple[tuple[int, str], ...]
    overflowed: bool


class Inbox:
    """Safe among threads; `put` never blocks and never fails."""

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._events: list[tuple[int, Event]] = []
        self._barriers: list[tuple[int, str]] = []
        self._overflowed = False
        self._woken = False
        self._changed = threading.Condition()

    def put(self, root: int, event: Event) -> None:
        with self._changed:
            if len(self._events) >= self._events_max:
                self._overflowed = True
                self._events.clear()
            self._events.append((root, event))
            self._changed.notify()

    def put_barrier(self, root: int, token: str) -> None:
        with self._changed:
            self._barriers.append((root, token))
            self._changed.notify()

    def overflow(self) -> None:
        """Says that events were lost before they came here."""
        with self._changed:
            self._overflowed = True
            self._changed.notify()

    def wake(self) -> None:
        """Makes a `take` in progress return."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def take(self, timeout: float | None) -> Taken:
        """Takes all there is, waiting up to `timeout` seconds for something."""
        with self._changed:
            if not (self._events or self._barriers or self._overflowed or self._woken):
                self._changed.wait(timeout)
            taken = Taken(tuple(self._events), tuple(self._barriers), self._overflowed)
            self._events.clear()
            self._barriers.clear()
            self._overflowed = self._woken = False
            return taken

    def __len__(self) -> int:
        return len(self._events)
