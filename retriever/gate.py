"""Many queries or one change at a time: what makes a query see one seq in the vectors, the keywords and the facts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Readers share, a change is alone; a waiting change goes before later readers, so that it is never starved."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._readers = 0
        self._changes_waiting = 0
        self._changing = False

    @property
    def is_change_waiting(self) -> bool:
        return self._changes_waiting > 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Not to be nested in one thread: a change waiting between the two would stop both."""
        with self._free:
            self._free.wait_for(lambda: not self._changing and not self._changes_waiting)
            self._readers += 1
        try:
            yield
        finally:
            with self._free:
                self._readers -= 1
                self._free.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        with self._free:
            self._changes_waiting += 1
            self._free.wait_for(lambda: not self._changing and not self._readers)
            self._changes_waiting -= 1
            self._changing = True
        try:
            yield
        finally:
            with self._free:
                self._changing = False
                self._free.notify_all()
