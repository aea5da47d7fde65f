"""A worker's session in the catalog: one row, one heartbeat, ended when the process stops, or by the fleet when it died."""

from __future__ import annotations

import os
import threading

import structlog

from store.clock import Clock
from store.errors import EvercurrentError
from store.model import SessionId
from store.ports import Leases

log = structlog.get_logger()

BEATS_A_LEASE = 3


class WorkerSession:
    """Opened once a process. Its leases live as long as it beats; the fence protects when it stops."""

    def __init__(self, catalog: Leases, session_id: SessionId, clock: Clock, lease_seconds: float) -> None:
        self.session_id = session_id
        self._catalog = catalog
        self._clock = clock
        self._seconds = lease_seconds / BEATS_A_LEASE
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="session", daemon=True)

    def __enter__(self) -> WorkerSession:
        self._catalog.open_session(self.session_id, "worker", os.getpid(), self._clock.now())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        self._catalog.end_session(self.session_id)

    def _beat(self) -> None:
        while not self._closed.wait(self._seconds):
            try:
                if not self._catalog.beat(self.session_id, self._clock.now()):
                    log.error("session_ended_by_another", session=self.session_id)
                    os._exit(1)  # somebody took this worker for dead: nothing it does would be accepted
            except EvercurrentError as error:
                log.warning("session_beat_missed", session=self.session_id, reason=error.message)
