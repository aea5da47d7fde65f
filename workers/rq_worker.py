"""The consumer's side of RQ, and its only door in this room: a warm worker that runs its jobs without a fork.

One queue a process (with several RQ loses jobs), JSON only, no scheduler. A job that raised has failed and is not retried: RQ's Retry
serves only jobs whose process died, and the ledger serves the documents.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import structlog
from rq import Queue
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.timeouts import JobTimeoutException
from rq.worker import BaseWorker, SimpleWorker

from indexer.feed import QUEUE_NAME
from store.broker import broker_errors, connect
from store.clock import Clock
from store.errors import EvercurrentError

log = structlog.get_logger()

WORKER_SECONDS = 20
"""How long RQ believes in a silent worker (it adds 60); it wakes from an empty queue 15 s before that."""
BEAT_SECONDS = 10
"""Between signs of life of a running job; RQ gives up on it 60 s after a missed one."""
MAINTENANCE_SECONDS = 60
RESTART_RETRIES = 16
"""About three seconds: a broker that restarts in the middle of a job does not cost the warm process."""
CHATTER_SECONDS = 1.0
"""Between jobs RQ tells that it lives and asks whether it is suspended, each in its own round trips: once a second is enough."""

JOB_TIME_LIMIT: tuple[type[BaseException], ...] = (JobTimeoutException,)
"""What RQ raises inside a job that takes too long: it is the job's, and passes through."""

RQ_LOGGERS = ("rq.worker", "rq.job", "rq.queue", "rq.registry", "rq.scheduler")


def run_worker(url: str, name: str, clock: Clock, after_job: Callable[[], None] | None = None) -> None:
    """Works until SIGTERM or SIGINT, which let the running job finish. For the main thread.

    `name` is the worker's session; `after_job` runs after each job, whatever became of it. Raises BrokerUnavailable.
    """
    quieten_rq()
    with broker_errors(url):
        worker = open_worker(url, name, clock, after_job)
        worker.work(logging_level=None)


def open_worker(url: str, name: str, clock: Clock, after_job: Callable[[], None] | None = None) -> WarmWorker:
    connection = connect(url, answer_seconds_max=None, retries=RESTART_RETRIES)  # RQ sets a patience longer than its blocking pop
    queue = Queue(QUEUE_NAME, connection=connection, serializer=JSONSerializer)
    worker = WarmWorker(
        [queue],
        name=name,
        connection=connection,
        serializer=JSONSerializer,
        worker_ttl=WORKER_SECONDS,
        job_monitoring_interval=BEAT_SECONDS,
        maintenance_interval=MAINTENANCE_SECONDS,
        log_job_description=False,
    )
    worker.keep_time(clock, after_job)
    return worker


class WarmWorker(SimpleWorker):  # type: ignore[misc]
    """RQ's SimpleWorker with the timings of a worker that forks: its running job shows signs of life, so that a dead one is missed soon."""

    log_result_lifespan = False
    max_connection_wait_time = 1.0
    """An idle worker comes back within a second of the broker, however long that was away."""
    _clock: Clock
    _after_job: Callable[[], None] | None = None
    _last_beat = 0.0
    _last_look = 0.0
    _reason: str | None = None

    def keep_time(self, clock: Clock, after_job: Callable[[], None] | None) -> None:
        self._clock = clock
        self._after_job = after_job

    def execute_job(self, job: Job, queue: Queue) -> None:
        super().execute_job(job, queue)
        if self._after_job is not None:
            self._after_job()

    def perform_job(self, job: Job, queue: Queue, execution: Execution) -> bool:
        done = threading.Event()
        beats = threading.Thread(target=self._beat_for, args=(job, execution, done), name="job-beats", daemon=True)
        beats.start()
        try:
            return bool(super().perform_job(job, queue, execution))
        finally:
            done.set()

    def _beat_for(self, job: Job, execution: Execution, done: threading.Event) -> None:
        while not done.wait(BEAT_SECONDS):
            try:
                with broker_errors("the broker"):
                    self.maintain_heartbeats(job, execution)
            except EvercurrentError as error:
                log.warning("job_beat_missed", job=job.id, reason=error.message)

    def get_heartbeat_ttl(self, job: Job, working_time: float = 0.0) -> int:
        """Of the interval between signs of life. (SimpleWorker's own is the whole timeout: nobody beats there.)"""
        return int(BaseWorker.get_heartbeat_ttl(self, job, working_time))

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        now = self._clock.monotonic()
        if pipeline is None and timeout is None and now - self._last_beat < CHATTER_SECONDS:
            return
        self._last_beat = now
        super().heartbeat(timeout, pipeline)

    def check_for_suspension(self, burst: bool) -> None:
        now = self._clock.monotonic()
        if now - self._last_look >= CHATTER_SECONDS:
            self._last_look = now
            super().check_for_suspension(burst)

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Called for a job that raised, before its failure is recorded: it has used up its retries."""
        job.retries_left = 0
        error = exc_info[1]
        if isinstance(error, EvercurrentError):
            self._reason = f"{error.code}: {error.message}"
            log.warning("job_failed", job=job.id, code=error.code, reason=error.message)
        else:
            log.error("job_broke", job=job.id, exc_info=exc_info)

    def handle_job_failure(
        self, job: Job, queue: Queue, started_job_registry: Any = None, exc_string: str = "", execution: Execution | None = None
    ) -> None:
        """Records the failure; an error of ours shows on the dashboard as its sentence, any other with its traceback."""
        reason, self._reason = self._reason, None
        super().handle_job_failure(job, queue, started_job_registry, reason or exc_string, execution)


def requeue_abandoned(url: str, name: str, clock: Clock) -> list[str]:
    """Ends what a dead worker was running: its job waits again at once, or has failed after three deaths. Returns the jobs' ids.

    The worker's process must be gone. Idempotent. Without it RQ notices after a minute. Raises BrokerUnavailable.
    """
    with broker_errors(url):
        connection = connect(url)
        worker = WarmWorker.find_by_key(
            WarmWorker.redis_worker_namespace_prefix + name, connection=connection, queue_class=Queue, serializer=JSONSerializer
        )
        if worker is None:
            return []
        worker.keep_time(clock, None)
        queue = Queue(QUEUE_NAME, connection=connection, serializer=JSONSerializer)
        ended = [execution.job_id for execution in worker.get_current_executions() if _end_execution(worker, queue, execution)]
        worker.register_death()
        connection.close()
    return ended


def _end_execution(worker: WarmWorker, queue: Queue, execution: Execution) -> bool:
    job = queue.fetch_job(execution.job_id)
    if job is None or job.get_status(refresh=False) != JobStatus.STARTED:
        return False
    worker.handle_job_failure(job, queue, exc_string="The worker process died while it ran this job.", execution=execution)
    return True


def quieten_rq() -> None:
    """RQ logs warnings and worse, through the root logger's handlers; it never installs its own on stdout."""
    logging.getLogger("rq").addHandler(logging.NullHandler())
    for name in RQ_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
