"""What every catalog adapter promises about builds: one is served, another grows beside it, and one commit switches."""

from __future__ import annotations

from dataclasses import replace

from kit.builders import (
    HOME,
    LEASE_SECONDS,
    Worker,
    absent,
    chunk_texts,
    document,
    furnish,
    home_of,
    input_hash,
    present,
    recipe,
    signature,
    space,
    texts,
    vector_of,
)

from store.clock import SimulatedClock
from store.model import Build, Cause, ChangeKind, Collection, Committed, DocumentState, Held, Instant, Refused, Seen
from store.ports import Catalog

WIDE = space("space-2", dimensions=8)


def grow(catalog: Catalog) -> Build:
    """A build of another space begins to grow."""
    growing = catalog.ensure_collection(HOME, recipe("recipe-2"), WIDE).growing
    assert growing is not None
    return growing


def collection(catalog: Catalog) -> Collection:
    found = catalog.collection(HOME)
    assert found is not None
    return found


def pending(catalog: Catalog, clock: SimulatedClock) -> list[str]:
    return sorted(waiting.document.uri for waiting in catalog.pending(100, clock.now()))


def state(catalog: Catalog, uri: str) -> DocumentState:
    status = catalog.status_of(document(uri))
    assert status is not None
    return status.state


def test_a_collection_is_created_once(catalog: Catalog) -> None:
    first = collection(catalog)
    assert catalog.ensure_collection(HOME, recipe(), space()) == first
    assert (first.growing, first.served.recipe, first.served.space) == (None, recipe(), space())
    furnish(catalog, home_of(namespace="tenant"))
    assert [known.home for known in catalog.collections()] == [HOME, home_of(namespace="tenant")]


