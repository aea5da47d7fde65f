"""What `status` says: ledger, queue, lag and processes, put together from where each is known."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evercurrent.call import Call
from evercurrent.running import AnswerRefused, Running, ServerSilent, ask, find_running
from evercurrent.say import counted
from evercurrent.stuck import refuse_full
from indexer.metrics import freshness_buckets, quantile
from store.errors import BrokerUnavailable, CatalogFull
from store.folder import DataFolder
from store.model import Collection, CollectionId, DocumentState
from store.ports import Catalog, CatalogReader, Counts, Session
from store.telemetry import without_password

LOOK_SECONDS = 0.1
OLDEST_PENDING_SECONDS_MAX = 60.0
"""Older than this, something is stuck or overloaded."""
RETRIES_READ_MAX = 200
"""Pending documents whose last attempt is looked at for a reason."""


def state_json(call: Call, catalog: Catalog) -> dict[str, Any]:
    running = find_running(call.folder)
    counts = catalog.counts(call.home) if call.need_collection(catalog) else Counts({}, 0, None)
    intake = intake_state(running)
    unsettled = int(intake.get("unsettled", 0))
    buckets = freshness_buckets(catalog.tallies())
    oldest = 0.0 if counts.oldest_pending_at is None else max(0.0, call.clock.now() - counts.oldest_pending_at)
    redis = redis_url(call, running)
    queue = queue_json(call, redis)
    return {
        "documents": documents_json(counts.states, unsettled),
        "chunks": counts.chunks,
        "queue": queue or {"queued": 0, "started": 0, "failed": 0},
        "lag_seconds": {"p50": quantile(buckets, 0.5), "p95": quantile(buckets, 0.95), "oldest_pending": round(oldest, 3)},
        "health": health_json(
            reasons_of(counts, oldest, running, broker_silent=redis is not None and queue is None)
            + reasons_of_disk(call.folder)
            + reasons_of_build(catalog.collection(call.home), counts)
            + reasons_of_retries(catalog, call.home, counts)
            + [f"watching: {reason}" for reason in intake.get("watch", [])]
        ),
        "processes": processes_json(running, catalog.sessions()),
        "redis": None if redis is None else without_password(redis),
        "snapshot": catalog.position().seq,
    }


def documents_json(states: Mapping[DocumentState, int], unsettled: int) -> dict[str, int]:
    """Counts by state; an empty document counts as indexed, an event that has not settled as pending."""
    return {
        "indexed": states.get(DocumentState.INDEXED, 0) + states.get(DocumentState.EMPTY, 0),
        "pending": states.get(DocumentState.PENDING, 0) + unsettled,
        "quarantined": states.get(DocumentState.QUARANTINED, 0),
        "held": states.get(DocumentState.HELD, 0),
        "ignored": states.get(DocumentState.IGNORED, 0),
    }


def reasons_of(counts: Counts, oldest: float, running: Running | None, *, broker_silent: bool) -> list[str]:
    """Why the health is degraded; none: it is not."""
    reasons = []
    held = counts.states.get(DocumentState.HELD, 0)
    if held:
        them = "document is held: a scan did not find it" if held == 1 else "documents are held: a scan did not find them"
        reasons.append(f"{held} {them} and is not believed")
    if oldest > OLDEST_PENDING_SECONDS_MAX:
        reasons.append(f"a document has been pending for {oldest:.0f} seconds")
    if broker_silent:
        reasons.append("the queue does not answer")
    if running is not None:
        reasons += [f"the {role} is not running" for role in missing_roles(running)]
    return reasons


def reasons_of_disk(folder: DataFolder) -> list[str]:
    try:
        refuse_full(folder.path)
    except CatalogFull as error:
        return [error.message.rstrip(".")]
    except OSError:
        return []  # no data folder yet
    return []


def reasons_of_build(collection: Collection | None, counts: Counts) -> list[str]:
    """A build that has grown as far as it can, and is not served because switching would lose documents."""
    if collection is None or collection.growing is None or counts.states.get(DocumentState.PENDING, 0):
        return []
    if not (counts.states.get(DocumentState.HELD, 0) or counts.states.get(DocumentState.QUARANTINED, 0)):
        return []
    return ["a new build waits for documents that are held or quarantined"]


def reasons_of_retries(catalog: CatalogReader, home: CollectionId, counts: Counts) -> list[str]:
    """What keeps documents from being indexed, in the words of their last attempt: the commonest of those looked at."""
    if counts.states.get(DocumentState.PENDING, 0) == 0:
        return []
    rows = catalog.documents(home, None, RETRIES_READ_MAX, (DocumentState.PENDING,)).documents
    messages = Counter(row.message for row in rows if row.message is not None)
    return [waiting_words(count, message) for message, count in messages.most_common(1)]


def waiting_words(count: int, message: str) -> str:
    return f"{counted(count, 'document')} {'waits' if count == 1 else 'wait'} to be tried again: {message.rstrip('.')}"


def missing_roles(running: Running) -> list[str]:
    from store.broker.owner import is_alive

    alive = {process.role for process in running.processes if is_alive(str(process.pid))}
    return [role for role in ("indexer", "worker", "retriever") if role not in alive]


def health_json(reasons: Sequence[str]) -> dict[str, Any]:
    return {"state": "degraded" if reasons else "ok", "reasons": list(reasons)}


def processes_json(running: Running | None, sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """What the supervisor started, then who holds a session besides and lives."""
    from store.broker.owner import is_alive

    rows = [] if running is None else [{"role": row.role, "pid": row.pid, "port": row.port} for row in running.processes]
    known = {row["pid"] for row in rows}
    alive = (session for session in sessions if session.pid not in known and is_alive(str(session.pid)))
    rows += [{"role": session.role, "pid": session.pid, "port": None} for session in alive]
    return rows


def redis_url(call: Call, running: Running | None) -> str | None:
    from store.broker import find_broker

    given = call.config.store.redis_url
    found = find_broker(call.folder.path, None if given is None else given.get_secret_value())
    return found or (None if running is None else running.redis)


def queue_json(call: Call, url: str | None) -> dict[str, int] | None:
    """Jobs by state; None when there is no queue or it does not answer."""
    if url is None:
        return None
    from indexer.queue import JobQueue

    try:
        queue = JobQueue(url, call.clock)
        try:
            counts = queue.counts()
        finally:
            queue.close()
    except BrokerUnavailable:
        return None
    return {"queued": counts.queued, "started": counts.started, "failed": counts.failed}


def intake_state(running: Running | None) -> dict[str, Any]:
    """What the intake tells of itself: documents that have not settled, and what is wrong with watching. Empty when none answers."""
    if running is None or "intake" not in running.urls:
        return {}
    try:
        told: dict[str, Any] = ask(running.urls["intake"] + "/v1/state", seconds_max=2.0)
    except (ServerSilent, AnswerRefused):
        return {}
    return told


def consumer_lags(folder: DataFolder, catalog: CatalogReader) -> dict[str, int]:
    """Commits that each retriever process has not applied yet, as its beat tells."""
    from retriever.premises import beats

    head = catalog.position()
    return {
        f"retriever-{beat.pid}": max(0, head.seq - beat.seq) for beat in beats(folder.retriever) if beat.incarnation == head.incarnation
    }


def await_idle(call: Call, seconds_max: float) -> bool:
    """Waits until everything noticed before the call is served; False when time is out. An intake that restarts is waited for."""
    give_up_at = call.clock.monotonic() + seconds_max
    pause = threading.Event()
    while True:
        left = max(0.0, give_up_at - call.clock.monotonic())
        if _intake_settled(find_running(call.folder), left) and not _pending(call):
            return True
        if call.clock.monotonic() >= give_up_at:
            return False
        pause.wait(LOOK_SECONDS)


def _intake_settled(running: Running | None, seconds_max: float) -> bool:
    """Whether the intake says so within the time; without one there is nothing to wait for."""
    if running is None or "intake" not in running.urls:
        return True
    try:
        ask(f"{running.urls['intake']}/v1/settle?timeout={seconds_max}", {}, seconds_max=seconds_max + 10)
    except ServerSilent:
        return False
    except AnswerRefused as error:
        if error.code == "not_settled":
            return False
        raise
    return True


def _pending(call: Call) -> int:
    catalog = call.read_catalog()
    try:
        if catalog.collection(call.home) is None:
            return 0
        return catalog.counts(call.home).states.get(DocumentState.PENDING, 0)
    finally:
        catalog.close()


def state_lines(state: dict[str, Any]) -> list[str]:
    """The state for people."""
    documents, queue, lag = state["documents"], state["queue"], state["lag_seconds"]
    lines = ["documents: " + ", ".join(f"{count} {name}" for name, count in documents.items()), f"chunks: {state['chunks']}"]
    lines.append("queue: " + ", ".join(f"{count} {name}" for name, count in queue.items()))
    if lag["p50"] is not None:
        lines.append(f"lag: half within {lag['p50']:g} s, 95 % within {lag['p95']:g} s")
    if documents["pending"]:
        lines.append(f"oldest pending: {lag['oldest_pending']:.1f} s")
    health = state["health"]
    lines.append(f"health: {health['state']}" + "".join(f"; {reason}" for reason in health["reasons"]))
    if not state["processes"]:
        lines.append("not running: nothing watches the folders; the index is as of the last pass.")
    for process in state["processes"]:
        port = "" if process["port"] is None else f", port {process['port']}"
        lines.append(f"  {process['role']}: pid {process['pid']}{port}")
    return lines
