"""The fair write lock: one writer at a time over all processes, and a small writer is not starved by a back-to-back one.

Two file locks make a turnstile: whoever waits for the inner lock holds the outer one, so a writer that has just finished
stands behind it. The kernel frees both when a process dies; a stopped one keeps them, so waiting has a bound.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.clock import SystemClock
from store.errors import CatalogBusy

POLL_SECONDS_MIN = 0.0002
POLL_SECONDS_MAX = 0.004


class WriteLock:
    """Not reentrant. Threads of one process queue on a mutex before the file locks."""

    def __init__(self, folder: Path, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._mutex = threading.Lock()
        self._pause = threading.Event()
        self._monotonic = SystemClock().monotonic
        self._turnstile = os.open(folder / "write.turnstile", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._inner = os.open(folder / "write.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the lock for the block. Raises CatalogBusy after `seconds_max`."""
        deadline = self._monotonic() + self._seconds_max
        if not self._mutex.acquire(timeout=self._seconds_max):
            raise CatalogBusy(seconds=self._seconds_max)
        try:
            self._acquire(self._turnstile, deadline)
            try:
                self._acquire(self._inner, deadline)
            finally:
                fcntl.flock(self._turnstile, fcntl.LOCK_UN)
            try:
                yield
            finally:
                fcntl.flock(self._inner, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    def _acquire(self, descriptor: int, deadline: float) -> None:
        pause = POLL_SECONDS_MIN
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if self._monotonic() > deadline:
                    raise CatalogBusy(seconds=self._seconds_max) from None
            self._pause.wait(pause)
            pause = min(pause * 2, POLL_SECONDS_MAX)

    def close(self) -> None:
        os.close(self._turnstile)
        os.close(self._inner)
