"""What every catalog adapter promises about news that arrive while a worker is at a document."""

from __future__ import annotations

from kit.builders import Worker, document, present, signature

from store.clock import SimulatedClock
from store.model import DocumentState, DocumentStatus, Held, Instant, Seen
from store.ports import Catalog


def status(catalog: Catalog, uri: str = "a.md") -> DocumentStatus:
    found = catalog.status_of(document(uri))
    assert found is not None
    return found


def test_a_failure_of_an_older_version_is_no_attempt_at_the_newer_one(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present()])
    leased = worker.lease()
    catalog.record([present()])
    worker.commit(worker.failed(leased, retry_at=clock.now() + 60))
    found = status(catalog)
    assert (found.state, found.attempts, found.retry_at, found.code) == (DocumentState.PENDING, 0, None, None)
    assert worker.lease().attempts == 0


def test_of_several_notices_during_the_work_the_first_is_the_oldest_unserved_one(
    catalog: Catalog, worker: Worker, clock: SimulatedClock
) -> None:
    for _ in range(2):
        catalog.record([present(noticed_at=clock.now())])
        leased = worker.lease()
        clock.advance(1)
        first = clock.now()
        catalog.record([present(noticed_at=first)])
        clock.advance(1)
        catalog.record([present(noticed_at=clock.now())])
        worker.commit(worker.indexed(leased, "one"))
        assert status(catalog).noticed_at == first
        worker.finish("a.md", "two")


def test_a_document_that_was_held_during_the_work_stays_held(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    leased = worker.lease()
    catalog.record([Held(document(), Instant(1), "the folder is empty")])
    worker.commit(worker.indexed(leased, "two"))
    found = status(catalog)
    assert (found.state, found.message) == (DocumentState.HELD, "the folder is empty")
    assert catalog.pending(10, clock.now()) == []
    catalog.record([Seen(document(), signature(), proven=True)])
    assert status(catalog).state is DocumentState.INDEXED


def test_a_failed_attempt_leaves_a_held_document_held(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    leased = worker.lease()
    catalog.record([Held(document(), Instant(1), "the folder is empty")])
    worker.commit(worker.failed(leased, retry_at=clock.now()))
    assert status(catalog).state is DocumentState.HELD
    assert catalog.pending(10, Instant(clock.now() + 100)) == []
