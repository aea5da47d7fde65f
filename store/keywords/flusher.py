"""A thread that has fresh rows written out a little later: at once when they are many, else once the first has waited long enough.

It knows when, not what: what is written is the index's. It starts with the first row and ends when it is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from store.errors import Transient

log = structlog.get_logger()

FLUSH_SECONDS = 0.2
RETRY_SECONDS = 1.0


class Flusher:
    """`waiting` may be called by any thread. A flush that fails is logged, its rows stay served, and it is tried again."""

    def __init__(self, flush: Callable[[], None], name: str) -> None:
        self._flush = flush
        self._name = name
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_waiting = False
        self._is_urgent = False
        self._is_closing = False

    def waiting(self, urgent: bool) -> None:
        """There is something to write."""
        with self._changed:
            if self._is_closing or (self._is_waiting and self._is_urgent >= urgent):
                return
            self._is_waiting, self._is_urgent = True, urgent
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="keyword-flush", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Waits for a flush that runs. A second time does nothing."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._is_due():
            try:
                self._flush()
            except Transient as error:
                log.warning("keywords_not_flushed", path=self._name, reason=error.message)
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closing, RETRY_SECONDS)
                self.waiting(urgent=False)

    def _is_due(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_waiting or self._is_closing)
            self._changed.wait_for(lambda: self._is_urgent or self._is_closing, FLUSH_SECONDS)
            self._is_waiting = self._is_urgent = False
            return not self._is_closing
