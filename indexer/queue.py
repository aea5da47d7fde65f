"""The producer's side of RQ, and its only door in this room: nudges become jobs, and the queue says which it still has.

One queue, JSON payloads, one dotted name. The queue is disposable: what it loses, the feeder feeds again.
RQ's Retry serves only jobs whose process died; a document's own failure is a value in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from rq import Queue, Retry
from rq.job import Job
from rq.serializers import JSONSerializer

from indexer.feed import JOB_FUNCTION, QUEUE_NAME, Nudge, PayloadUnknown, documents_of, payload_of
from store.broker import broker_errors, connect
from store.clock import Clock
from store.model import DocumentId

log = structlog.get_logger()

JOB_SECONDS_MAX = 30 * 60
"""A job of many documents behind a slow embedder takes minutes; one that takes longer is stuck."""
DEATHS_MAX = 3
RESULT_SECONDS = 60
FAILURE_SECONDS = 7 * 24 * 3600
JOBS_READ_MAX = 4_096
"""Jobs looked at in the queue: many times what the feeder keeps there."""


@dataclass(frozen=True, slots=True)
class QueueCounts:
    queued: int
    started: int
    failed: int


class JobQueue:
    """The queue at `url`. Every method raises BrokerUnavailable when the broker does not answer. For one thread."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._client = connect(url)
        self._queue = Queue(QUEUE_NAME, connection=self._client, serializer=JSONSerializer, default_timeout=JOB_SECONDS_MAX)
        self._known: dict[str, tuple[DocumentId, ...]] = {}

    def push(self, nudges: Sequence[Nudge], *, first: bool = False) -> list[str]:
        """Queues a job for each nudge, in order, in one round trip; returns their ids. `first` puts them before all that wait.

        At-least-once: after BrokerUnavailable they may be queued all the same, and a second job for a document finds nothing to do.
        """
        if not nudges:
            return []
        ordered = list(reversed(nudges)) if first else list(nudges)
        with broker_errors(self._url):
            jobs = self._queue.enqueue_many([self._prepared(nudge, first) for nudge in ordered])
        for job, nudge in zip(jobs, ordered, strict=True):
            self._known[job.id] = nudge.documents
        job_ids = [job.id for job in jobs]
        return job_ids[::-1] if first else job_ids

    def queued_jobs(self) -> dict[str, tuple[DocumentId, ...]]:
        """Jobs that wait, in order, with the documents they name. A job that a worker has taken is not among them."""
        with broker_errors(self._url):
            job_ids = self._queue.get_job_ids(0, JOBS_READ_MAX)
            unknown = [job_id for job_id in job_ids if job_id not in self._known]
            if unknown:
                jobs = Job.fetch_many(unknown, connection=self._client, serializer=JSONSerializer)
                self._known.update((job.id, _documents_of_job(job)) for job in jobs if job is not None)
        self._known = {job_id: self._known.get(job_id, ()) for job_id in job_ids}
        return dict(self._known)

    def counts(self) -> QueueCounts:
        """Jobs by state. Only reads: RQ's own counts clean registries, which retries jobs in the process that merely asks."""
        now = self._clock.now()
        with broker_errors(self._url), self._client.pipeline(transaction=False) as pipeline:
            pipeline.llen(self._queue.key)
            pipeline.zcount(self._queue.started_job_registry.key, now, "+inf")
            pipeline.zcount(self._queue.failed_job_registry.key, now, "+inf")
            queued, started, failed = pipeline.execute()
        return QueueCounts(queued, started, failed)

    def close(self) -> None:
        self._client.close()

    def _prepared(self, nudge: Nudge, first: bool) -> Any:
        return Queue.prepare_data(
            JOB_FUNCTION,
            args=[payload_of(nudge)],
            job_id=self._clock.new_id(),
            description=nudge.description,
            meta={"cause": nudge.cause.value, "documents": len(nudge.documents), "urgency": nudge.urgency.name.lower()},
            retry=Retry(max=DEATHS_MAX),
            result_ttl=RESULT_SECONDS,
            failure_ttl=FAILURE_SECONDS,
            timeout=JOB_SECONDS_MAX,
            at_front=first,
        )


def _documents_of_job(job: Job) -> tuple[DocumentId, ...]:
    try:
        return documents_of(job.args[0])
    except (PayloadUnknown, IndexError, ValueError, TypeError) as error:
        log.warning("job_unreadable", job=job.id, reason=str(error))
        return ()
