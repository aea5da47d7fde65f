"""Laws of the feed decision, and the feeder over a queue that forgets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.feed import FeedLimits, Nudge, PayloadUnknown, documents_of, payload_of, plan_feed
from indexer.feeding import GRACE_SECONDS, Feeder
from store.errors import BrokerUnavailable
from store.model import Cause, CollectionName, DocumentId, Instant, Namespace, PendingDocument, Urgency, Uri, Version


def named(uri: str, namespace: str = "default") -> DocumentId:
    return DocumentId(Namespace(namespace), CollectionName("main"), Uri(uri))


def wanted(uri: str, urgency: Urgency = Urgency.FRESH, namespace: str = "default", version: int = 1, attempts: int = 0) -> PendingDocument:
    return PendingDocument(named(uri, namespace), Version(version), Instant(0.0), urgency, Cause.MODIFIED, attempts)


def many(count: int, urgency: Urgency = Urgency.FRESH, namespace: str = "default") -> list[PendingDocument]:
    return [wanted(f"{urgency.name}/{number:04}", urgency, namespace) for number in range(count)]


def fed(nudges: Sequence[Nudge]) -> list[DocumentId]:
    return list(chain.from_iterable(nudge.documents for nudge in nudges))


pendings = st.lists(
    st.builds(wanted, st.sampled_from([f"d{n}" for n in range(30)]), st.sampled_from(Urgency), st.sampled_from(["a", "b", "c"])),
    max_size=60,
)
limits = st.builds(FeedLimits, st.integers(1, 4), st.integers(1, 8), st.integers(1, 6), st.integers(0, 3))
flights = st.frozensets(st.builds(named, st.sampled_from([f"d{n}" for n in range(30)]), st.sampled_from(["a", "b", "c"])), max_size=20)


@given(pendings, flights, limits, st.integers(0, 10))
def test_no_document_goes_twice_none_is_in_flight_and_all_were_pending(
    pending: list[PendingDocument], in_flight: frozenset[DocumentId], limits: FeedLimits, queued: int
) -> None:
    documents = fed(plan_feed(pending, in_flight, limits, queued))
    assert len(documents) == len(set(documents))
    assert not in_flight & set(documents)
    assert set(documents) <= {row.document for row in pending}


@given(pendings, limits, st.integers(0, 10))
def test_the_queue_and_its_jobs_stay_within_their_limits(pending: list[PendingDocument], limits: FeedLimits, queued: int) -> None:
    nudges = plan_feed(pending, (), limits, queued)
    assert all(len(nudge.documents) <= limits.job_documents_max for nudge in nudges)
    if nudges:
        assert queued + len(nudges) <= limits.jobs_ahead + limits.jobs_reserved
    bulk = [nudge for nudge in nudges if nudge.urgency is Urgency.BULK]
    if bulk:
        assert queued + len(nudges) <= limits.jobs_ahead


@given(pendings, limits, st.integers(0, 10))
def test_the_more_urgent_goes_first_and_nothing_less_urgent_goes_while_some_of_it_stays(
    pending: list[PendingDocument], limits: FeedLimits, queued: int
) -> None:
    nudges = plan_feed(pending, (), limits, queued)
    urgencies = [nudge.urgency for nudge in nudges]
    assert urgencies == sorted(urgencies)
    first_seen = {row.document: row.urgency for row in reversed(pending)}
    left = [urgency for document, urgency in first_seen.items() if document not in set(fed(nudges))]
    assert not left or not urgencies or max(urgencies) <= min(left)


@given(pendings, limits)
def test_namespaces_of_one_urgency_take_turns(pending: list[PendingDocument], limits: FeedLimits) -> None:
    unique = {row.document: row for row in reversed(pending)}
    documents = fed(plan_feed(pending, (), limits, 0))
    for urgency in Urgency:
        waiting = Counter(row.document.namespace for row in unique.values() if row.urgency is urgency)
        got = Counter(document.namespace for document in documents if unique[document].urgency is urgency)
        shares = [got[namespace] for namespace, count in waiting.items() if got[namespace] < count]
        assert not shares or max(got.values(), default=0) - min(shares) <= 1


@given(pendings, limits)
def test_feeding_again_and_again_feeds_everything(pending: list[PendingDocument], limits: FeedLimits) -> None:
    left, looks = {row.document for row in pending}, 0
    while left and looks <= len(pending):
        left -= set(fed(plan_feed([row for row in pending if row.document in left], (), limits, 0)))
        looks += 1
    assert not left


@given(pendings, limits)
def test_an_idle_queue_gives_every_worker_something_when_there_is_enough(pending: list[PendingDocument], limits: FeedLimits) -> None:
    unique = {row.document for row in pending}
    assert len(plan_feed(pending, (), limits, 0)) >= min(limits.workers, len(unique), limits.jobs_ahead)


def test_a_namespace_with_a_thousand_does_not_keep_another_ones_document_waiting() -> None:
    pending = [*many(1000, Urgency.BULK, "large"), *many(2, Urgency.BULK, "small")]
    (nudge,) = plan_feed(pending, (), FeedLimits(1, 6, 1), 0)
    assert [document.namespace for document in nudge.documents] == ["large", "small", "large", "small", "large", "large"]


def test_a_lone_save_goes_alone() -> None:
    nudge = Nudge((named("a"),), Cause.MODIFIED, Urgency.FRESH)
    assert plan_feed([wanted("a")], (), FeedLimits(2), 0) == (nudge,)


def test_a_backlog_makes_full_jobs() -> None:
    assert [len(n.documents) for n in plan_feed(many(1000, Urgency.BULK), (), FeedLimits(2, 64, 8), 0)] == [64] * 8


def test_a_small_backlog_is_shared_out_evenly() -> None:
    assert [len(n.documents) for n in plan_feed(many(10, Urgency.BULK), (), FeedLimits(3, 64, 8), 0)] == [4, 3, 3]


def test_a_save_goes_although_bulk_fills_the_queue() -> None:
    nudges = plan_feed([wanted("saved"), *many(100, Urgency.BULK)], (), FeedLimits(2, 64, 8, jobs_reserved=1), 8)
    assert fed(nudges) == [named("saved")]


def test_a_nudge_without_documents_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Nudge((), Cause.MODIFIED, Urgency.FRESH)


def test_a_description_names_three_documents() -> None:
    names = tuple(named(name) for name in "abcd")
    assert Nudge(names[:1], Cause.MODIFIED, Urgency.FRESH).description == "index 1 document: a"
    assert Nudge(names, Cause.MODIFIED, Urgency.FRESH).description == "index 4 documents: a, b, c, …"


@given(st.lists(st.builds(named, st.text(), st.text()), min_size=1, max_size=5))
def test_a_payload_survives_json_and_holds_names_only(documents: list[DocumentId]) -> None:
    payload = payload_of(Nudge(tuple(documents), Cause.MODIFIED, Urgency.FRESH))
    assert set(payload) == {"v", "documents"}
    assert documents_of(json.loads(json.dumps(payload))) == tuple(documents)


@pytest.mark.parametrize(
    "payload",
    [None, [], {}, {"v": 2, "documents": []}, {"v": 1}, {"v": 1, "documents": [["a", "b"]]}, {"v": 1, "documents": [["a", "b", 3]]}],
)
def test_a_payload_of_another_shape_is_refused(payload: object) -> None:
    with pytest.raises(PayloadUnknown):
        documents_of(payload)


class ForgetfulQueue:
    """A queue in memory: takes, forgets, and goes away when told to."""

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[DocumentId, ...]] = {}
        self.away = False
        self._pushed = 0

    def push(self, nudges: Sequence[Nudge], *, first: bool = False) -> list[str]:
        job_ids = [f"job{self._pushed + number}" for number in range(len(nudges))]
        self._pushed += len(nudges)
        pushed = dict(zip(job_ids, [nudge.documents for nudge in nudges], strict=True))
        self.jobs = pushed | self.jobs if first else self.jobs | pushed
        return job_ids

    def queued_jobs(self) -> dict[str, tuple[DocumentId, ...]]:
        if self.away:
            raise BrokerUnavailable(url="nowhere", reason="away")
        return dict(self.jobs)

    def take(self) -> tuple[DocumentId, ...]:
        return self.jobs.pop(next(iter(self.jobs)))


class Setting:
    """A feeder with its queue, ledger and leases, all of them plain values that a test sets."""

    def __init__(self, pending: list[PendingDocument], limits: FeedLimits | None = None) -> None:
        self.queue = ForgetfulQueue()
        self.pending = pending
        self.leases: set[DocumentId] = set()
        self.feeder = Feeder(self.queue, self.unleased, lambda _now: self.leases, limits or FeedLimits(2))

    def unleased(self, limit: int, _now: Instant) -> list[PendingDocument]:
        return [row for row in self.pending if row.document not in self.leases][:limit]

    def look(self, now: float) -> int:
        return self.feeder.look(Instant(now))


def test_what_waits_in_the_queue_is_not_pushed_again() -> None:
    setting = Setting([wanted("a")])
    assert [setting.look(0), setting.look(1), setting.look(100)] == [1, 0, 0]


def test_what_another_feeder_pushed_is_not_pushed_again() -> None:
    setting = Setting([wanted("a")])
    setting.queue.jobs["foreign"] = (named("a"),)
    assert setting.look(0) == 0


def test_a_job_just_taken_is_in_flight_for_the_grace_and_then_lost() -> None:
    setting = Setting([wanted("a")])
    setting.look(0)
    setting.queue.take()
    assert [setting.look(10), setting.look(10 + GRACE_SECONDS / 2), setting.look(10 + GRACE_SECONDS)] == [0, 0, 1]


def test_a_leased_document_is_in_flight_as_long_as_its_lease_lives() -> None:
    setting = Setting([wanted("a")])
    setting.look(0)
    setting.leases = set(setting.queue.take())
    assert [setting.look(1), setting.look(100)] == [0, 0]
    setting.leases = set()
    assert setting.look(101) == 1


def test_a_second_save_does_not_wait_for_the_grace_of_the_first() -> None:
    setting = Setting([wanted("a", version=1)])
    setting.look(0)
    setting.queue.take()
    setting.pending = [wanted("a", version=2)]
    assert setting.look(0.01) == 1


def test_a_retry_that_is_due_does_not_wait_for_the_grace_of_the_attempt_before() -> None:
    setting = Setting([wanted("a", attempts=0)])
    setting.look(0)
    setting.queue.take()
    setting.pending = [wanted("a", attempts=1)]
    assert setting.look(0.6) == 1


def test_a_queue_that_lost_everything_is_filled_again() -> None:
    setting = Setting(many(5))
    assert setting.look(0) == 5
    setting.queue.jobs.clear()
    assert setting.look(1) == 0
    assert setting.look(1 + GRACE_SECONDS) == 5


def test_without_a_broker_a_look_does_nothing_and_the_next_one_tries_again() -> None:
    setting = Setting([wanted("a")])
    setting.queue.away = True
    assert setting.look(0) == 0
    setting.queue.away = False
    assert setting.look(1) == 1


def test_a_save_overtakes_waiting_bulk_and_bulk_does_not_overtake_a_save() -> None:
    setting = Setting(many(200, Urgency.BULK))
    setting.look(0)
    setting.pending = [wanted("saved"), *setting.pending]
    assert setting.look(1) == 1
    assert setting.queue.take() == (named("saved"),)


def test_a_later_save_does_not_overtake_an_earlier_one() -> None:
    setting = Setting([wanted("first")])
    setting.look(0)
    setting.pending = [wanted("first"), wanted("second")]
    setting.look(1)
    assert [setting.queue.take(), setting.queue.take()] == [(named("first"),), (named("second"),)]


def test_a_backlog_behind_documents_in_flight_is_reached() -> None:
    setting = Setting(many(40, Urgency.BULK), FeedLimits(workers=1, job_documents_max=4, jobs_ahead=2, jobs_reserved=0))
    for now in range(9):
        setting.look(now)
        assert len(setting.queue.jobs) == 2
        setting.leases |= set(setting.queue.take())
    setting.leases |= set(setting.queue.take())
    assert setting.leases == {row.document for row in setting.pending}
