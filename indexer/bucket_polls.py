"""The loops that list buckets: whatever changes in one is in the ledger a poll later. A thread a bucket, so that none waits for another.

A listing like the last one costs neither a read nor a look at the ledger. One that fails changes nothing: it is a named event, makes
the index degraded, and the next poll tries again. What is missing passes the guard, as in a folder.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from indexer.guard import RootState
from indexer.ignore import Rules
from indexer.sources.folder import Scan
from indexer.sources.places import Place, bucket_of
from indexer.sources.reconciling import reconcile_scan
from store.clock import Clock
from store.config import BucketsTable
from store.errors import EvercurrentError
from store.model import Root
from store.ports import Ledger

RETRY_SECONDS = 1.0
"""After a failure while somebody waits, or of the ledger."""
RECORD_INTENTS_MAX = 10_000
_JITTER = 0.1

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PollTimes:
    poll_seconds: float
    reconcile_seconds: float
    """A listing like the last one is compared all the same this often; 0: never."""


class BucketPolls:
    """Lists buckets from `start` to `stop`. `claims` and `bell` as for `Watching`."""

    def __init__(
        self,
        roots: Sequence[Root],
        ledger: Ledger,
        table: BucketsTable,
        reconcile_seconds: float,
        claims: Callable[[str], bool],
        bell: Callable[[], None],
        clock: Clock,
        rules: Rules | None = None,
    ) -> None:
        times = PollTimes(table.poll_seconds, reconcile_seconds)
        self._clock = clock
        self._polls = [BucketPoll(bucket_of(root, rules, table), ledger, table, times, claims, bell, clock) for root in roots]

    def start(self) -> None:
        for poll in self._polls:
            poll.start()

    def stop(self) -> None:
        """Returns when no listing runs any more: each ends with its driver's patience."""
        for poll in self._polls:
            poll.ask_to_stop()
        for poll in self._polls:
            poll.join()

    @property
    def is_alive(self) -> bool:
        return all(poll.is_alive for poll in self._polls)

    @property
    def is_ready(self) -> bool:
        """Every bucket was listed once and what was found is in the ledger, or it was found not to answer."""
        return all(poll.was_tried.is_set() for poll in self._polls)

    def settled(self, timeout: float) -> bool:
        """Lists every bucket once more; False when what is found is not in the ledger within `timeout` seconds."""
        deadline = self._clock.monotonic() + timeout
        numbers = [poll.ask_to_look(deadline) for poll in self._polls]
        return all(poll.await_look(number, deadline) for poll, number in zip(self._polls, numbers, strict=True))

    def unlisted(self) -> tuple[str, ...]:
        """Buckets whose last listing failed: what changed in them is not known."""
        return tuple(f"bucket {poll.root.name} could not be listed" for poll in self._polls if poll.failure)

    def health(self) -> tuple[str, ...]:
        """Why polling is degraded, a sentence each; empty: it is not."""
        return tuple(f"{poll.root.name}: {reason}" for poll in self._polls if (reason := poll.failure or poll.held_reason))


class BucketPoll:
    """One bucket's loop. `look` is called by its own thread alone, or, in its place, by a test."""

    def __init__(
        self,
        place: Place,
        ledger: Ledger,
        table: BucketsTable,
        times: PollTimes,
        claims: Callable[[str], bool],
        bell: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.root = place.root
        self.failure: str | None = None
        self.held_reason: str | None = None
        self.was_tried = threading.Event()
        self._place = place
        self._ledger = ledger
        self._table = table
        self._times = times
        self._claims = claims
        self._bell = bell
        self._clock = clock
        self._last: Scan | None = None
        self._compare_at = 0.0
        self._asked = self._served = 0
        self._hurried_until = 0.0
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"bucket {place.root.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self) -> None:
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def ask_to_look(self, deadline: float) -> int:
        """Asks for one more listing, tried again and again until `deadline` (monotonic); returns the question's number."""
        with self._changed:
            self._asked += 1
            self._hurried_until = max(self._hurried_until, deadline)
            self._changed.notify_all()
            return self._asked

    def await_look(self, number: int, deadline: float) -> bool:
        """Whether a listing that began after the question `number` is in the ledger, before `deadline` (monotonic)."""
        with self._changed:
            patience = max(0.0, deadline - self._clock.monotonic())
            return self._changed.wait_for(lambda: self._served >= number or self._stopping, patience) and self._served >= number

    def _run(self) -> None:
        while not self._stopping:
            with self._changed:
                serving = self._asked
            failed = self._try_to_look()
            self.was_tried.set()
            self._rest(serving, failed)

    def _rest(self, serving: int, failed: bool) -> None:
        """Answers the questions up to `serving`, and waits for the next one or the next poll."""
        with self._changed:
            if not failed:
                self._served = max(self._served, serving)
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopping or self._asked > serving, self._patience(failed))

    def _patience(self, failed: bool) -> float:
        if failed and self._clock.monotonic() < self._hurried_until:
            return RETRY_SECONDS
        return self._times.poll_seconds * random.uniform(1 - _JITTER, 1 + _JITTER)

    def _try_to_look(self) -> bool:
        """Whether it failed."""
        try:
            self.look()
        except EvercurrentError as error:
            self._last = None
            self.failure = error.message
            log.warning("bucket_poll_failed", root=self.root.name, code=error.code, reason=error.message)
        return self.failure is not None

    def look(self) -> None:
        """Lists, compares unless the listing is the last one, and records. Raises what the ledger and a missing driver raise."""
        scan = self._place.scan()
        if scan.faults:
            self._last = None
            self.failure = f"it cannot be listed: {scan.faults[0].reason}"
            log.warning("bucket_unlisted", root=self.root.name, reason=scan.faults[0].reason)
            return
        now = self._clock.monotonic()
        if not self._is_as_before(scan, now):
            self._compare(scan)
            self._last = scan
            self._compare_at = now + self._times.reconcile_seconds
        self.failure = None

    def _compare(self, scan: Scan) -> None:
        sightings = self._ledger.sightings(self.root)
        found = reconcile_scan(self._place, scan, sightings, self._clock, self._claims, buckets=self._table)
        intents = found.reconciled.intents
        for start in range(0, len(intents), RECORD_INTENTS_MAX):
            self._ledger.record(intents[start : start + RECORD_INTENTS_MAX])
        if intents:
            self._bell()
        hold = found.reconciled.held
        self.held_reason = hold.reason if hold else None
        if scan.root_state is RootState.ABSENT:
            self.held_reason = self.held_reason or "it is not there"

    def _is_as_before(self, scan: Scan, now: float) -> bool:
        last = self._last
        if last is None or self.held_reason is not None or (self._times.reconcile_seconds and now >= self._compare_at):
            return False
        return (last.root_state, last.found, last.ignore_files) == (scan.root_state, scan.found, scan.ignore_files)
