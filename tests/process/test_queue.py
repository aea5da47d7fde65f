"""Queue and worker on a real server: JSON only, no job lost, none retried that merely failed, and the queue may forget everything."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import zlib
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.brokers import kill, running_broker, until

from indexer.feed import FeedLimits, Nudge
from indexer.feeding import GRACE_SECONDS, Feeder
from indexer.queue import JobQueue, QueueCounts
from store.broker import connect
from store.clock import SystemClock
from store.errors import BrokerUnavailable
from store.model import Cause, CollectionName, DocumentId, Instant, Namespace, PendingDocument, Urgency, Uri, Version
from workers.rq_worker import requeue_abandoned

pytestmark = pytest.mark.process

WORKER = Path(__file__).parents[1] / "kit" / "worker_child.py"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.url


@pytest.fixture
def queue(url: str) -> Iterator[JobQueue]:
    connect(url).flushall()
    queue = JobQueue(url, SystemClock())
    yield queue
    queue.close()


@contextmanager
def worker(url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-P", str(WORKER), url, str(folder)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def named(uri: str) -> DocumentId:
    return DocumentId(Namespace("default"), CollectionName("main"), Uri(uri))


def nudge(*uris: str, urgency: Urgency = Urgency.FRESH) -> Nudge:
    return Nudge(tuple(named(uri) for uri in uris), Cause.MODIFIED, urgency)


def job_hash(url: str, job_id: str) -> dict[str, bytes]:
    stored: Any = connect(url).hgetall(f"rq:job:{job_id}")
    return {key.decode(): value for key, value in stored.items()}


def status(url: str, job_id: str) -> str:
    return job_hash(url, job_id).get("status", b"").decode()


def test_a_pushed_job_names_its_documents_in_json_and_nothing_else_travels(url: str, queue: JobQueue) -> None:
    (job_id,) = queue.push([nudge("guide/install.md", "faq.md")])
    stored = job_hash(url, job_id)
    names = [["default", "main", "guide/install.md"], ["default", "main", "faq.md"]]
    assert json.loads(zlib.decompress(stored["data"])) == ["workers.entry.index_documents", None, [{"v": 1, "documents": names}], {}]
    assert stored["description"].decode() == "index 2 documents: guide/install.md, faq.md"
    assert json.loads(stored["meta"]) == {"cause": "modified", "documents": 2, "urgency": "fresh"}


def test_the_queue_tells_what_waits_in_order_to_another_process_too(url: str, queue: JobQueue) -> None:
    job_ids = queue.push([nudge("a"), nudge("b", "c")])
    expected = {job_ids[0]: (named("a"),), job_ids[1]: (named("b"), named("c"))}
    assert queue.queued_jobs() == expected
    assert list(JobQueue(url, SystemClock()).queued_jobs().items()) == list(expected.items())


def test_jobs_pushed_first_wait_before_all_others_in_their_own_order(queue: JobQueue) -> None:
    bulk = queue.push([nudge("bulk")])
    first = queue.push([nudge("a"), nudge("b")], first=True)
    assert list(queue.queued_jobs()) == [*first, *bulk]
    assert list(queue.queued_jobs().values()) == [(named("a"),), (named("b"),), (named("bulk"),)]


def test_a_foreign_job_in_the_queue_names_no_document(url: str, queue: JobQueue) -> None:
    connect(url).lpush("rq:queue:evercurrent", "foreign")
    (job_id,) = queue.push([nudge("a")])
    assert queue.queued_jobs() == {"foreign": (), job_id: (named("a"),)}


def test_a_worker_takes_jobs_and_leaves_them_finished(url: str, queue: JobQueue, tmp_path: Path) -> None:
    job_ids = queue.push([nudge("a"), nudge("b", "c")])
    with worker(url, tmp_path):
        until("both jobs finished", lambda: [status(url, job_id) for job_id in job_ids] == ["finished", "finished"])
    assert (tmp_path / "done-a").exists()
    assert queue.queued_jobs() == {}


def test_a_job_that_quarantined_something_is_failed_with_the_reason_and_not_retried(url: str, queue: JobQueue, tmp_path: Path) -> None:
    quarantining, broken, after = queue.push([nudge("quarantine"), nudge("break"), nudge("after")])
    with worker(url, tmp_path):
        until("the job behind them finished", lambda: status(url, after) == "finished")
    assert [status(url, quarantining), status(url, broken)] == ["failed", "failed"]
    assert [(tmp_path / f"started-{name}").read_text() for name in ("quarantine", "break")] == ["x", "x"]
    assert queue.counts() == QueueCounts(queued=0, started=0, failed=2)
    assert last_reason(url, quarantining) == "documents_quarantined: 1 of 1 documents were quarantined: The file cannot be parsed."
    assert "RuntimeError: a bug" in last_reason(url, broken)


def last_reason(url: str, job_id: str) -> str:
    results: Any = connect(url).xrevrange(f"rq:results:{job_id}", count=1)
    return zlib.decompress(b64decode(results[0][1][b"exc_string"])).decode()


def test_a_pickled_job_is_not_unpickled(url: str, queue: JobQueue, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    (job_id,) = queue.push([nudge("a")])
    connect(url).hset(f"rq:job:{job_id}", "data", zlib.compress(pickle.dumps(("pathlib.Path.touch", None, (trap,), {}))))
    with worker(url, tmp_path):
        until("the job failed", lambda: status(url, job_id) == "failed")
    assert not trap.exists()


def test_sigterm_lets_the_running_job_finish_and_takes_no_other(url: str, queue: JobQueue, tmp_path: Path) -> None:
    waiting, next_one = queue.push([nudge("wait"), nudge("next")])
    with worker(url, tmp_path) as process:
        until("the job started", (tmp_path / "started-wait").exists)
        process.send_signal(signal.SIGTERM)
        until("the worker noted it", lambda: worker_field(url, b"shutdown_requested_date"))
        (tmp_path / "go").touch()
        assert process.wait(10) == 0
    assert [status(url, waiting), status(url, next_one)] == ["finished", "queued"]


def worker_field(url: str, field: bytes) -> bytes | None:
    client: Any = connect(url)
    found = (client.hget(key, field) for key in client.smembers("rq:workers"))
    return next((value for value in found if value), None)


def test_sigterm_ends_an_idle_worker_at_once(url: str, queue: JobQueue, tmp_path: Path) -> None:
    with worker(url, tmp_path) as process:
        until("it is idle", lambda: worker_field(url, b"state") == b"idle")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_killed_workers_job_waits_again_at_once_and_finishes_elsewhere(url: str, queue: JobQueue, tmp_path: Path) -> None:
    (job_id,) = queue.push([nudge("wait")])
    with worker(url, tmp_path) as process:
        until("the job started", (tmp_path / "started-wait").exists)
        kill(process.pid)
        process.wait()
    (session,) = (path.name.removeprefix("worker-") for path in tmp_path.glob("worker-*"))
    assert queue.counts().started == 1
    assert requeue_abandoned(url, session, SystemClock()) == [job_id]
    assert requeue_abandoned(url, session, SystemClock()) == []
    assert queue.counts() == QueueCounts(queued=1, started=0, failed=0)
    (tmp_path / "go").touch()
    with worker(url, tmp_path):
        until("it finished", lambda: status(url, job_id) == "finished")


def test_a_job_whose_worker_died_too_often_is_failed_with_the_reason(url: str, queue: JobQueue, tmp_path: Path) -> None:
    (job_id,) = queue.push([nudge("wait")])
    connect(url).hset(f"rq:job:{job_id}", "retries_left", 0)
    with worker(url, tmp_path) as process:
        until("the job started", (tmp_path / "started-wait").exists)
        kill(process.pid)
        process.wait()
    (session,) = (path.name.removeprefix("worker-") for path in tmp_path.glob("worker-*"))
    requeue_abandoned(url, session, SystemClock())
    assert queue.counts() == QueueCounts(queued=0, started=0, failed=1)
    assert "worker process died" in last_reason(url, job_id)


def test_after_flushall_what_is_pending_is_nudged_again_and_done(url: str, queue: JobQueue, tmp_path: Path) -> None:
    rows = [PendingDocument(named("a"), Version(1), Instant(0.0), Urgency.FRESH, Cause.CREATED, 0)]

    def pending(limit: int, _now: Instant) -> Sequence[PendingDocument]:
        return [] if (tmp_path / "done-a").exists() else rows[:limit]

    feeder = Feeder(queue, pending, lambda _now: set(), FeedLimits(2))
    assert feeder.look(Instant(0.0)) == 1
    connect(url).flushall()
    assert feeder.look(Instant(1.0)) == 0
    assert feeder.look(Instant(1.0 + GRACE_SECONDS)) == 1
    with worker(url, tmp_path):
        until("it is done", (tmp_path / "done-a").exists)


def test_counting_only_reads(url: str, queue: JobQueue) -> None:
    (job_id,) = queue.push([nudge("a")])
    connect(url).zadd("rq:wip:evercurrent", {f"{job_id}:old": 1.0})
    assert queue.counts() == QueueCounts(queued=1, started=0, failed=0)
    assert connect(url).zcard("rq:wip:evercurrent") == 1


def test_a_queue_without_a_broker_raises_our_error(tmp_path: Path) -> None:
    gone = JobQueue(f"unix://{tmp_path}/gone.sock", SystemClock())
    for call in (lambda: gone.push([nudge("a")]), gone.queued_jobs, gone.counts):
        with pytest.raises(BrokerUnavailable):
            call()


def test_a_worker_outlives_a_broker_that_restarts(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        queue = JobQueue(broker.url, SystemClock())
        with worker(broker.url, tmp_path) as process:
            until("it works", lambda: queue.push([nudge("a")]) and (tmp_path / "done-a").exists())
            first = broker.server_pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            until("another server runs", lambda: broker.server_pid not in (None, first))

            def pushed_and_done() -> bool:
                try:
                    queue.push([nudge("b")])
                except BrokerUnavailable:
                    return False
                return (tmp_path / "done-b").exists()

            until("it works again", pushed_and_done)
            assert process.poll() is None
