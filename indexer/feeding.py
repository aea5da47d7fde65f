"""The feeder: the shell around `plan_feed`. One a catalog; it keeps the queue a few jobs ahead of the workers.

In flight is what waiting jobs name, what is under a live lease, and for a short grace what a worker has just taken. All of it is
read afresh at each look, so that a lost queue, a lost job or a dead worker only delays a document.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

import structlog

from indexer.feed import FeedLimits, Nudge, plan_feed
from store.clock import Clock
from store.errors import BrokerUnavailable, CatalogBusy
from store.model import DocumentId, Instant, PendingDocument, Urgency, Version

log = structlog.get_logger()

LOOK_SECONDS = 1.0
GRACE_SECONDS = 2.0
"""From taking a job to the lease takes milliseconds; after this long without one, the job is lost."""

Pending = Callable[[int, Instant], Sequence[PendingDocument]]
LiveLeases = Callable[[Instant], AbstractSet[DocumentId]]
State = tuple[Version, int]
"""Of a pending document: wanted version and attempts. When it differs from the pushed one, the push is history."""


class NudgeQueue(Protocol):
    """Where nudges go. `indexer.queue.JobQueue` is the one in use."""

    def push(self, nudges: Sequence[Nudge], *, first: bool = False) -> list[str]: ...

    def queued_jobs(self) -> dict[str, tuple[DocumentId, ...]]: ...


class Rings(Protocol):
    """Waits for the bell: `store.bell.Listener`."""

    def wait(self, seconds_max: float) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class PushedJob:
    states: dict[DocumentId, State]
    urgency: Urgency
    gone_at: Instant | None = None
    """When it was first seen to wait no longer."""


class Feeder:
    """Looks when told to. For one thread."""

    def __init__(self, queue: NudgeQueue, pending: Pending, live_leases: LiveLeases, limits: FeedLimits) -> None:
        self._queue = queue
        self._pending = pending
        self._live_leases = live_leases
        self._limits = limits
        self._pushed: dict[str, PushedJob] = {}
        self._broker_away = False

    def look(self, now: Instant) -> int:
        """Pushes what should be in the queue by now; returns how many documents. Without a broker 0: the next look tries again."""
        try:
            pushed = self._feed(now)
        except BrokerUnavailable as error:
            if not self._broker_away:
                log.warning("feeder_without_broker", reason=error.message)
            self._broker_away = True
            return 0
        if self._broker_away:
            log.info("feeder_found_broker")
        self._broker_away = False
        return pushed

    def _feed(self, now: Instant) -> int:
        queued = self._queue.queued_jobs()
        self._remember_gone(queued.keys(), now)
        jobs_free = self._limits.jobs_max(Urgency.URGENT) - len(queued)
        if jobs_free < 1:
            return 0
        waiting = {document for documents in queued.values() for document in documents}
        rows = self._pending(self._rows_wanted(jobs_free, len(waiting)), now)
        in_flight = waiting | self._just_taken(rows) | self._live_leases(now)
        nudges = plan_feed(rows, in_flight, self._limits, len(queued))
        states = {row.document: (row.wanted_version, row.attempts) for row in rows}
        for first, group in self._placed(nudges, queued.keys()):
            for job_id, nudge in zip(self._queue.push(group, first=first), group, strict=True):
                self._pushed[job_id] = PushedJob({document: states[document] for document in nudge.documents}, nudge.urgency)
        return sum(len(nudge.documents) for nudge in nudges)

    def _rows_wanted(self, jobs_free: int, waiting: int) -> int:
        """Enough to fill the queue although the first rows may be those already in flight."""
        taken = sum(len(job.states) for job in self._pushed.values() if job.gone_at is not None)
        return jobs_free * self._limits.job_documents_max + waiting + taken

    def _remember_gone(self, queued: AbstractSet[str], now: Instant) -> None:
        """Forgets jobs that have waited no longer for the length of the grace."""
        kept: dict[str, PushedJob] = {}
        for job_id, job in self._pushed.items():
            if job_id in queued:
                kept[job_id] = replace(job, gone_at=None)
            elif job.gone_at is None:
                kept[job_id] = replace(job, gone_at=now)
            elif now - job.gone_at < GRACE_SECONDS:
                kept[job_id] = job
        self._pushed = kept

    def _just_taken(self, rows: Sequence[PendingDocument]) -> set[DocumentId]:
        """Pending rows a worker is about to lease. One whose state has changed since the push was served by it, or will be fed anew."""
        gone = {(document, state) for job in self._pushed.values() if job.gone_at is not None for document, state in job.states.items()}
        return {row.document for row in rows if (row.document, (row.wanted_version, row.attempts)) in gone}

    def _placed(self, nudges: Sequence[Nudge], queued: AbstractSet[str]) -> Iterator[tuple[bool, list[Nudge]]]:
        """Nudges more urgent than all that waits go before it, the others behind it. What this feeder did not push counts as bulk."""
        waiting = [self._pushed[job_id].urgency if job_id in self._pushed else Urgency.BULK for job_id in queued]
        most_urgent = min(waiting, default=Urgency.URGENT)
        for first, group in groupby(nudges, key=lambda nudge: nudge.urgency < most_urgent):
            yield first, list(group)


def serve(feeder: Feeder, rings: Rings, clock: Clock, stop: threading.Event) -> None:
    """Looks whenever the bell rings, and every second, until `stop` is set (noticed within a second)."""
    while not stop.is_set():
        try:
            feeder.look(clock.now())
        except CatalogBusy as error:
            log.warning("feeder_waits_for_catalog", reason=error.message)
        rings.wait(LOOK_SECONDS)
