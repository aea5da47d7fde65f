"""The loop that joins watching and comparing: everything that changes in the roots is in the ledger a moment later.

Watches are armed before the first comparison, so that an edit between the two is not lost. Lost events, a full inbox, a root that
went or came back, a dead watcher: each ends in one more comparison. What could not be recorded is kept and recorded again;
recording twice is harmless. Nothing here fetches a document's text.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from indexer.events import Event
from indexer.ignore import Rules
from indexer.sources.inbox import Inbox, Taken
from indexer.sources.mounts import is_remote
from indexer.sources.watch import NativeWatch, WatchLimitReached
from indexer.sources.watched import WatchedRoot
from store.clock import Clock
from store.config import WatchTable
from store.errors import Transient
from store.model import Intent, Present, Root
from store.ports import Ledger

RETRY_SECONDS = 1.0
LATE_SECONDS = 10.0
"""The event of a change this old has come, if it comes at all."""
MISSED_MAX = 2
"""So many comparisons by the timer that find changes while no event comes at all, and a root is polled."""
HELD_POLLS = 5
"""While documents are held the source is compared every so many polls: what comes back is not left waiting for the timer."""
RECORD_INTENTS_MAX = 10_000
"""Intents recorded in one call."""
_JITTER = 0.1


@dataclass(slots=True)
class _Asked:
    """Somebody waits until all that happened before is in the ledger."""

    token: str
    compare: bool
    done: threading.Event = field(default_factory=threading.Event)
    barriers_missing: set[int] | None = None
    """Roots whose barrier has not come through; None: not sent yet."""
    reached_at: float | None = None
    """When all that happened before the question had come into the inbox."""


class Watching:
    """Watches roots from `start` to `stop`, in a thread of its own.

    `claims`: whether a loader takes a uri. `bell`: called after something was recorded, to wake the feeder.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        ledger: Ledger,
        table: WatchTable,
        claims: Callable[[str], bool],
        bell: Callable[[], None],
        clock: Clock,
        rules: Rules | None = None,
    ) -> None:
        self.ready = threading.Event()
        """Set once watches are armed and the first comparison is in the ledger."""
        self._roots = [WatchedRoot(root, ledger, rules or Rules(), table, claims, clock) for root in roots]
        self._ledger = ledger
        self._table = table
        self._bell = bell
        self._clock = clock
        self._inbox = Inbox(table.inbox_events_max)
        self._native: NativeWatch | None = None
        self._polled: dict[int, str] = {}
        """Roots without native events, with the reason."""
        self._unarmed: set[int] = set()
        self._by_timer: set[int] = set()
        """Roots whose next comparison only the timer asked for."""
        self._missed: dict[int, int] = {}
        """By root, comparisons that found changes which no event had told, since the last event that came."""
        self._unrecorded: list[Intent] = []
        self._asked: list[_Asked] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._check_at = self._reconcile_at = self._retry_at = self._held_look_at = 0.0
        self._log = structlog.get_logger()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)

    # --- for other threads ---

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops watching. What has not settled is found by the next start's comparison."""
        self._stopping.set()
        self._inbox.wake()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def settled(self, timeout: float) -> bool:
        """Waits until every event that happened in a source before this call is in the ledger; False when time is out.

        With native events a barrier is sent through the same kernel queue; a polled root is scanned; then the inbox is empty, and
        what had not settled has. Nothing is written into a root.
        """
        return self._ask(_Asked(self._clock.new_id(), compare=False), timeout)

    def reconcile_now(self, timeout: float) -> bool:
        """Compares every root with the ledger; False when that is not done within `timeout` seconds."""
        return self._ask(_Asked(self._clock.new_id(), compare=True), timeout)

    def _ask(self, asked: _Asked, timeout: float) -> bool:
        with self._lock:
            self._asked.append(asked)
        self._inbox.wake()
        return asked.done.wait(timeout)

    def unsettled(self) -> int:
        """Documents that were noticed and are not in the ledger yet, roughly."""
        return len(self._inbox) + sum(root.unsettled for root in self._roots) + len(self._unrecorded)

    def health(self) -> tuple[str, ...]:
        """Why watching is degraded, a sentence each; empty: it is not."""
        reasons = [f"{self._roots[number].root.name} is polled: {reason}" for number, reason in self._polled.items() if reason]
        reasons += [f"{root.root.name}: {root.held_reason}" for root in self._roots if root.held_reason]
        if self.ready.is_set() and not self.is_alive and not self._stopping.is_set():
            reasons.append("watching has stopped")
        return tuple(reasons)

    # --- the loop ---

    def _run(self) -> None:
        try:
            self._arm_all()
            self._step(Taken((), (), overflowed=False))
            while not self._stopping.is_set():
                if not self.ready.is_set() and not self._owes_anything():
                    self.ready.set()
                self._step(self._inbox.take(self._patience()))
        except BaseException as error:
            self._log.error("watching_failed", error=repr(error))
            raise
        finally:
            if self._native is not None:
                self._native.stop()

    def _owes_anything(self) -> bool:
        return bool(self._unrecorded) or any(root.needs_reconcile for root in self._roots)

    def _patience(self) -> float:
        now = self._clock.monotonic()
        times = [self._check_at, *(root.next_due_at for root in self._roots if root.next_due_at is not None)]
        if self._table.reconcile_seconds:
            times.append(self._reconcile_at)
        if self._owes_anything():
            times.append(self._retry_at)
        return max(0.0, min(times) - now)

    def _step(self, taken: Taken) -> None:
        now = self._clock.monotonic()
        if taken.overflowed:
            self._log.warning("inbox_overflow", events_max=self._table.inbox_events_max)
            self._want_reconcile(range(len(self._roots)))
        events: dict[int, list[Event]] = {}
        for number, event in taken.events:
            events.setdefault(number, []).append(event)
        self._take_questions()
        if now >= self._check_at:
            self._check_at = now + self._table.poll_seconds
            self._check_roots()
            self._poll(self._polled, events)
        if self._table.reconcile_seconds and now >= self._reconcile_at:
            self._reconcile_at = now + self._table.reconcile_seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
            self._by_timer = {number for number, root in enumerate(self._roots) if not root.needs_reconcile}
            self._want_reconcile(range(len(self._roots)))
        for number, root in enumerate(self._roots):
            self._work(number, root, events.get(number, []), now)
        self._record()
        self._answer(taken.barriers)

    def _want_reconcile(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._roots[number].needs_reconcile = True
            self._forgive_barrier(number)

    def _work(self, number: int, root: WatchedRoot, events: list[Event], now: float) -> None:
        if events:
            self._missed.pop(number, None)
        try:
            self._unrecorded += root.take(events, now)
            if root.needs_reconcile and now >= self._retry_at and self._record():
                found = root.reconcile()
                self._unrecorded += found
                self._count_missed(number, found)
        except Transient as error:
            root.needs_reconcile = True
            self._wait_for_the_ledger(error)

    def _count_missed(self, number: int, found: Sequence[Intent]) -> None:
        """Where events arrive the timer's comparison finds nothing old. Where it does, and no event comes at all, the root is polled."""
        if number not in self._by_timer:
            return
        self._by_timer.discard(number)
        late = self._clock.now() - LATE_SECONDS
        missed = sum(isinstance(one, Present) and one.signature is not None and one.signature.mtime_ns < late * 1e9 for one in found)
        if number in self._polled or number in self._unarmed:
            return
        if not missed:
            return
        self._missed[number] = self._missed.get(number, 0) + 1
        self._log.warning("events_missed", root=self._roots[number].root.name, changes=missed)
        if self._missed[number] >= MISSED_MAX and self._native is not None:
            self._native.disarm(number)
            self._poll_from_now_on(number, "its file system sends no events")

    def _record(self) -> bool:
        """Records what is due; False when a part of it stays for the next round."""
        recorded = False
        while self._unrecorded:
            batch = self._unrecorded[:RECORD_INTENTS_MAX]
            try:
                self._ledger.record(batch)
            except Transient as error:
                self._wait_for_the_ledger(error)
                break
            del self._unrecorded[: len(batch)]
            recorded = True
        if recorded:
            self._bell()
        return not self._unrecorded

    def _wait_for_the_ledger(self, error: Transient) -> None:
        self._retry_at = self._clock.monotonic() + RETRY_SECONDS
        self._log.warning("ledger_unavailable", code=error.code, reason=error.message)

    # --- watches ---

    def _arm_all(self) -> None:
        for number, watched in enumerate(self._roots):
            if self._table.mode == "polling":
                self._polled[number] = ""
            elif self._table.mode == "auto" and is_remote(watched.root.path):
                self._polled[number] = ""
                self._log.warning("watch_polls_remote", root=watched.root.name, poll_seconds=self._table.poll_seconds)
            else:
                self._arm(number)

    def _arm(self, number: int) -> None:
        root = self._roots[number].root
        self._roots[number].needs_arming = False
        self._unarmed.add(number)
        try:
            if self._native is None:
                self._native = NativeWatch(self._inbox, self._clock)
            self._native.arm(number, root)
        except WatchLimitReached as error:
            self._degrade(number, str(error))
        except OSError as error:
            self._log.info("watch_waits_for_root", root=root.name, reason=error.strerror)
        else:
            self._unarmed.discard(number)
        self._want_reconcile([number])

    def _degrade(self, number: int, reason: str) -> None:
        self._poll_from_now_on(number, f"the system gives no more watches ({reason}); raise fs.inotify.max_user_watches")

    def _poll_from_now_on(self, number: int, reason: str) -> None:
        self._unarmed.discard(number)
        self._polled[number] = reason
        self._want_reconcile([number])
        self._log.warning("watch_degraded", root=self._roots[number].root.name, reason=reason)

    def _check_roots(self) -> None:
        """Arms again what died or was swapped; degrades what outgrew the system's limit."""
        native = self._native
        if native is not None and native.limit_reached():
            for number in range(len(self._roots)):
                if number not in self._polled and number not in self._unarmed:
                    native.disarm(number)
                    self._degrade(number, "not every folder could be watched")
        now = self._clock.monotonic()
        if now >= self._held_look_at:
            self._held_look_at = now + HELD_POLLS * self._table.poll_seconds
            self._want_reconcile([number for number, watched in enumerate(self._roots) if watched.held_reason is not None])
        for number, watched in enumerate(self._roots):
            if number in self._polled:
                continue
            if number in self._unarmed:
                if watched.exists():
                    self._arm(number)
            elif native is None or not native.is_alive(number):
                self._log.warning("watch_died", root=watched.root.name)
                self._arm(number)
            elif watched.needs_arming or (not watched.is_live() and not watched.needs_reconcile):
                self._arm(number)

    def _poll(self, numbers: Iterable[int], events: dict[int, list[Event]]) -> None:
        for number in numbers:
            if self._roots[number].last_scan is not None:
                events.setdefault(number, []).extend(self._roots[number].poll())

    # --- answers ---

    def _take_questions(self) -> None:
        with self._lock:
            new = [asked for asked in self._asked if asked.barriers_missing is None]
        for asked in new:
            asked.barriers_missing = self._ask_barriers(asked)
            self._check_at = 0.0

    def _ask_barriers(self, asked: _Asked) -> set[int]:
        armed = set(range(len(self._roots))) - set(self._polled) - self._unarmed
        native = self._native
        if asked.compare:
            self._want_reconcile(range(len(self._roots)))
        elif armed and native is not None and native.has_barriers:
            native.send_barrier(asked.token)
            return armed
        else:
            self._want_reconcile(armed)
        return set()

    def _answer(self, barriers: Iterable[tuple[int, str]]) -> None:
        for number, token in barriers:
            self._forgive_barrier(number, token)
        with self._lock:
            for asked in [asked for asked in self._asked if self._is_answered(asked)]:
                self._asked.remove(asked)
                asked.done.set()

    def _forgive_barrier(self, number: int, token: str | None = None) -> None:
        """Waits no longer for a root's barrier: it came through, or (no token) a comparison takes its place."""
        for asked in self._asked:
            if asked.barriers_missing and token in (None, asked.token):
                asked.barriers_missing.discard(number)

    def _is_answered(self, asked: _Asked) -> bool:
        if asked.barriers_missing is None or asked.barriers_missing - set(self._polled) - self._unarmed:
            return False
        if asked.reached_at is None:
            asked.reached_at = self._clock.monotonic()
        since = asked.reached_at
        return not self._unrecorded and all(root.is_settled_since(since) for root in self._roots)
