"""What goes to the queue next: a pure decision, and the payload that carries it. The feeder (indexer/feeding.py) acts on it.

A nudge names documents and never carries content: the worker looks at the source as it is then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from store.errors import Rejected
from store.model import Cause, CollectionName, DocumentId, Namespace, PendingDocument, Urgency, Uri

QUEUE_NAME = "evercurrent"
JOB_FUNCTION = "workers.entry.index_documents"
"""The only dotted name that travels."""
PAYLOAD_VERSION = 1
NAMED_DOCUMENTS_MAX = 3


class PayloadUnknown(Rejected):
    code = "payload_unknown"
    sentence = "The queue holds a job of another version of Evercurrent ({found}); it is dropped, its documents are fed again."


@dataclass(frozen=True, slots=True)
class Nudge:
    """ "Look at these documents": what one job says. At least one document, all of one urgency."""

    documents: tuple[DocumentId, ...]
    cause: Cause
    """Of the first document: what the dashboard shows."""
    urgency: Urgency

    def __post_init__(self) -> None:
        if not self.documents:
            raise ValueError("a nudge names at least one document")

    @property
    def description(self) -> str:
        """For people: `index 5 documents: guide/install.md, guide/use.md, faq.md, …`"""
        names = ", ".join(document.uri for document in self.documents[:NAMED_DOCUMENTS_MAX])
        count = len(self.documents)
        more = ", …" if count > NAMED_DOCUMENTS_MAX else ""
        return f"index {count} document{'s' if count > 1 else ''}: {names}{more}"


@dataclass(frozen=True, slots=True)
class FeedLimits:
    workers: int
    """Worker processes that share the queue: a backlog is cut so that each has something."""
    job_documents_max: int = 64
    jobs_ahead: int = 8
    """Jobs the queue may hold, waiting."""
    jobs_reserved: int = 2
    """Jobs beyond that, for what is not bulk: a save does not wait until a first indexing has drained."""

    def __post_init__(self) -> None:
        if min(self.workers, self.job_documents_max, self.jobs_ahead) < 1 or self.jobs_reserved < 0:
            raise ValueError("the limits of a feed are at least one")

    def jobs_max(self, urgency: Urgency) -> int:
        return self.jobs_ahead if urgency is Urgency.BULK else self.jobs_ahead + self.jobs_reserved


def plan_feed(
    pending: Sequence[PendingDocument], in_flight: Collection[DocumentId], limits: FeedLimits, queued_jobs: int
) -> tuple[Nudge, ...]:
    """The nudges to push now, in order: urgent first, then fresh, then bulk; namespaces of one urgency take turns.

    Within a namespace the order given is kept. No document twice, none that is in flight, and the queue never holds more than the
    limits say. A backlog makes full jobs, but first enough jobs for the workers that have nothing; a lone document goes alone.
    """
    nudges: list[Nudge] = []
    by_urgency = sorted(feedable(pending, in_flight), key=lambda row: row.urgency)
    for urgency, rows in groupby(by_urgency, key=lambda row: row.urgency):
        waiting = queued_jobs + len(nudges)
        jobs_free = limits.jobs_max(urgency) - waiting
        workers_idle = limits.workers - waiting
        nudges += share_out(list(take_turns(rows)), limits.job_documents_max, jobs_free, workers_idle)
    return tuple(nudges)


def feedable(pending: Iterable[PendingDocument], in_flight: Collection[DocumentId]) -> Iterator[PendingDocument]:
    seen = set(in_flight)
    for row in pending:
        if row.document not in seen:
            seen.add(row.document)
            yield row


def take_turns(rows: Iterable[PendingDocument]) -> Iterator[PendingDocument]:
    """One of each namespace, then the next of each, in the order the namespaces first appear."""
    queues: dict[Namespace, deque[PendingDocument]] = {}
    for row in rows:
        queues.setdefault(row.document.namespace, deque()).append(row)
    while queues:
        for namespace in list(queues):
            yield queues[namespace].popleft()
            if not queues[namespace]:
                del queues[namespace]


def share_out(rows: Sequence[PendingDocument], job_documents_max: int, jobs_free: int, workers_idle: int) -> Iterator[Nudge]:
    """The rows' first part, cut into jobs of nearly equal size."""
    if jobs_free < 1 or not rows:
        return
    full_jobs = -(-len(rows) // job_documents_max)
    jobs = min(jobs_free, max(full_jobs, min(workers_idle, len(rows))))
    taken = rows[: jobs * job_documents_max]
    size, longer = divmod(len(taken), jobs)
    start = 0
    for job in range(jobs):
        end = start + size + (job < longer)
        part = taken[start:end]
        yield Nudge(tuple(row.document for row in part), part[0].cause, part[0].urgency)
        start = end


def payload_of(nudge: Nudge) -> dict[str, Any]:
    """JSON-able, versioned; names only."""
    return {"v": PAYLOAD_VERSION, "documents": [[d.namespace, d.collection, d.uri] for d in nudge.documents]}


def documents_of(payload: object) -> tuple[DocumentId, ...]:
    """The documents a payload names. Raises PayloadUnknown for anything but this version's shape."""
    if not isinstance(payload, Mapping) or payload.get("v") != PAYLOAD_VERSION:
        raise PayloadUnknown(found=payload.get("v") if isinstance(payload, Mapping) else type(payload).__name__)
    try:
        return tuple(document_of(*names) for names in payload["documents"])
    except (KeyError, TypeError) as error:
        raise PayloadUnknown(found="malformed") from error


def document_of(namespace: object, collection: object, uri: object) -> DocumentId:
    if not (isinstance(namespace, str) and isinstance(collection, str) and isinstance(uri, str)):
        raise TypeError("a document is named by three strings")
    return DocumentId(Namespace(namespace), CollectionName(collection), Uri(uri))
