"""Time and ids: the only place where either is made. Everything else is handed a Clock, so tests can hold time still."""

from __future__ import annotations

import secrets
import time
from typing import Protocol

from store.model import Instant, SessionId


class Clock(Protocol):
    """Wall time for people and patience; monotonic time for durations. Neither orders anything."""

    def now(self) -> Instant: ...

    def monotonic(self) -> float: ...

    def new_id(self) -> str:
        """Returns 32 hex digits that no one else has."""
        ...


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time())

    def monotonic(self) -> float:
        return time.monotonic()

    def new_id(self) -> str:
        return secrets.token_hex(16)


class SimulatedClock:
    """A clock that moves only when told to; ids count up from a seed."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._ids = 0

    def now(self) -> Instant:
        return Instant(self._now)

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:032x}"


def new_session_id(clock: Clock) -> SessionId:
    return SessionId(clock.new_id())