def test_another_recipe_or_space_grows_beside_what_is_served(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    worker.index("gone.md", "two")
    catalog.record([absent("gone.md")])
    served = collection(catalog).served
    growing = grow(catalog)
    assert catalog.ensure_collection(HOME, recipe("recipe-2"), WIDE) == Collection(HOME, served, growing)
    assert growing.build_id != served.build_id
    assert (pending(catalog, clock), texts(catalog), state(catalog, "a.md")) == (["a.md"], {"a.md": "one"}, DocumentState.PENDING)
    waiting = catalog.pending(1, clock.now())[0]
    assert waiting.cause is Cause.RECUT


def test_what_lacks_the_growing_build_is_pending_since_that_began_to_grow(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([Held(document("a.md"), Instant(1), "the folder is empty")])
    worker.index("b.md", "two")
    clock.advance(1_000)
    grow(catalog)
    catalog.record([Seen(document("a.md"), signature(), proven=True)])
    began = clock.now()
    clock.advance(10)
    assert (state(catalog, "a.md"), state(catalog, "b.md")) == (DocumentState.PENDING, DocumentState.PENDING)
    status = catalog.status_of(document("b.md"))
    assert status is not None
    assert status.noticed_at == began
    worker.finish("a.md", "one")
    worker.finish("b.md", "two")
    counts = catalog.counts(HOME)
    assert (dict(counts.states), counts.oldest_pending_at) == ({DocumentState.INDEXED: 2}, None)


def test_a_document_that_waits_for_no_build_any_more_is_indexed(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    grow(catalog)
    catalog.ensure_collection(HOME, recipe(), space())
    assert state(catalog, "a.md") is DocumentState.INDEXED


def test_a_build_that_grows_is_invisible_until_the_switch(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one\ntwo")
    growing = grow(catalog)
    leased = worker.lease()
    assert isinstance(worker.commit_one(worker.indexed(leased, "one two", builds=[growing])), Committed)
    with catalog.snapshot() as snapshot:
        assert {len(vector.vector) for vector in snapshot.vectors(HOME)} == {4 * 4}
    assert chunk_texts(catalog, "a.md") == ["one", "two"]


def test_the_switch_waits_for_every_document_and_is_one_change(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    worker.index("b.md", "two")
    assert not catalog.switch(HOME, clock.now())
    growing = grow(catalog)
    worker.finish("a.md", "one")
    assert not catalog.switch(HOME, clock.now())
    worker.finish("b.md", "two")
    assert pending(catalog, clock) == []
    before = catalog.position()
    with catalog.snapshot() as pinned:
        assert catalog.switch(HOME, clock.now())
        assert {len(vector.vector) for vector in pinned.vectors(HOME)} == {4 * 4}
        assert [visible.text for visible in pinned.documents(HOME)] == ["one", "two"]
    assert collection(catalog) == Collection(HOME, growing, None)
    with catalog.snapshot() as snapshot:
        assert [(change.kind, change.document) for change in snapshot.log(HOME, before)] == [(ChangeKind.SWITCHED, None)]
        assert snapshot.changes(before, HOME).rebuild
        vectors = {vector.document.uri: vector.vector for vector in snapshot.vectors(HOME)}
        assert vectors == {"a.md": vector_of(input_hash("one"), 8), "b.md": vector_of(input_hash("two"), 8)}
    assert (texts(catalog), pending(catalog, clock)) == ({"a.md": "one", "b.md": "two"}, [])
    assert not catalog.switch(HOME, clock.now())


def test_both_builds_follow_edits_moves_and_deletions(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    for uri in ("edited.md", "moved.md", "gone.md"):
        worker.index(uri, f"{uri} one")
    grow(catalog)
    for uri in ("edited.md", "moved.md", "gone.md"):
        worker.finish(uri, f"{uri} one")
    worker.index("edited.md", "edited.md two")
    worker.index("new.md", "moved.md one", moved_from="moved.md")
    catalog.record([absent("gone.md")])
    assert catalog.switch(HOME, clock.now())
    assert texts(catalog) == {"edited.md": "edited.md two", "new.md": "moved.md one"}
    with catalog.snapshot() as snapshot:
        assert sorted(vector.document.uri for vector in snapshot.vectors(HOME)) == ["edited.md", "new.md"]
    assert list(catalog.findings()) == []


def test_a_commit_for_the_served_build_alone_leaves_the_document_waiting_for_the_growing_one(
    catalog: Catalog, worker: Worker, clock: SimulatedClock
) -> None:
    catalog.record([present()])
    leased = worker.lease()
    outcome = worker.indexed(leased, "one")
    grow(catalog)
    assert isinstance(worker.commit_one(outcome), Committed)
    assert (texts(catalog), pending(catalog, clock)) == ({"a.md": "one"}, ["a.md"])
    worker.finish("a.md", "one")
    assert pending(catalog, clock) == []


def test_an_unchanged_outcome_of_the_served_build_does_not_serve_the_growing_one(
    catalog: Catalog, worker: Worker, clock: SimulatedClock
) -> None:
    worker.index("a.md", "one")
    catalog.record([present()])
    leased = worker.lease()
    grow(catalog)
    worker.commit(worker.unchanged(leased, "one"))
    assert (state(catalog, "a.md"), pending(catalog, clock)) == (DocumentState.PENDING, ["a.md"])


def test_a_cut_for_a_build_that_was_given_up_is_left_out(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present()])
    given_up = grow(catalog)
    outcome = worker.indexed(worker.lease(), "one")
    third = catalog.ensure_collection(HOME, recipe("recipe-3"), space()).growing
    assert third is not None
    assert third.build_id != given_up.build_id
    assert isinstance(worker.commit_one(outcome), Committed)
    assert (texts(catalog), pending(catalog, clock)) == ({"a.md": "one"}, ["a.md"])
    worker.finish("a.md", "one")
    assert catalog.switch(HOME, clock.now())
    assert collection(catalog).served == third


def test_an_outcome_with_cuts_for_builds_of_the_past_alone_is_refused(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    growing = grow(catalog)
    outcome = worker.indexed(worker.lease(), "one", builds=[growing])
    catalog.ensure_collection(HOME, recipe("recipe-3"), space())
    assert isinstance(worker.commit_one(outcome), Refused)
    assert texts(catalog) == {"a.md": "one"}


def test_going_back_to_what_is_served_gives_the_growing_build_up(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    grow(catalog)
    assert catalog.ensure_collection(HOME, recipe(), space()).growing is None
    assert (pending(catalog, clock), texts(catalog)) == ([], {"a.md": "one"})
    assert not catalog.switch(HOME, clock.now())


def test_a_document_that_cannot_be_cut_again_stays_served_where_the_space_is_the_same(
    catalog: Catalog, worker: Worker, clock: SimulatedClock
) -> None:
    worker.index("held.md", "held")
    worker.index("fine.md", "fine")
    catalog.record([Held(document("held.md"), Instant(1), "the folder is empty")])
    catalog.ensure_collection(HOME, recipe("recipe-2"), space())
    worker.finish("fine.md", "fine")
    with catalog.snapshot() as pinned:
        assert catalog.switch(HOME, clock.now())
        assert {vector.document.uri for vector in pinned.vectors(HOME)} == {"held.md", "fine.md"}
    assert texts(catalog) == {"fine.md": "fine", "held.md": "held"}
    assert chunk_texts(catalog, "held.md") == ["held"]
    assert list(catalog.findings()) == []


def test_a_switch_to_another_space_waits_for_what_it_would_lose(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    grow(catalog)
    assert isinstance(worker.commit_one(worker.failed(worker.lease())), Committed)
    assert not catalog.switch(HOME, clock.now())
    assert texts(catalog) == {"a.md": "one"}
    catalog.record([Held(document("a.md"), Instant(1), "the folder is empty")])
    assert not catalog.switch(HOME, clock.now())
    catalog.record([absent("a.md")])
    assert catalog.switch(HOME, clock.now())


def test_what_was_never_served_holds_no_switch_back(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present("bad.md")])
    worker.commit_one(worker.failed(worker.lease("bad.md")))
    grow(catalog)
    assert catalog.switch(HOME, clock.now())


def test_an_empty_collection_switches_at_once(catalog: Catalog, clock: SimulatedClock) -> None:
    growing = grow(catalog)
    assert catalog.switch(HOME, clock.now())
    assert collection(catalog).served == growing


def test_the_sweep_removes_what_was_retired(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    grow(catalog)
    worker.finish("a.md", "one")
    catalog.switch(HOME, clock.now())
    clock.advance(100)
    catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
    assert catalog.missing(HOME, space(), [input_hash("one")]) == {input_hash("one")}
    assert catalog.missing(HOME, WIDE, [input_hash("one")]) == set()
    assert texts(catalog) == {"a.md": "one"}


def test_the_sweep_removes_what_a_build_that_was_given_up_had(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    grow(catalog)
    worker.finish("a.md", "one")
    catalog.ensure_collection(HOME, recipe(), space())
    clock.advance(100)
    catalog.sweep(clock.now(), 0.0, LEASE_SECONDS)
    assert catalog.missing(HOME, WIDE, [input_hash("one")]) == {input_hash("one")}
    assert texts(catalog) == {"a.md": "one"}


def test_what_waited_for_a_build_is_leased_at_the_version_it_has(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    status = catalog.status_of(document())
    assert status is not None
    grow(catalog)
    leased = worker.lease()
    assert leased.wanted_version == status.indexed_version
    outcome = worker.indexed(leased, "one")
    assert worker.commit_one(replace(outcome, cuts=outcome.cuts[1:], build_ids=tuple(cut.build_id for cut in outcome.cuts))) == Committed(
        catalog.position().seq
    )
