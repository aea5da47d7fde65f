"""When waiting is no use: no disk left, a refused key or model, or a silent queue. A pass that rests asks here, and ends by the error.

Workers never give a document up for the catalog's sake, so somebody has to tell the person. Looks only, writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from store.clock import Clock
from store.errors import BrokerUnavailable, CatalogFull, CatalogUnwritable, EmbedderRefused, EvercurrentError
from store.model import DocumentId, DocumentStatus

LOOK_SECONDS = 1.0
FREE_BYTES_MIN = 16 * 1024
"""A transaction that found no room has filled the disk with its own log: less than a page is left."""
DOCUMENTS_MAX = 1_000
"""Pending documents looked at; those that failed stay at the front."""
BROKER_SECONDS_MAX = 30.0
"""A queue server that was killed is back long before."""

_STOPPERS = {kind.code: kind for kind in (CatalogFull, CatalogUnwritable, EmbedderRefused)}


class Patience:
    """Asked each time a pass rests.

    `ask` raises CatalogFull, CatalogUnwritable, EmbedderRefused or BrokerUnavailable when resting helps no longer.
    """

    def __init__(self, folder: Path, pending: Callable[[], Iterable[DocumentStatus]], clock: Clock) -> None:
        self._folder = folder
        self._pending = pending
        self._clock = clock
        self._attempts_before = {status.document: status.attempts for status in self._stopped()}
        self._look_at = clock.monotonic() + LOOK_SECONDS
        self._broker_lost_at: float | None = None

    def ask(self, check_broker: Callable[[], None] = lambda: None) -> None:
        """`check_broker` raises BrokerUnavailable when the queue does not answer."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        refuse_full(self._folder)
        refuse_stopped(self._stopped(), self._attempts_before)
        self._ask_broker(check_broker, now)

    def _stopped(self) -> list[DocumentStatus]:
        return [status for status in islice(self._pending(), DOCUMENTS_MAX) if status.code in _STOPPERS]

    def _ask_broker(self, check_broker: Callable[[], None], now: float) -> None:
        try:
            check_broker()
        except BrokerUnavailable:
            self._broker_lost_at = now if self._broker_lost_at is None else self._broker_lost_at
            if now - self._broker_lost_at > BROKER_SECONDS_MAX:
                raise
        else:
            self._broker_lost_at = None


def refuse_full(folder: Path) -> None:
    """Raises CatalogFull when the disk of `folder` has no room for one more page."""
    disk = os.statvfs(folder)
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    if disk.f_blocks and blocks * disk.f_frsize < FREE_BYTES_MIN:
        raise CatalogFull(path=str(folder))


def refuse_stopped(stopped: Iterable[DocumentStatus], attempts_before: dict[DocumentId, int]) -> None:
    """Raises what stopped a document's last attempt, if that was since `attempts_before`."""
    for status in stopped:
        if status.attempts > attempts_before.get(status.document, 0):
            error: EvercurrentError = _STOPPERS[str(status.code)](status.message)
            raise error
