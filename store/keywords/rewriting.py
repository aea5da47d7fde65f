"""Live rows are copied into a fresh folder beside the work, one copy at a time, and what changes meanwhile is written after them.

A copy gives way to queries every few rows, ends early when it is asked to, and shows nothing by itself: the index switches to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from store.errors import Transient
from store.keywords.engine import Committed, Generation
from store.keywords.fresh import Row

log = structlog.get_logger()

ROWS_AT_A_TIME = 16
"""About half a millisecond of work between two pauses."""
PAUSE_SECONDS = 0.001
CATCH_UP_ROWS_MAX = 256
"""Changes that the switch may still have to write, while nothing else is written."""
CATCH_UPS_MAX = 8


class Journal:
    """What was committed to the old folder since the copy began: the latest of each chunk. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._latest: dict[str, Row | None] = {}

    def note(self, rows: Mapping[str, Row | None]) -> None:
        with self._guard:
            self._latest.update(rows)

    def taken(self) -> dict[str, Row | None]:
        with self._guard:
            taken, self._latest = self._latest, {}
            return taken

    def __len__(self) -> int:
        return len(self._latest)


def written_anew(source: Committed, folder: Path, number: int, journal: Journal, pause: Callable[[], bool]) -> Generation | None:
    """The rows of `source` with all but the last few changes since; None when `pause` said to stop.

    Raises ValueError and OSError.
    """
    fresh = Generation(folder, number)
    try:
        if _copied(source, fresh, pause):
            for _ in range(CATCH_UPS_MAX):
                if len(journal) <= CATCH_UP_ROWS_MAX:
                    break
                fresh.write(journal.taken())
            return fresh
    except BaseException:
        fresh.close()
        raise
    fresh.close()
    return None


def _copied(source: Committed, fresh: Generation, pause: Callable[[], bool]) -> bool:
    copied = 0
    for page in source.pages():
        for start in range(0, len(page), ROWS_AT_A_TIME):
            fresh.add(page[start : start + ROWS_AT_A_TIME])
            if pause():
                return False
        copied += len(page)
    if copied != source.rows:
        raise ValueError(f"{copied} of {source.rows} rows could be read")
    fresh.write({})
    return True


class Rewriter:
    """Has the index written anew: at once in the caller's thread, or in one of its own while it is worn. One at a time."""

    def __init__(self, write_anew: Callable[[Callable[[], bool]], None], dead_share: Callable[[], float], share_max: float) -> None:
        self._write_anew = write_anew
        self._dead_share = dead_share
        self._share_max = share_max
        self._running = threading.Lock()
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._share_failed = 0.0
        """After a failure it has to get that much worse before it is tried again."""

    def run_now(self) -> None:
        """Waits for one that runs, as that one may have begun before a row was removed. Raises what writing raises."""
        with self._running:
            self._write_anew(self._closing.is_set)

    def wear(self) -> None:
        """Rows died: begins one in the background when it is time."""
        with self._guard:
            if self._thread is None and self._is_time():
                self._thread = threading.Thread(target=self._run, name="keyword-rewrite", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stops one that runs and waits for it. A second time does nothing."""
        self._closing.set()
        with self._guard:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _is_time(self) -> bool:
        return not self._closing.is_set() and self._dead_share() > self._share_max + self._share_failed

    def _run(self) -> None:
        while self._goes_on():
            with self._running:
                share = self._dead_share()
                try:
                    self._write_anew(lambda: self._closing.wait(PAUSE_SECONDS))
                    self._share_failed = 0.0
                except Transient as error:
                    self._share_failed = share
                    log.warning("keywords_not_rewritten", reason=error.message)

    def _goes_on(self) -> bool:
        with self._guard:
            if not self._is_time():
                self._thread = None
            return self._thread is not None
