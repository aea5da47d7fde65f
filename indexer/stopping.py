"""SIGTERM, SIGINT and SIGHUP as a state one can wait on: a role's main thread sleeps here and leaves in order when told to."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stopping:
    """For the main thread. A handler only writes a byte, so nothing can be interrupted halfway."""

    def __init__(self, also_wake_on: tuple[signal.Signals, ...] = ()) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._asked = 0
        for number in STOP_SIGNALS:
            signal.signal(number, self._ask)
        for number in also_wake_on:
            signal.signal(number, self._wake)

    @property
    def asked(self) -> int:
        """How often this process was told to stop; 0: go on."""
        return self._asked

    def wait(self, seconds_max: float) -> bool:
        """Sleeps until a signal arrives or the time is out; returns whether to stop."""
        self.rest(seconds_max)
        return self._asked > 0

    def rest(self, seconds_max: float) -> None:
        """Sleeps until a signal arrives or the time is out."""
        readable, _, _ = select.select([self._read], [], [], seconds_max)
        if readable:
            os.read(self._read, 1024)

    def stop(self) -> None:
        """Asks as a signal would; from any thread."""
        self._asked += 1
        self._wake(0, None)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        self._wake(number, frame)

    def _wake(self, _number: int, _frame: FrameType | None) -> None:
        try:
            os.write(self._write, b".")
        except BlockingIOError:
            return  # the pipe is full of wake-ups already
