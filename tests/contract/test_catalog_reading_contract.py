"""What every catalog adapter promises its readers: positions, pinned snapshots, the change log, the sweep, counters."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit.builders import (
    HOME,
    LEASE_SECONDS,
    Worker,
    absent,
    chunks_of,
    document,
    furnish,
    home_of,
    input_hash,
    outcomes,
    present,
    space,
    tally,
    texts,
    vector_of,
)

from store.clock import SimulatedClock
from store.errors import CursorLapsed, UnknownCollection
from store.model import ChunkId, Committed, DocumentState, Instant, Position, Seq
from store.ports import Catalog, Tally

DAY = 86_400.0


# --- snapshots ----------------------------------------------------------------------------------------------


def test_a_snapshot_stays_what_it_was_while_commits_go_on(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "old a\nshared")
    worker.index("gone.md", "gone")
    worker.index("from.md", "moving")
    with catalog.snapshot() as snapshot:
        before = catalog.position()
        worker.index("a.md", "new a\nshared")
        worker.index("new.md", "new")
        catalog.record([absent("gone.md")])
        worker.index("to.md", "moving", moved_from="from.md")
        assert snapshot.position == before
        assert [(v.document.uri, v.text) for v in snapshot.documents(HOME)] == [
            ("a.md", "old a\nshared"),
            ("from.md", "moving"),
            ("gone.md", "gone"),
        ]
        assert sorted(v.vector for v in snapshot.vectors(HOME)) == sorted(
            vector_of(input_hash(text)) for text in ("old a", "shared", "gone", "moving")
        )
        old, new = chunks_of(document("a.md"), "old a")[0], chunks_of(document("a.md"), "new a")[0]
        shown = snapshot.chunks(HOME, [new.chunk_id, old.chunk_id])
        assert [None if chunk is None else chunk.text for chunk in shown] == [None, "old a"]
        assert list(snapshot.log(HOME, before)) == []
    assert texts(catalog) == {"a.md": "new a\nshared", "new.md": "new", "to.md": "moving"}


def test_many_snapshots_are_open_at_once_each_at_its_own_seq(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "1")
    with catalog.snapshot() as first:
        worker.index("a.md", "2")
        with catalog.snapshot() as second:
            worker.index("a.md", "3")
            with catalog.snapshot() as third:
                seen = [[v.text for v in snapshot.documents(HOME)] for snapshot in (first, second, third)]
    assert seen == [["1"], ["2"], ["3"]]


def test_a_pinned_snapshot_outlives_the_sweep(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "old")
    with catalog.snapshot() as snapshot:
        worker.index("a.md", "new")
        clock.advance(DAY)
        catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
        assert [(v.text) for v in snapshot.documents(HOME)] == ["old"]
        assert [v.vector for v in snapshot.vectors(HOME)] == [vector_of(input_hash("old"))]


def test_a_reader_sees_interleaved_commits_in_order_and_whole(catalog: Catalog, clock: SimulatedClock) -> None:
    """Four writers commit documents whose two lines always agree; a reader follows the log until it has seen every seq."""
    writers, rounds = 4, 6
    done = threading.Event()

    def write(number: int) -> None:
        worker = Worker(catalog, clock)
        for turn in range(rounds):
            worker.index(f"{number}.md", f"left {number} {turn}\nright {number} {turn}")

    def follow() -> list[Seq]:
        seen: list[Seq] = []
        position = Position(catalog.position().incarnation, Seq(0))
        while True:
            finished = done.is_set()
            with catalog.snapshot() as snapshot:
                seen += [change.seq for change in snapshot.log(HOME, position)]
                for visible in snapshot.documents(HOME):
                    left, right = visible.text.split("\n")
                    assert left.removeprefix("left") == right.removeprefix("right")
                    places = [visible.chunk_text(place) for place in visible.layout.placements]
                    assert places == [left, right]
                assert len(list(snapshot.vectors(HOME))) == 2 * len(list(snapshot.documents(HOME)))
                position = snapshot.position
            if finished:
                return seen

    with ThreadPoolExecutor(writers + 1) as pool:
        reading = pool.submit(follow)
        for writing in [pool.submit(write, number) for number in range(writers)]:
            writing.result(timeout=60)
        done.set()
        assert reading.result(timeout=60) == list(range(1, writers * rounds + 1))


def test_documents_come_in_uri_order_or_as_asked(catalog: Catalog, worker: Worker) -> None:
    for uri in ("b.md", "a/é.md", "a/z.md", "B.md"):
        worker.index(uri, uri)
    with catalog.snapshot() as snapshot:
        ordered = [visible.document.uri for visible in snapshot.documents(HOME)]
        assert ordered == sorted(["b.md", "a/é.md", "a/z.md", "B.md"], key=str.encode)
        asked = [document("b.md"), document("never.md"), document("B.md")]
        assert [visible.document.uri for visible in snapshot.documents(HOME, asked)] == ["b.md", "B.md"]
        assert {vector.document.uri for vector in snapshot.vectors(HOME, asked)} == {"b.md", "B.md"}
        assert list(snapshot.documents(HOME, [])) == []


def test_chunks_come_in_the_order_asked_with_what_a_query_needs(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one\ntwo", metadata={"team": "ops", "title": "mine"}, acl=("*",))
    one, two = chunks_of(document("a.md"), "one\ntwo")
    with catalog.snapshot() as snapshot:
        second, unknown, first = snapshot.chunks(HOME, [two.chunk_id, ChunkId(b"\0" * 16), one.chunk_id])
    assert unknown is None
    assert first is not None
    assert second is not None
    assert [(c.text, c.ordinal, c.start, c.end) for c in (first, second)] == [("one", 0, 0, 3), ("two", 1, 4, 7)]
    assert (first.document, first.version, first.indexed_at, first.stale) == (document("a.md"), 1, clock.now(), False)
    assert first.acl == ("*",)
    assert {key: first.metadata[key] for key in ("document", "source", "team", "doc_title", "language", "version")} == {
        "document": "a.md",
        "source": "a.md",
        "team": "ops",
        "doc_title": "mine",
        "language": "en",
        "version": 1,
    }


def test_a_chunk_is_stale_when_its_source_is_known_to_hold_something_newer(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    chunk_id = chunks_of(document(), "one")[0].chunk_id
    with catalog.snapshot() as snapshot:
        assert [chunk.stale for chunk in snapshot.chunks(HOME, [chunk_id]) if chunk] == [True]
    worker.commit(worker.unchanged(worker.lease(), "one"))
    with catalog.snapshot() as snapshot:
        assert [chunk.stale for chunk in snapshot.chunks(HOME, [chunk_id]) if chunk] == [False]


def test_a_collection_and_a_namespace_see_only_their_own(catalog: Catalog, worker: Worker) -> None:
    tenant, second = home_of(namespace="tenant"), home_of(collection="second")
    for home in (tenant, second):
        furnish(catalog, home)
        worker.index("a.md", f"of {home.namespace} {home.collection}", home)
    worker.index("a.md", "mine")
    start = Position(catalog.position().incarnation, Seq(0))
    foreign = chunks_of(document("a.md", tenant), "of tenant main")[0].chunk_id
    with catalog.snapshot() as snapshot:
        assert [visible.text for visible in snapshot.documents(HOME)] == ["mine"]
        assert [vector.document for vector in snapshot.vectors(HOME)] == [document("a.md")]
        assert snapshot.chunks(HOME, [foreign]) == [None]
        assert snapshot.changes(start, HOME).documents == (document("a.md"),)
        assert len(list(snapshot.log(HOME, start))) == 1
    assert catalog.counts(HOME).chunks == 1


def test_an_unknown_collection_is_told(catalog: Catalog) -> None:
    nowhere = home_of(collection="nowhere")
    with catalog.snapshot() as snapshot, pytest.raises(UnknownCollection):
        snapshot.chunks(nowhere, [])
    with pytest.raises(UnknownCollection):
        catalog.counts(nowhere)
    assert catalog.collection(nowhere) is None
    assert catalog.status_of(document("a.md", nowhere)) is None


# --- the change log -----------------------------------------------------------------------------------------


def test_changes_name_each_document_once_since_the_cursor(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "1")
    worker.index("b.md", "1")
    since = catalog.position()
    worker.index("a.md", "2")
    worker.index("c.md", "1")
    worker.index("a.md", "3")
    catalog.record([absent("b.md")])
    with catalog.snapshot() as snapshot:
        changes = snapshot.changes(since, HOME)
        assert (changes.position, changes.rebuild) == (catalog.position(), False)
        assert sorted(one.uri for one in changes.documents) == ["a.md", "b.md", "c.md"]
        assert snapshot.changes(catalog.position(), HOME).documents == ()


def test_the_log_has_every_seq_once_without_gaps(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "1")
    catalog.record([present("b.md"), present("c.md"), absent("a.md"), absent("b.md")])
    worker.commit(worker.failed(worker.lease("c.md")))
    worker.index("d.md", "1")
    with catalog.snapshot() as snapshot:
        seqs = [change.seq for change in snapshot.log(HOME, Position(snapshot.position.incarnation, Seq(0)))]
    assert seqs == list(range(1, catalog.position().seq + 1))


def test_a_cursor_of_another_incarnation_has_lapsed(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "1")
    with catalog.snapshot() as snapshot, pytest.raises(CursorLapsed):
        snapshot.changes(Position("another", Seq(0)), HOME)


def test_a_cursor_older_than_what_the_sweep_thinned_has_lapsed(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "1")
    old = catalog.position()
    worker.index("a.md", "2")
    worker.index("b.md", "1")
    clock.advance(DAY)
    young = catalog.position()
    worker.index("b.md", "2")
    catalog.sweep(clock.now(), DAY / 2, LEASE_SECONDS)
    with catalog.snapshot() as snapshot:
        with pytest.raises(CursorLapsed):
            snapshot.changes(old, HOME)
        assert snapshot.changes(young, HOME).documents == (document("b.md"),)


# --- the sweep ----------------------------------------------------------------------------------------------


def test_dead_texts_and_vectors_live_for_the_retention(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "old\nstays")
    worker.index("a.md", "new\nstays")
    inputs = [input_hash(text) for text in ("old", "stays", "new")]
    clock.advance(DAY)
    catalog.sweep(clock.now(), 2 * DAY, LEASE_SECONDS)
    assert catalog.missing(HOME, space(), inputs) == set()
    assert catalog.sweep(clock.now(), DAY / 2, LEASE_SECONDS) > 0
    assert catalog.missing(HOME, space(), inputs) == {input_hash("old")}
    assert catalog.sweep(clock.now(), DAY / 2, LEASE_SECONDS) == 0
    assert texts(catalog) == {"a.md": "new\nstays"}
    assert list(catalog.findings()) == []


def test_a_revert_inside_the_retention_embeds_nothing(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "first")
    worker.index("a.md", "second")
    catalog.record([present()])
    outcome = worker.indexed(worker.lease(), "first")
    assert outcome.embedded == 0
    worker.commit(outcome)
    clock.advance(DAY)
    catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
    with catalog.snapshot() as snapshot:
        assert [vector.vector for vector in snapshot.vectors(HOME)] == [vector_of(input_hash("first"))]
    assert catalog.missing(HOME, space(), [input_hash("second")]) == {input_hash("second")}


def test_a_vector_that_another_document_shares_outlives_a_deletion(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "shared")
    worker.index("b.md", "shared")
    catalog.record([absent("a.md")])
    clock.advance(DAY)
    catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
    assert catalog.missing(HOME, space(), [input_hash("shared")]) == set()
    with catalog.snapshot() as snapshot:
        assert [vector.document for vector in snapshot.vectors(HOME)] == [document("b.md")]


def test_staged_vectors_live_as_long_as_their_session(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    key = input_hash("staged")
    catalog.stage(worker.session_id, HOME, space(), {key: vector_of(key)})
    catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
    assert catalog.missing(HOME, space(), [key]) == set()
    catalog.end_session(worker.session_id)
    assert catalog.sweep(clock.now(), 7 * DAY, LEASE_SECONDS) == 1
    assert catalog.missing(HOME, space(), [key]) == {key}


def test_the_sweep_ends_sessions_that_have_gone_silent(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    clock.advance(LEASE_SECONDS + 1)
    catalog.sweep(clock.now(), DAY, LEASE_SECONDS)
    assert not catalog.beat(worker.session_id, clock.now())


def test_a_commit_that_relied_on_swept_vectors_is_refused(catalog: Catalog, worker: Worker, other: Worker, clock: SimulatedClock) -> None:
    key = input_hash("one")
    catalog.stage(other.session_id, HOME, space(), {key: vector_of(key)})
    catalog.record([present()])
    outcome = worker.indexed(worker.lease(), "one")
    catalog.end_session(other.session_id)
    catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
    assert not isinstance(worker.commit_one(outcome), Committed)
    worker.finish("a.md", "one")
    assert texts(catalog) == {"a.md": "one"}


def test_a_tombstone_outlives_the_sweep(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    late = worker.indexed(worker.lease(), "late")
    catalog.record([absent()])
    clock.advance(LEASE_SECONDS - 1)
    catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
    assert not isinstance(worker.commit_one(late), Committed)
    assert texts(catalog) == {}


def test_what_is_indexed_after_a_sweep_is_not_taken_for_what_was_swept(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    before, after = "shared\nsecret", "public\nshared"
    shared = chunks_of(document("a.md"), "shared")[0].chunk_id
    worker.index("a.md", before)
    with catalog.snapshot() as snapshot:
        assert [chunk.text for chunk in snapshot.chunks(HOME, [shared]) if chunk] == ["shared"]
    catalog.record([absent("a.md")])
    clock.advance(DAY)
    catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
    late = Worker(catalog, clock)
    late.index("a.md", after)
    with catalog.snapshot() as snapshot:
        assert [(chunk.text, chunk.start, chunk.version) for chunk in snapshot.chunks(HOME, [shared]) if chunk] == [
            ("shared", len("public") + 1, next(snapshot.documents(HOME)).version)
        ]


# --- counters and lists -------------------------------------------------------------------------------------


def test_counters_follow_the_outcomes(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one\ntwo")
    worker.index("a.md", "one\nthree")
    catalog.record([present()])
    worker.commit(worker.unchanged(worker.lease(), "one\nthree"))
    worker.index("copy.md", "one\nthree")
    catalog.record([present("bad.md")])
    worker.commit(worker.failed(worker.lease("bad.md"), embedded=2))
    catalog.record([absent("copy.md")])
    counted = {name: outcomes(catalog, name) for name in ("added", "updated", "unchanged", "failed", "deleted")}
    assert counted == {"added": 2, "updated": 1, "unchanged": 1, "failed": 1, "deleted": 1}
    assert tally(catalog, "evercurrent_embedded_texts_total") == 5
    assert tally(catalog, "evercurrent_reused_texts_total") == 2
    assert tally(catalog, "evercurrent_vector_rows_written_total") == 3


def test_a_refused_outcome_counts_for_nothing_embedded(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present()])
    late = worker.indexed(worker.lease(), "one")
    catalog.record([absent()])
    worker.commit(late)
    assert (outcomes(catalog, "added"), tally(catalog, "evercurrent_vector_rows_written_total")) == (0, 0)


def test_counters_are_added_to_by_name_and_labels(catalog: Catalog) -> None:
    label = (("state", "queued"),)
    catalog.add_tallies([Tally("calls", (), 2), Tally("calls", label, 1), Tally("calls", (), 0.5)])
    assert (tally(catalog, "calls"), tally(catalog, "calls", state="queued")) == (2.5, 1)


def test_counts_tell_states_chunks_and_the_oldest_wait(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one\ntwo", noticed_at=1.0)
    worker.index("empty.md", "", noticed_at=1.0)
    assert catalog.counts(HOME).oldest_pending_at is None
    catalog.record([present("a.md", noticed_at=70), present("b.md", noticed_at=60), present("bad.md", noticed_at=2)])
    worker.commit(worker.failed(worker.lease("bad.md")))
    counts = catalog.counts(HOME)
    assert (counts.chunks, counts.oldest_pending_at) == (2, Instant(60))
    assert {state: counts.states[state] for state in (DocumentState.PENDING, DocumentState.EMPTY, DocumentState.QUARANTINED)} == {
        DocumentState.PENDING: 2,
        DocumentState.EMPTY: 1,
        DocumentState.QUARANTINED: 1,
    }


def test_documents_are_paged_in_uri_order(catalog: Catalog, worker: Worker) -> None:
    uris = [f"{letter}.md" for letter in "edcba"]
    for uri in uris:
        worker.index(uri, uri)
    seen: list[str] = []
    cursor = None
    for _ in range(4):
        page = catalog.documents(HOME, cursor, limit=2)
        assert len(page.documents) <= 2
        seen += [status.document.uri for status in page.documents]
        cursor = page.cursor
        if cursor is None:
            break
    assert (seen, cursor) == (sorted(uris), None)


def test_documents_are_listed_by_state_and_tombstones_only_when_asked_for(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one\ntwo")
    worker.index("gone.md", "one")
    catalog.record([absent("gone.md"), present("waits.md")])
    listed = {status.document.uri: (status.state, status.chunks) for status in catalog.documents(HOME).documents}
    assert listed == {"a.md": (DocumentState.INDEXED, 2), "waits.md": (DocumentState.PENDING, 0)}
    for state, uri in ((DocumentState.DELETED, "gone.md"), (DocumentState.PENDING, "waits.md")):
        assert [status.document.uri for status in catalog.documents(HOME, states=[state]).documents] == [uri]


def test_a_sound_catalog_has_no_findings_whatever_is_in_flight(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one\ntwo")
    worker.index("a.md", "one\nthree\none")
    worker.index("empty.md", "")
    worker.index("old.md", "moving")
    catalog.record([present("new.md", moved_from="old.md"), present("a.md"), present("bad.md"), absent("empty.md")])
    worker.commit(worker.failed(worker.lease("bad.md")))
    worker.lease("a.md")
    catalog.stage(worker.session_id, HOME, space(), {input_hash("staged"): vector_of(input_hash("staged"))})
    assert list(catalog.findings()) == []
    worker.finish("new.md", "moving")
    assert list(catalog.findings()) == []
