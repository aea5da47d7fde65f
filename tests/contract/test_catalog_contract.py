"""What every catalog adapter promises its rooms: the ledger, leases, commits and what a reader sees of them.

Builds, the sweep and the counters stand in test_catalog_builds_contract.py, renames in test_catalog_moves_contract.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from kit.builders import (
    HOME,
    LEASE_SECONDS,
    Worker,
    absent,
    chunk_texts,
    chunks_of,
    content_hash,
    document,
    furnish,
    home_of,
    input_hash,
    present,
    root,
    signature,
    space,
    tally,
    texts,
    vector_of,
)

from store.clock import SimulatedClock
from store.errors import Misuse, UnknownCollection
from store.model import (
    Cause,
    ChangeKind,
    Committed,
    DocumentState,
    Failed,
    Held,
    Ignored,
    Instant,
    Position,
    Refusal,
    Refused,
    RootName,
    Seen,
    Seq,
    Urgency,
)
from store.ports import Catalog


def state(catalog: Catalog, uri: str = "a.md") -> DocumentState:
    status = catalog.status_of(document(uri))
    assert status is not None
    return status.state


def pending(catalog: Catalog, clock: SimulatedClock, limit: int = 100) -> list[str]:
    return [waiting.document.uri for waiting in catalog.pending(limit, clock.now())]


# --- ledger -------------------------------------------------------------------------------------------------


def test_every_present_intent_gets_a_higher_version(catalog: Catalog) -> None:
    versions = catalog.record([present("a.md"), present("b.md"), present("a.md")])
    assert versions == sorted({version for version in versions if version is not None})
    status = catalog.status_of(document("a.md"))
    assert status is not None
    assert (status.state, status.wanted_version, status.indexed_version) == (DocumentState.PENDING, versions[2], 0)


def test_what_is_noticed_waits_by_urgency_then_by_oldest_notice(catalog: Catalog, clock: SimulatedClock) -> None:
    catalog.record(
        [
            present("bulk.md", urgency=Urgency.BULK, noticed_at=1),
            present("late.md", noticed_at=9),
            present("early.md", noticed_at=5),
            present("now.md", urgency=Urgency.URGENT, noticed_at=10),
        ]
    )
    assert pending(catalog, clock) == ["now.md", "early.md", "late.md", "bulk.md"]
    assert pending(catalog, clock, limit=2) == ["now.md", "early.md"]


def test_the_oldest_unserved_notice_and_the_most_urgent_count(catalog: Catalog, clock: SimulatedClock) -> None:
    catalog.record([present(noticed_at=5, urgency=Urgency.URGENT), present(noticed_at=7, urgency=Urgency.BULK)])
    waiting = catalog.pending(1, clock.now())[0]
    assert (waiting.noticed_at, waiting.urgency) == (Instant(5), Urgency.URGENT)


def test_a_namespace_with_a_backlog_leaves_room_for_the_others(catalog: Catalog, clock: SimulatedClock) -> None:
    tenant = home_of(namespace="tenant")
    furnish(catalog, tenant)
    catalog.record([present(f"{number:03}.md", noticed_at=number, urgency=Urgency.BULK) for number in range(50)])
    catalog.record([present("late.md", home=tenant, noticed_at=99, urgency=Urgency.BULK)])
    assert pending(catalog, clock, limit=4) == ["000.md", "late.md", "001.md", "002.md"]


def test_a_served_notice_counts_no_more(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one", noticed_at=5.0)
    catalog.record([present(noticed_at=50)])
    assert catalog.pending(1, clock.now())[0].noticed_at == Instant(50)


def test_a_notice_during_the_work_is_the_oldest_unserved_one_afterwards(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present(noticed_at=5)])
    leased = worker.lease()
    catalog.record([present(noticed_at=8)])
    worker.commit(worker.indexed(leased, "one"))
    assert catalog.pending(1, clock.now())[0].noticed_at == Instant(8)


def test_nothing_indexed_waits(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    assert pending(catalog, clock) == []
    assert state(catalog) is DocumentState.INDEXED


def test_equal_wanted_content_keeps_its_version(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    first = catalog.record([present(content="one")])
    assert catalog.record([present(content="one")]) == first
    worker.finish("a.md", "one")
    assert catalog.record([present(content="one")]) == first
    assert pending(catalog, clock) == []
    catalog.record([present(content="two")])
    assert pending(catalog, clock) == ["a.md"]


def test_equal_content_after_a_deletion_or_a_failure_is_wanted_anew(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present("a.md", content="one"), present("b.md", content="one")])
    catalog.record([absent("a.md")])
    worker.commit(worker.failed(worker.lease("b.md")))
    catalog.record([present("a.md", content="one"), present("b.md", content="one")])
    assert pending(catalog, clock) == ["a.md", "b.md"]


def test_equal_content_that_waits_for_a_retry_is_tried_at_once(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present(content="one")])
    worker.commit(worker.failed(worker.lease(), retry_at=clock.now() + 60))
    assert pending(catalog, clock) == []
    catalog.record([present(content="one")])
    assert pending(catalog, clock) == ["a.md"]


def test_an_upload_is_leased_with_its_hash_and_metadata(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present(content="one", metadata={"team": "ops"}, sign=signature(3))])
    leased = worker.lease()
    assert (leased.content_hash, leased.metadata) == (content_hash("one"), {"team": "ops"})
    assert (leased.signature, leased.root, leased.cause) == (signature(3), root(), Cause.MODIFIED)


def test_metadata_given_with_equal_content_shows_at_once_and_keeps_the_loaders(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present(content="one", metadata={"team": "ops", "tier": 1})])
    leased = worker.lease()
    cut = worker.cuts(leased, "one")[0]
    loaded = replace(cut, metadata={"author": "n"})
    worker.commit(replace(worker.indexed(leased, "one"), cuts=(loaded,)))
    before = catalog.position()
    catalog.record([present(content="one", metadata={"team": "dev"})])
    with catalog.snapshot() as snapshot:
        assert [visible.metadata for visible in snapshot.documents(HOME)] == [{"author": "n", "team": "dev"}]
        assert [change.kind for change in snapshot.log(HOME, before)] == [ChangeKind.METADATA]
        assert snapshot.changes(before, HOME).documents == (document(),)


def test_metadata_given_while_a_worker_is_at_it_is_not_lost(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present(content="one", metadata={"team": "ops"})])
    late = worker.indexed(worker.lease(), "one")
    catalog.record([present(content="one", metadata={"team": "dev"})])
    if isinstance(worker.commit_one(late), Refused):
        worker.finish("a.md", "one")
    with catalog.snapshot() as snapshot:
        assert [visible.metadata for visible in snapshot.documents(HOME)] == [{"team": "dev"}]


def test_permissions_change_at_once_and_every_follower_learns_it(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one", content="one", acl=("user:u",))
    before = catalog.position()
    catalog.record([present(content="one", acl=("user:v",))])
    with catalog.snapshot() as snapshot:
        assert [visible.acl for visible in snapshot.documents(HOME)] == [("user:v",)]
        chunk = snapshot.chunks(HOME, [chunks_of(document(), "one")[0].chunk_id])[0]
        assert chunk is not None
        assert chunk.acl == ("user:v",)
        assert snapshot.changes(before, HOME).documents == (document(),)


def test_permissions_given_with_new_content_do_not_wait_for_it(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one", content="one", acl=("*",))
    before = catalog.position()
    catalog.record([present(content="two", acl=("user:u",))])
    with catalog.snapshot() as snapshot:
        assert [(visible.text, visible.acl) for visible in snapshot.documents(HOME)] == [("one", ("user:u",))]
        assert snapshot.changes(before, HOME).documents == (document(),)


def test_an_intent_without_metadata_or_permissions_leaves_them(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one", metadata={"team": "ops"}, acl=("user:u",))
    worker.index("a.md", "two")
    with catalog.snapshot() as snapshot:
        assert [(visible.metadata, visible.acl) for visible in snapshot.documents(HOME)] == [({"team": "ops"}, ("user:u",))]


def test_a_document_of_another_root_is_not_taken(catalog: Catalog, clock: SimulatedClock) -> None:
    catalog.ensure_root(root("second", "second/", "/srv/second"))
    first = catalog.record([present()])
    assert catalog.record([present(root="second")]) == [None]
    status = catalog.status_of(document())
    assert status is not None
    assert (status.root, [status.wanted_version]) == ("notes", first)


def test_a_root_that_lost_a_file_deletes_no_document_of_another_root(catalog: Catalog, worker: Worker) -> None:
    catalog.ensure_root(root("second", "second/", "/srv/second"))
    worker.index("a.md", "one")
    assert catalog.record([replace(absent(), root=RootName("second"))]) == [None]
    assert texts(catalog) == {"a.md": "one"}
    assert catalog.record([replace(absent(), root=RootName("notes"))]) != [None]
    assert texts(catalog) == {}


def test_a_rename_in_one_root_takes_no_document_of_another_root_away(catalog: Catalog, worker: Worker) -> None:
    catalog.ensure_root(root("second", "second/", "/srv/second"))
    worker.index("a.md", "one")
    catalog.record([present("b.md", moved_from="a.md", root="second")])
    assert worker.lease("b.md").moved_from is None
    worker.finish("b.md", "one")
    assert texts(catalog) == {"a.md": "one", "b.md": "one"}


def test_a_deleted_document_may_belong_to_another_root(catalog: Catalog, worker: Worker) -> None:
    catalog.ensure_root(root("second", "second/", "/srv/second"))
    catalog.record([present(), absent()])
    assert catalog.record([present(root="second")]) != [None]
    assert worker.lease().root.name == "second"


def test_an_unknown_root_or_collection_is_refused_and_nothing_is_recorded(catalog: Catalog, clock: SimulatedClock) -> None:
    with pytest.raises(Misuse):
        catalog.record([present("a.md"), present("b.md", root="nowhere")])
    with pytest.raises(UnknownCollection):
        catalog.record([present("a.md"), present("b.md", home=home_of(collection="nowhere"))])
    assert pending(catalog, clock) == []


# --- deletions ----------------------------------------------------------------------------------------------


def test_recording_an_absence_is_the_deletion(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one\ntwo")
    before = catalog.position()
    wanted = catalog.status_of(document())
    version = catalog.record([absent()])[0]
    assert version is not None
    assert wanted is not None
    assert version > wanted.wanted_version
    assert (texts(catalog), state(catalog), pending(catalog, clock)) == ({}, DocumentState.DELETED, [])
    with catalog.snapshot() as snapshot:
        change = next(iter(snapshot.log(HOME, before)))
        assert (change.kind, change.document, change.version, change.dropped) == (ChangeKind.DELETED, document(), version, 2)
        assert change.seq == before.seq + 1
        assert snapshot.chunks(HOME, [chunks_of(document(), "one")[0].chunk_id]) == [None]
        assert list(snapshot.vectors(HOME)) == []


def test_deleting_what_is_not_there_changes_nothing(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([absent("a.md")])
    before = catalog.position()
    assert catalog.record([absent("a.md"), absent("never.md")]) == [None, None]
    assert catalog.position() == before
    assert catalog.status_of(document("never.md")) is None


def test_a_deletion_beats_the_work_in_flight(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    late = worker.indexed(worker.lease(), "two")
    catalog.record([absent()])
    assert worker.commit_one(late) == Refused(Refusal.WANTED_ABSENT)
    assert (texts(catalog), state(catalog)) == ({}, DocumentState.DELETED)


def test_a_deletion_beats_the_work_in_flight_even_when_the_document_is_back(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present()])
    late = worker.indexed(worker.lease(), "old")
    catalog.record([absent(), present()])
    assert worker.commit_one(late) == Refused(Refusal.FENCE_OLD)
    assert texts(catalog) == {}
    worker.finish("a.md", "new")
    assert texts(catalog) == {"a.md": "new"}


def test_a_document_that_was_never_visible_leaves_by_its_ledger_row(catalog: Catalog, clock: SimulatedClock) -> None:
    catalog.record([present(), absent()])
    assert (state(catalog), pending(catalog, clock)) == (DocumentState.DELETED, [])


def test_an_ignored_document_is_counted_and_not_visible(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([Ignored(document(), RootName("notes"), Instant(1), signature(4), "no loader claims this type")])
    assert (texts(catalog), state(catalog), pending(catalog, clock)) == ({}, DocumentState.IGNORED, [])
    [sighting] = catalog.sightings(root())
    assert (sighting.state, sighting.signature) == (DocumentState.IGNORED, signature(4))
    assert catalog.counts(HOME).states[DocumentState.IGNORED] == 1
    catalog.record([absent()])
    assert list(catalog.sightings(root())) == []


def test_ignoring_beats_the_work_in_flight(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present()])
    late = worker.indexed(worker.lease(), "one")
    catalog.record([Ignored(document(), RootName("notes"), Instant(1))])
    assert isinstance(worker.commit_one(late), Refused)
    assert texts(catalog) == {}


# --- held, seen, sightings ----------------------------------------------------------------------------------


def test_a_held_document_stays_served_and_waits_for_nobody(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md"), Held(document(), Instant(1), "the folder is empty"), Held(document("never.md"), Instant(1), "?")])
    assert (texts(catalog), state(catalog), pending(catalog, clock)) == ({"a.md": "one"}, DocumentState.HELD, [])
    assert catalog.status_of(document("never.md")) is None
    catalog.record([Seen(document(), signature(1), True)])
    assert (state(catalog), pending(catalog, clock)) == (DocumentState.PENDING, ["a.md"])


def test_a_held_document_is_let_go_by_seeing_it_by_its_presence_or_by_its_absence(catalog: Catalog, worker: Worker) -> None:
    for uri in ("seen.md", "back.md", "gone.md"):
        worker.index(uri, uri)
        catalog.record([Held(document(uri), Instant(1), "the folder is empty")])
    catalog.record([Seen(document("seen.md"), signature(1), True), present("back.md"), absent("gone.md")])
    assert state(catalog, "seen.md") is DocumentState.INDEXED
    assert state(catalog, "back.md") is DocumentState.PENDING
    assert state(catalog, "gone.md") is DocumentState.DELETED


def test_seeing_a_document_remembers_its_signature_alone(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present()])
    worker.commit(worker.indexed(worker.lease(), "one", sign=signature(1), proven=False))
    before = catalog.position()
    catalog.record([Seen(document(), signature(2), True)])
    [sighting] = catalog.sightings(root())
    assert (sighting.signature, sighting.proven, sighting.content_hash) == (signature(2), True, content_hash("one"))
    assert (sighting.state, catalog.position()) == (DocumentState.INDEXED, before)


def test_sightings_are_the_roots_own_below_the_prefix_in_uri_order(catalog: Catalog) -> None:
    catalog.ensure_root(root("second", "second/", "/srv/second"))
    uris = ("b/z.md", "b/a.md", "b%.md", "bé.md", "b_/a.md", "a.md")
    catalog.record([*(present(uri) for uri in uris), present("gone.md"), absent("gone.md"), present("second/a.md", root="second")])
    assert [sighting.uri for sighting in catalog.sightings(root())] == sorted(uris, key=str.encode)
    assert [sighting.uri for sighting in catalog.sightings(root(), "b/")] == ["b/a.md", "b/z.md"]
    assert [sighting.uri for sighting in catalog.sightings(root(), "b%")] == ["b%.md"]
    assert [sighting.uri for sighting in catalog.sightings(root("second", "second/", "/srv/second"))] == ["second/a.md"]


def test_a_commit_proves_its_signature_unless_something_newer_was_noticed(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present()])
    leased = worker.lease()
    catalog.record([present()])
    worker.commit(worker.indexed(leased, "one", sign=signature(1)))
    assert [sighting.proven for sighting in catalog.sightings(root())] == [False]
    worker.commit(worker.indexed(worker.lease(), "two", sign=signature(2)))
    assert [(s.signature, s.proven) for s in catalog.sightings(root())] == [(signature(2), True)]


# --- roots --------------------------------------------------------------------------------------------------


def test_a_root_is_recorded_once_by_its_path(catalog: Catalog) -> None:
    assert catalog.ensure_root(root("renamed", "renamed/")) == root()
    assert catalog.ensure_root(root("second", "second/", "/srv/second")).prefix == "second/"
    assert [known.name for known in catalog.roots(HOME)] == ["notes", "second"]
    assert catalog.roots(home_of(collection="other")) == []


def test_a_roots_name_is_not_given_to_another_path(catalog: Catalog) -> None:
    with pytest.raises(Misuse):
        catalog.ensure_root(root("notes", "notes/", "/srv/elsewhere"))
    assert len(catalog.roots()) == 1


def test_a_roots_path_need_not_be_unicode(catalog: Catalog) -> None:
    odd = root("odd", "odd/", b"/srv/\xff".decode("utf-8", "surrogateescape"))
    assert catalog.ensure_root(odd) == odd
    assert catalog.roots(HOME)[-1] == odd


# --- leases -------------------------------------------------------------------------------------------------


def test_a_document_is_leased_to_one_session_with_a_rising_fence(
    catalog: Catalog, worker: Worker, other: Worker, clock: SimulatedClock
) -> None:
    catalog.record([present()])
    first = worker.lease()
    assert other.try_lease() is None
    assert catalog.leased(clock.now(), LEASE_SECONDS) == {document()}
    assert pending(catalog, clock) == []
    catalog.end_session(worker.session_id)
    assert pending(catalog, clock) == ["a.md"]
    assert other.lease().fence > first.fence


def test_only_what_wants_work_is_leased(catalog: Catalog, worker: Worker) -> None:
    worker.index("done.md", "one")
    catalog.record([present("gone.md"), absent("gone.md"), present("waits.md")])
    asked = [document(uri) for uri in ("never.md", "done.md", "gone.md", "waits.md")]
    leased = catalog.lease(asked, worker.session_id, Instant(0), LEASE_SECONDS)
    assert [one.document.uri for one in leased] == ["waits.md"]


def test_a_silent_session_loses_its_leases_and_a_beat_keeps_them(
    catalog: Catalog, worker: Worker, other: Worker, clock: SimulatedClock
) -> None:
    catalog.record([present()])
    late = worker.indexed(worker.lease(), "late")
    clock.advance(LEASE_SECONDS - 1)
    assert catalog.beat(worker.session_id, clock.now())
    clock.advance(LEASE_SECONDS - 1)
    assert other.try_lease() is None
    clock.advance(2)
    assert catalog.leased(clock.now(), LEASE_SECONDS) == set()
    assert pending(catalog, clock) == ["a.md"]
    taken = other.lease()
    assert worker.commit_one(late) == Refused(Refusal.FENCE_OLD)
    assert isinstance(other.commit_one(other.indexed(taken, "mine")), Committed)
    assert texts(catalog) == {"a.md": "mine"}


def test_an_ended_session_is_told_to_stop_and_commits_nothing(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present()])
    late = worker.indexed(worker.lease(), "late")
    catalog.end_session(worker.session_id)
    catalog.end_session(worker.session_id)
    assert not catalog.beat(worker.session_id, clock.now())
    assert worker.commit_one(late) == Refused(Refusal.FENCE_OLD)
    assert worker.try_lease() is None
    assert worker.session_id not in [session.session_id for session in catalog.sessions()]


def test_a_late_outcome_does_not_end_the_lease_of_another(catalog: Catalog, worker: Worker, other: Worker, clock: SimulatedClock) -> None:
    catalog.record([present()])
    late = worker.indexed(worker.lease(), "late")
    clock.advance(LEASE_SECONDS + 1)
    catalog.beat(other.session_id, clock.now())
    other.lease()
    worker.commit(late)
    assert catalog.leased(clock.now(), LEASE_SECONDS) == {document()}


def test_a_lease_ends_with_its_outcome_accepted_or_refused(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present("a.md"), present("b.md")])
    a, b = worker.lease("a.md"), worker.lease("b.md")
    verdicts = worker.commit(worker.indexed(a, "one"), replace(worker.indexed(b, "two"), cuts=()))
    assert [type(verdict) for verdict in verdicts] == [Committed, Refused]
    assert catalog.leased(clock.now(), LEASE_SECONDS) == set()
    assert pending(catalog, clock) == ["b.md"]


# --- commits ------------------------------------------------------------------------------------------------


def test_a_commit_makes_the_whole_document_visible_at_one_seq(catalog: Catalog, worker: Worker) -> None:
    before = catalog.position()
    verdict = worker.index("a.md", "alpha\nbeta")
    assert verdict.seq == before.seq + 1
    assert catalog.position() == Position(before.incarnation, verdict.seq)
    with catalog.snapshot() as snapshot:
        [visible] = snapshot.documents(HOME)
        chunks = chunks_of(document(), "alpha\nbeta")
        assert [(p.chunk_id, p.start, p.end) for p in visible.layout.placements] == [(c.chunk_id, c.start, c.end) for c in chunks]
        assert [visible.chunk_text(place) for place in visible.layout.placements] == ["alpha", "beta"]
        held = {vector.chunk_id: (vector.document, vector.vector) for vector in snapshot.vectors(HOME)}
        assert held == {chunk.chunk_id: (document(), vector_of(chunk.input_hash)) for chunk in chunks}


def test_a_new_version_replaces_the_old_one_and_keeps_what_stayed(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "alpha\nbeta\ngamma")
    before = catalog.position()
    worker.index("a.md", "new\nalpha\ngamma")
    assert chunk_texts(catalog, "a.md") == ["new", "alpha", "gamma"]
    with catalog.snapshot() as snapshot:
        [change] = snapshot.log(HOME, before)
        assert (change.kind, change.first, change.added, change.kept, change.dropped) == (ChangeKind.INDEXED, False, 1, 2, 1)
        assert (change.embedded, change.reused) == (1, 0)
        gone = chunks_of(document(), "beta")[0].chunk_id
        assert snapshot.chunks(HOME, [gone]) == [None]
        assert len(list(snapshot.vectors(HOME))) == 3


def test_a_text_that_is_held_already_is_reused(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "alpha\nbeta")
    before = catalog.position()
    worker.index("copy.md", "alpha\nbeta\nbeta\ngamma")
    with catalog.snapshot() as snapshot:
        [change] = snapshot.log(HOME, before)
    assert (change.first, change.added, change.embedded, change.reused) == (True, 4, 1, 3)


def test_a_changed_input_alone_brings_a_new_vector_under_the_same_id(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present()])
    worker.finish("a.md", "alpha", prefix="old: ")
    catalog.record([present()])
    worker.finish("a.md", "alpha", prefix="new: ")
    with catalog.snapshot() as snapshot:
        [vector] = snapshot.vectors(HOME)
    assert (vector.chunk_id, vector.vector) == (chunks_of(document(), "alpha")[0].chunk_id, vector_of(input_hash("alpha", "new: ")))


def test_each_outcome_of_a_batch_is_judged_by_itself(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present(uri) for uri in ("a.md", "b.md", "c.md", "d.md")])
    a, b, c, d = (worker.lease(uri) for uri in ("a.md", "b.md", "c.md", "d.md"))
    stale = replace(worker.indexed(b, "two"), fence=a.fence)
    verdicts = worker.commit(worker.indexed(a, "one"), stale, worker.failed(c), worker.indexed(d, "four"))
    assert verdicts == [Committed(Seq(1)), Refused(Refusal.FENCE_OLD), Committed(None), Committed(Seq(2))]
    assert texts(catalog) == {"a.md": "one", "d.md": "four"}


def test_a_newer_wanted_presence_does_not_refuse_the_work(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present()])
    leased = worker.lease()
    catalog.record([present()])
    assert isinstance(worker.commit_one(worker.indexed(leased, "one")), Committed)
    assert (texts(catalog), state(catalog), pending(catalog, clock)) == ({"a.md": "one"}, DocumentState.PENDING, ["a.md"])
    worker.finish("a.md", "two")
    assert (texts(catalog), state(catalog), pending(catalog, clock)) == ({"a.md": "two"}, DocumentState.INDEXED, [])


def test_a_version_that_is_indexed_is_not_indexed_again(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    old = catalog.status_of(document())
    assert old is not None
    catalog.record([present()])
    late = replace(worker.indexed(worker.lease(), "again"), version=old.indexed_version)
    assert worker.commit_one(late) == Refused(Refusal.VERSION_INDEXED)
    assert texts(catalog) == {"a.md": "one"}


def test_a_plan_made_from_other_records_is_refused(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present()])
    leased = worker.lease()
    stale = worker.indexed(leased, "two")
    worker.commit(worker.indexed(leased, "one"))
    catalog.record([present()])
    again = worker.lease()
    verdict = worker.commit_one(replace(stale, fence=again.fence, version=again.wanted_version))
    assert verdict == Refused(Refusal.RECORDS_CHANGED)
    assert texts(catalog) == {"a.md": "one"}


def test_a_plan_whose_vectors_are_gone_is_refused(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present()])
    outcome = worker.indexed(worker.lease(), "one\ntwo")
    lacking = replace(outcome.cuts[0], vectors=dict(list(outcome.cuts[0].vectors.items())[:1]))
    assert worker.commit_one(replace(outcome, cuts=(lacking,))) == Refused(Refusal.VECTORS_MISSING)
    assert (texts(catalog), catalog.position().seq) == ({}, 0)
    assert catalog.missing(HOME, space(), [input_hash("one")]) == {input_hash("one")}


def test_an_empty_document_is_visible_without_chunks(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "")
    assert (texts(catalog), chunk_texts(catalog, "a.md"), state(catalog)) == ({"a.md": ""}, [], DocumentState.EMPTY)
    assert pending(catalog, clock) == []
    catalog.record([present()])
    worker.commit(worker.unchanged(worker.lease(), ""))
    assert state(catalog) is DocumentState.EMPTY
    worker.index("a.md", "one")
    assert state(catalog) is DocumentState.INDEXED


def test_an_unchanged_document_is_served_as_it_was(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    before = catalog.position()
    catalog.record([present()])
    leased = worker.lease()
    assert worker.commit_one(worker.unchanged(leased, "one")) == Committed(None)
    status = catalog.status_of(document())
    assert status is not None
    assert (status.state, status.indexed_version) == (DocumentState.INDEXED, leased.wanted_version)
    assert (catalog.position(), pending(catalog, clock)) == (before, [])


def test_an_unchanged_version_serves_no_newer_one(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    leased = worker.lease()
    catalog.record([present()])
    worker.commit(worker.unchanged(leased, "one"))
    status = catalog.status_of(document())
    assert status is not None
    assert (status.state, status.indexed_version) == (DocumentState.PENDING, leased.wanted_version)
    worker.finish("a.md", "two")
    assert texts(catalog) == {"a.md": "two"}


def test_a_commit_without_new_chunks_still_shows_its_metadata(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    outcome = worker.indexed(worker.lease(), "one")
    verdict = worker.commit_one(replace(outcome, cuts=(replace(outcome.cuts[0], metadata={"k": [1, None]}, title="One"),)))
    assert verdict == Committed(Seq(2))
    with catalog.snapshot() as snapshot:
        assert [(visible.metadata, visible.title) for visible in snapshot.documents(HOME)] == [({"k": [1, None]}, "One")]


def test_a_failure_is_retried_when_its_time_has_come_and_what_was_served_stays(
    catalog: Catalog, worker: Worker, clock: SimulatedClock
) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    assert worker.commit_one(worker.failed(worker.lease(), retry_at=clock.now() + 5)) == Committed(None)
    assert (pending(catalog, clock), texts(catalog)) == ([], {"a.md": "one"})
    clock.advance(5)
    waiting = catalog.pending(1, clock.now())[0]
    assert (waiting.document, waiting.attempts) == (document(), 1)
    assert worker.lease().attempts == 1


def test_a_success_forgets_the_failures(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present()])
    worker.commit(worker.failed(worker.lease(), retry_at=clock.now()))
    worker.finish("a.md", "one")
    status = catalog.status_of(document())
    assert status is not None
    assert (status.attempts, status.retry_at, status.code, status.message) == (0, None, None, None)


def test_a_quarantined_document_waits_for_an_intent_or_a_retry(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md"), present("b.md")])
    worker.commit(worker.failed(worker.lease("a.md")), worker.failed(worker.lease("b.md")))
    assert (pending(catalog, clock), texts(catalog)) == ([], {"a.md": "one"})
    status = catalog.status_of(document("b.md"))
    assert status is not None
    assert (status.state, status.code, status.message) == (DocumentState.QUARANTINED, "text_undecodable", "The bytes are not text.")
    assert worker.try_lease("a.md") is None
    catalog.record([present("b.md")])
    assert pending(catalog, clock) == ["b.md"]
    assert catalog.retry(None, HOME, clock.now()) == 1
    assert sorted(pending(catalog, clock)) == ["a.md", "b.md"]
    assert [waiting.attempts for waiting in catalog.pending(9, clock.now())] == [0, 0]
    worker.finish("a.md", "two")
    assert texts(catalog) == {"a.md": "two"}


def test_a_retry_takes_only_what_it_names_and_what_is_quarantined(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("fine.md", "one")
    catalog.record([present("a.md"), present("b.md")])
    worker.commit(worker.failed(worker.lease("a.md")), worker.failed(worker.lease("b.md")))
    assert catalog.retry([document("a.md"), document("fine.md"), document("never.md")], HOME, clock.now()) == 1
    assert pending(catalog, clock) == ["a.md"]


def test_a_failure_of_an_older_version_does_not_quarantine_the_newer_one(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present()])
    leased = worker.lease()
    catalog.record([present()])
    worker.commit(worker.failed(leased))
    assert pending(catalog, clock) == ["a.md"]
    worker.finish("a.md", "one")
    assert texts(catalog) == {"a.md": "one"}


def test_a_vanished_document_is_deleted_unless_something_newer_was_noticed(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    worker.index("b.md", "two")
    catalog.record([present("a.md"), present("b.md")])
    a, b = worker.lease("a.md"), worker.lease("b.md")
    catalog.record([present("b.md")])
    assert worker.commit(worker.vanished(a), worker.vanished(b)) == [Committed(Seq(3)), Committed(None)]
    assert texts(catalog) == {"b.md": "two"}
    assert (state(catalog, "a.md"), pending(catalog, clock)) == (DocumentState.DELETED, ["b.md"])
    assert catalog.leased(clock.now(), LEASE_SECONDS) == set()


# --- staging ------------------------------------------------------------------------------------------------


def test_staged_vectors_serve_a_later_commit_and_are_invisible_until_then(catalog: Catalog, worker: Worker, other: Worker) -> None:
    catalog.record([present()])
    leased = worker.lease()
    vectors = {chunk.input_hash: vector_of(chunk.input_hash) for chunk in chunks_of(document(), "one\ntwo")}
    catalog.stage(worker.session_id, HOME, space(), vectors)
    catalog.stage(worker.session_id, HOME, space(), vectors)
    assert catalog.missing(HOME, space(), [*vectors, input_hash("three")]) == {input_hash("three")}
    assert tally(catalog, "evercurrent_vector_rows_written_total") == 2
    with catalog.snapshot() as snapshot:
        assert list(snapshot.vectors(HOME)) == []
    outcome = worker.indexed(leased, "one\ntwo")
    assert outcome.cuts[0].vectors == {}
    assert isinstance(worker.commit_one(outcome), Committed)
    with catalog.snapshot() as snapshot:
        assert sorted(vector.vector for vector in snapshot.vectors(HOME)) == sorted(vectors.values())


def test_vectors_are_held_by_namespace_and_space(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    tenant, neighbour = home_of(namespace="tenant"), home_of(collection="second")
    furnish(catalog, tenant)
    furnish(catalog, neighbour)
    key = input_hash("one")
    assert catalog.missing(tenant, space(), [key]) == {key}
    assert catalog.missing(neighbour, space(), [key]) == set()
    assert catalog.missing(HOME, space("space-2"), [key]) == {key}


def test_an_outcome_for_a_document_nobody_recorded_is_refused(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present()])
    leased = worker.lease()
    stranger = Failed(document("never.md"), leased.wanted_version, leased.fence, "code", "message", clock.now())
    assert isinstance(worker.commit_one(stranger), Refused)
    assert catalog.status_of(document("never.md")) is None
