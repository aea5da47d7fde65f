"""One pass over sources: look, record what should now be true, and (for `sync`) see to it that it becomes so.

`look` writes nothing. With nothing to do nothing is started: neither queue nor workers nor anything that would have to be imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evercurrent.summary import ChunkNumbers, DocumentNumbers, Failure, Summary, numbers_json, summary_of
from evercurrent.targets import Target
from indexer.load.registry import claims
from indexer.sources.reconciling import Pass, reconcile_root
from store.model import Absent, Change, Collection, CollectionId, DocumentId, DocumentState, DocumentStatus, Ignored, Position

if TYPE_CHECKING:
    from indexer.ignore import Rules
    from store.clock import Clock
    from store.config import BucketsTable
    from store.ports import Catalog, CatalogReader

INTENTS_MAX = 500
"""Intents a transaction: short enough for others to get in between."""
LOOKS_A_COUNT = 8
"""Counting reads the whole ledger, and a worker rings often: the bar moves less often than that."""
PAGE_LIMIT = 1_000
PENDING_LIMIT = 32
"""The first pending document is enough."""
EMBEDDED_TALLY = "evercurrent_embedded_texts_total"

Progress = Callable[[int, int], None]
"""(documents done, documents in all) of a pass that waits."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one target's comparison found."""

    target: Target
    found: Pass
    claimed: int
    ignored: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the catalog stood when a pass began."""

    position: Position
    embedded: int
    at: float


def mark(catalog: CatalogReader, clock: Clock) -> Mark:
    return Mark(catalog.position(), embedded_texts(catalog), clock.monotonic())


def look(catalog: Catalog, targets: Sequence[Target], rules: Rules, clock: Clock, buckets: BucketsTable | None = None) -> list[Look]:
    """Compares every target with the ledger: by stat, then by hash where stat does not decide."""
    return [_look_at(catalog, target, rules, clock, buckets) for target in targets]


def _look_at(catalog: Catalog, target: Target, rules: Rules, clock: Clock, buckets: BucketsTable | None) -> Look:
    sightings = catalog.sightings(target.root, target.scope)
    found = reconcile_root(target.root, sightings, clock, claims, rules, target.scope, buckets=buckets)
    claimed = sum(map(claims, found.scan.found))
    return Look(target, found, claimed, len(found.scan.found) - claimed)


def record(catalog: Catalog, looks: Sequence[Look]) -> list[Failure]:
    """Makes what was found the wanted state, durably; returns the files whose uri belongs to another source, since whenever."""
    for seen in looks:
        intents = seen.found.reconciled.intents
        for start in range(0, len(intents), INTENTS_MAX):
            catalog.record(intents[start : start + INTENTS_MAX])
    targets = [seen.target for seen in looks]
    return [
        Failure(claim.document.uri, claim.code or "", claim.message or "")
        for home in {target.root.home for target in targets}
        for claim in statuses_of(catalog, home, targets, (DocumentState.CONFLICT,))
    ]


def await_settled(
    catalog: CatalogReader,
    home: CollectionId,
    targets: Sequence[Target],
    rest: Callable[[], None],
    progress: Progress = lambda _done, _all: None,
) -> None:
    """Returns when no document of the targets is pending any more; a quarantined one is not. `rest` pauses between looks."""
    most, looks = 0, 0
    waited_for: DocumentId | None = None
    while (waited_for := next_pending(catalog, home, targets, waited_for)) is not None:
        if looks % LOOKS_A_COUNT == 0:
            waiting = pending_count(catalog, home)
            most = max(most, waiting)
            progress(most - waiting, most)
        looks += 1
        rest()
    progress(most, most)


def next_pending(catalog: CatalogReader, home: CollectionId, targets: Sequence[Target], before: DocumentId | None) -> DocumentId | None:
    """A pending document of the targets: `before` as long as it is one, else one after it, else any."""
    if before is not None and (status := catalog.status_of(before)) is not None and status.state is DocumentState.PENDING:
        return before
    for cursor in dict.fromkeys((None if before is None else before.uri, None)):
        for status in pages_of(catalog, home, (DocumentState.PENDING,), cursor, PENDING_LIMIT):
            if _is_of(targets, status):
                return status.document
    return None


def pending_count(catalog: CatalogReader, home: CollectionId) -> int:
    return catalog.counts(home).states.get(DocumentState.PENDING, 0)


def pending_of(catalog: CatalogReader, home: CollectionId, targets: Sequence[Target]) -> Iterator[DocumentStatus]:
    return statuses_of(catalog, home, targets, (DocumentState.PENDING,))


def summarize(
    catalog: CatalogReader, home: CollectionId, looks: Sequence[Look], conflicts: Sequence[Failure], since: Mark, clock: Clock
) -> Summary:
    """What became of a pass that began at `since`, for the documents of its targets. `conflicts`: files that another source owns."""
    targets = [seen.target for seen in looks]
    return summary_of(
        changes_of(catalog, home, targets, since.position),
        list(statuses_of(catalog, home, targets, (DocumentState.QUARANTINED, DocumentState.EMPTY))),
        faults=[*faults_of(looks), *conflicts],
        claimed=sum(seen.claimed for seen in looks) - len(conflicts),
        ignored=sum(seen.ignored for seen in looks),
        embedded=embedded_texts(catalog) - since.embedded,
        seconds=clock.monotonic() - since.at,
    )


def faults_of(looks: Sequence[Look]) -> list[Failure]:
    """Places below the roots that could not be looked into: whatever stands there is not indexed, and nobody would know."""
    message = "The folder cannot be looked into: {}. Give the indexing user access to it."
    faults = [fault for seen in looks for fault in seen.found.scan.faults if fault.uri]
    return [Failure(fault.uri, "folder_unreadable", message.format(fault.reason)) for fault in faults]


def still_failed(catalog: CatalogReader, home: CollectionId, looks: Sequence[Look]) -> frozenset[DocumentId]:
    """Quarantined documents of the targets that this pass would not try again: a sync reports them, too."""
    return untouched_in(catalog, home, looks, DocumentState.QUARANTINED)


def still_pending(catalog: CatalogReader, home: CollectionId, looks: Sequence[Look]) -> frozenset[DocumentId]:
    """Documents of the targets that an earlier pass left to be indexed, and of which this one has found nothing newer."""
    return untouched_in(catalog, home, looks, DocumentState.PENDING)


def untouched_in(catalog: CatalogReader, home: CollectionId, looks: Sequence[Look], state: DocumentState) -> frozenset[DocumentId]:
    """Documents of the targets in `state` that no intent of the looks is about."""
    statuses = statuses_of(catalog, home, [seen.target for seen in looks], (state,))
    about = {intent.document for seen in looks for intent in seen.found.reconciled.intents}
    return frozenset(status.document for status in statuses if status.document not in about)


def owned(catalog: CatalogReader, intents: Iterable[Absent | Ignored]) -> list[DocumentId]:
    """Documents that leave with these intents; one that another root owns stays, whoever else has such a file no more."""
    found = ((intent, catalog.status_of(intent.document)) for intent in intents)
    return [intent.document for intent, status in found if status is not None and intent.root in (None, status.root)]


def unchanged_forecast(
    catalog: Catalog, looks: Sequence[Look], collection: Collection | None, failed: int, currency: str
) -> dict[str, Any]:
    """What `plan` says when nothing would be read: documents that only leave cost nothing."""
    leaving = owned(catalog, (intent for seen in looks for intent in seen.found.reconciled.intents if isinstance(intent, Absent | Ignored)))
    recorded = [] if collection is None or not leaving else catalog.recorded([(document, collection.served) for document in leaving])
    visible = [one for one in recorded if one.version]
    documents = DocumentNumbers(
        unchanged=max(0, sum(seen.claimed for seen in looks) - failed),
        deleted=len(visible),
        failed=failed,
        ignored=sum(seen.ignored for seen in looks),
    )
    return {
        "documents": numbers_json(documents),
        "chunks": numbers_json(ChunkNumbers(dropped=sum(len(one.chunks) for one in visible))),
        **{"embedded": 0, "reused": 0, "tokens": 0, "cost": 0.0, "currency": currency, "seconds_estimate": 0.0},
    }


def changes_of(catalog: CatalogReader, home: CollectionId, targets: Sequence[Target], since: Position) -> list[Change]:
    """Change-log rows after `since` that belong to the targets."""
    if catalog.position() == since:
        return []
    with catalog.snapshot() as snapshot:
        return [row for row in snapshot.log(home, since) if row.document is None or _is_held(targets, row.document.uri)]


def statuses_of(
    catalog: CatalogReader, home: CollectionId, targets: Sequence[Target], states: Sequence[DocumentState]
) -> Iterator[DocumentStatus]:
    """Ledger rows of the targets in one of `states`."""
    counted = catalog.counts(home).states
    wanted = [state for state in states if counted.get(state, 0)]
    if not wanted:
        return
    for status in all_documents(catalog, home, wanted):
        if _is_of(targets, status):
            yield status


def all_documents(catalog: CatalogReader, home: CollectionId, states: Sequence[DocumentState] = ()) -> Iterator[DocumentStatus]:
    """Every ledger row, page by page."""
    return pages_of(catalog, home, states, None, PAGE_LIMIT)


def pages_of(
    catalog: CatalogReader, home: CollectionId, states: Sequence[DocumentState], cursor: str | None, limit: int
) -> Iterator[DocumentStatus]:
    """Ledger rows after `cursor`, page by page."""
    while True:
        page = catalog.documents(home, cursor, limit, states)
        yield from page.documents
        cursor = page.cursor
        if cursor is None:
            return


def embedded_texts(catalog: CatalogReader) -> int:
    return int(sum(tally.value for tally in catalog.tallies() if tally.name == EMBEDDED_TALLY))


def _is_of(targets: Sequence[Target], status: DocumentStatus) -> bool:
    return any(status.root == target.root.name and target.holds(status.document.uri) for target in targets)


def _is_held(targets: Sequence[Target], uri: str) -> bool:
    return any(target.holds(uri) for target in targets)
