"""What every catalog adapter promises about renames: one commit shows the new uri and takes the old one away, never a gap."""

from __future__ import annotations

from dataclasses import replace

from kit.builders import HOME, Worker, absent, chunk_texts, document, outcomes, present, root, texts

from store.clock import SimulatedClock
from store.model import (
    Cause,
    ChangeKind,
    Committed,
    Described,
    DocumentState,
    Held,
    Ignored,
    Instant,
    Refusal,
    Refused,
    RootName,
    Signature,
    Version,
)
from store.ports import Catalog


def state(catalog: Catalog, uri: str) -> DocumentState:
    status = catalog.status_of(document(uri))
    assert status is not None
    return status.state


def pending(catalog: Catalog, clock: SimulatedClock) -> list[str]:
    return sorted(waiting.document.uri for waiting in catalog.pending(100, clock.now()))


def test_a_rename_keeps_the_old_uri_served_until_one_commit_shows_the_new_one(
    catalog: Catalog, worker: Worker, clock: SimulatedClock
) -> None:
    worker.index("old.md", "one\ntwo")
    catalog.record([present("new.md", moved_from="old.md")])
    assert (texts(catalog), pending(catalog, clock)) == ({"old.md": "one\ntwo"}, ["new.md"])
    leased = worker.lease("new.md")
    assert (leased.moved_from, leased.cause) == (document("old.md"), Cause.MOVED)
    before = catalog.position()
    outcome = worker.indexed(leased, "one\ntwo")
    assert (len(outcome.cuts[0].plan.move), outcome.cuts[0].plan.add, outcome.embedded) == (2, (), 0)
    verdict = worker.commit_one(outcome)
    assert isinstance(verdict, Committed)
    assert texts(catalog) == {"new.md": "one\ntwo"}
    assert chunk_texts(catalog, "new.md") == ["one", "two"]
    assert (state(catalog, "old.md"), state(catalog, "new.md"), pending(catalog, clock)) == (
        DocumentState.DELETED,
        DocumentState.INDEXED,
        [],
    )
    with catalog.snapshot() as snapshot:
        rows = {change.document: change for change in snapshot.log(HOME, before)}
        shown = rows[document("new.md")]
        assert (shown.seq, shown.kind, shown.first, shown.moved_from) == (verdict.seq, ChangeKind.INDEXED, False, document("old.md"))
        assert (shown.moved, shown.added, shown.embedded) == (2, 0, 0)
        assert sorted(change.seq for change in rows.values()) == [before.seq + 1, before.seq + 2]
        assert set(snapshot.changes(before, HOME).documents) == {document("old.md"), document("new.md")}
        assert {vector.document for vector in snapshot.vectors(HOME)} == {document("new.md")}


def test_a_rename_with_an_edit_embeds_the_edit_alone(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one\ntwo")
    catalog.record([present("new.md", moved_from="old.md")])
    plan = (outcome := worker.indexed(worker.lease("new.md"), "one\nthree")).cuts[0].plan
    assert (len(plan.move), len(plan.add), outcome.embedded) == (1, 1, 1)
    worker.commit(outcome)
    assert texts(catalog) == {"new.md": "one\nthree"}
    assert chunk_texts(catalog, "new.md") == ["one", "three"]


def test_a_leaving_document_waits_for_nobody_and_no_scan_misses_it(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("old.md", "one")
    catalog.record([present("old.md")])
    catalog.record([present("new.md", moved_from="old.md")])
    assert pending(catalog, clock) == ["new.md"]
    assert worker.try_lease("old.md") is None
    assert [sighting.uri for sighting in catalog.sightings(root())] == ["new.md"]
    assert state(catalog, "old.md") is not DocumentState.PENDING


def test_a_worker_that_finds_the_old_file_gone_makes_no_gap(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one")
    catalog.record([present("old.md")])
    late = worker.vanished(worker.lease("old.md"))
    catalog.record([present("new.md", moved_from="old.md")])
    assert isinstance(worker.commit_one(late), Refused)
    assert texts(catalog) == {"old.md": "one"}
    worker.finish("new.md", "one")
    assert texts(catalog) == {"new.md": "one"}


def test_a_chain_of_moves_starts_where_something_is_visible(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present("b.md", moved_from="a.md")])
    late = worker.indexed(worker.lease("b.md"), "one")
    catalog.record([present("c.md", moved_from="b.md")])
    catalog.record([present("d.md", moved_from="c.md")])
    assert (texts(catalog), pending(catalog, clock)) == ({"a.md": "one"}, ["d.md"])
    assert isinstance(worker.commit_one(late), Refused)
    leased = worker.lease("d.md")
    assert leased.moved_from == document("a.md")
    worker.commit(worker.indexed(leased, "one"))
    assert texts(catalog) == {"d.md": "one"}
    assert [state(catalog, uri) for uri in ("a.md", "b.md", "c.md")] == [DocumentState.DELETED] * 3


def test_a_chain_over_a_visible_name_serves_its_start_to_the_end(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "wandering")
    worker.index("b.md", "overwritten")
    catalog.record([present("b.md", moved_from="a.md")])
    catalog.record([present("c.md", moved_from="b.md")])
    assert texts(catalog)["a.md"] == "wandering"
    leased = worker.lease("c.md")
    assert leased.moved_from == document("a.md")
    worker.commit(worker.indexed(leased, "wandering"))
    assert texts(catalog) == {"c.md": "wandering"}


def test_there_and_back_again_is_the_document_it_was(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present("b.md", moved_from="a.md")])
    catalog.record([present("a.md", moved_from="b.md")])
    assert (texts(catalog), pending(catalog, clock)) == ({"a.md": "one"}, ["a.md"])
    worker.commit(worker.unchanged(worker.lease("a.md"), "one"))
    assert (texts(catalog), state(catalog, "b.md"), pending(catalog, clock)) == ({"a.md": "one"}, DocumentState.DELETED, [])


def test_a_swap_of_two_names_in_one_batch_loses_neither(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "alpha", acl=("user:a",))
    worker.index("b.md", "beta", acl=("user:b",))
    catalog.record([present("a.md", moved_from="b.md"), present("b.md", moved_from="a.md")])
    assert (texts(catalog), pending(catalog, clock)) == ({"a.md": "alpha", "b.md": "beta"}, ["a.md", "b.md"])
    a, b = worker.lease("a.md"), worker.lease("b.md")
    assert (worker.indexed(a, "beta").embedded, worker.indexed(b, "alpha").embedded) == (0, 0)
    worker.finish("a.md", "beta")
    assert texts(catalog).keys() == {"a.md", "b.md"}
    worker.finish("b.md", "alpha")
    assert texts(catalog) == {"a.md": "beta", "b.md": "alpha"}


def test_permissions_follow_the_files_of_a_swap(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "alpha", acl=("user:a",), metadata={"of": "a"})
    worker.index("b.md", "beta", acl=("user:b",), metadata={"of": "b"})
    catalog.record([present("a.md", moved_from="b.md"), present("b.md", moved_from="a.md")])
    worker.finish("a.md", "beta")
    worker.finish("b.md", "alpha")
    with catalog.snapshot() as snapshot:
        shown = [(visible.text, visible.acl, visible.metadata) for visible in snapshot.documents(HOME)]
    assert shown == [("beta", ("user:b",), {"of": "b"}), ("alpha", ("user:a",), {"of": "a"})]


def test_a_batch_that_wants_both_names_present_keeps_both(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present("old.md"), present("new.md", moved_from="old.md")])
    assert pending(catalog, clock) == ["new.md", "old.md"]


def test_a_presence_of_the_old_uri_makes_the_move_a_copy(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("old.md", "one")
    catalog.record([present("new.md", moved_from="old.md")])
    late = worker.indexed(worker.lease("new.md"), "one")
    catalog.record([present("old.md")])
    assert worker.commit_one(late) == Refused(Refusal.RECORDS_CHANGED)
    leased = worker.lease("new.md")
    assert leased.moved_from is None
    worker.commit(worker.indexed(leased, "one"))
    worker.finish("old.md", "one")
    assert (texts(catalog), pending(catalog, clock)) == ({"new.md": "one", "old.md": "one"}, [])


def test_an_absence_of_the_new_uri_takes_both(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("old.md", "one")
    catalog.record([present("new.md", moved_from="old.md")])
    late = worker.indexed(worker.lease("new.md"), "one")
    catalog.record([absent("new.md")])
    assert isinstance(worker.commit_one(late), Refused)
    assert (texts(catalog), pending(catalog, clock)) == ({}, [])
    assert [state(catalog, uri) for uri in ("old.md", "new.md")] == [DocumentState.DELETED] * 2


def test_an_absence_of_the_old_uri_is_obeyed_at_once_and_the_new_one_still_comes(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one")
    catalog.record([present("new.md", moved_from="old.md")])
    late = worker.indexed(worker.lease("new.md"), "one")
    catalog.record([absent("old.md")])
    assert texts(catalog) == {}
    assert isinstance(worker.commit_one(late), Refused)
    leased = worker.lease("new.md")
    assert leased.moved_from is None
    worker.commit(worker.indexed(leased, "one"))
    assert texts(catalog) == {"new.md": "one"}


def test_a_rename_to_a_type_nobody_claims_takes_both(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one")
    catalog.record([present("new.md", moved_from="old.md")])
    catalog.record([Ignored(document("new.md"), RootName("notes"), Instant(1), Signature(1, 1, 1, 1))])
    assert texts(catalog) == {}
    assert (state(catalog, "old.md"), state(catalog, "new.md")) == (DocumentState.DELETED, DocumentState.IGNORED)


def test_a_vanished_new_file_takes_the_old_uri_along(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one")
    catalog.record([present("new.md", moved_from="old.md")])
    worker.commit(worker.vanished(worker.lease("new.md")))
    assert texts(catalog) == {}


def test_the_old_uri_leaves_when_the_new_one_is_quarantined_and_not_before(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("old.md", "one")
    catalog.record([present("new.md", moved_from="old.md")])
    worker.commit(worker.failed(worker.lease("new.md"), retry_at=clock.now()))
    assert texts(catalog) == {"old.md": "one"}
    before = catalog.position()
    worker.commit(worker.failed(worker.lease("new.md")))
    assert (texts(catalog), state(catalog, "new.md")) == ({}, DocumentState.QUARANTINED)
    with catalog.snapshot() as snapshot:
        assert [change.document for change in snapshot.log(HOME, before)] == [document("old.md")]
    catalog.retry(None, HOME, clock.now())
    worker.finish("new.md", "one")
    assert texts(catalog) == {"new.md": "one"}


def test_a_move_from_nothing_visible_is_a_plain_presence(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present("old.md")])
    late = worker.indexed(worker.lease("old.md"), "one")
    catalog.record([present("new.md", moved_from="old.md"), present("other.md", moved_from="never.md")])
    assert isinstance(worker.commit_one(late), Refused)
    assert (state(catalog, "old.md"), pending(catalog, clock)) == (DocumentState.DELETED, ["new.md", "other.md"])
    assert worker.lease("new.md").moved_from is None
    worker.finish("new.md", "one")
    worker.finish("other.md", "two")
    assert texts(catalog) == {"new.md": "one", "other.md": "two"}


def test_a_move_over_a_visible_document_replaces_it(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one\nshared")
    worker.index("b.md", "two\nshared")
    catalog.record([present("b.md", moved_from="a.md")])
    assert texts(catalog) == {"a.md": "one\nshared", "b.md": "two\nshared"}
    plan = (outcome := worker.indexed(worker.lease("b.md"), "one\nshared")).cuts[0].plan
    assert (len(plan.keep), len(plan.move), len(plan.add), len(plan.drop)) == (1, 1, 0, 1)
    worker.commit(outcome)
    assert texts(catalog) == {"b.md": "one\nshared"}
    assert chunk_texts(catalog, "b.md") == ["one", "shared"]


def test_a_second_move_to_the_same_name_lets_the_first_go(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    worker.index("b.md", "two")
    catalog.record([present("c.md", moved_from="a.md")])
    catalog.record([present("c.md", moved_from="b.md")])
    assert worker.lease("c.md").moved_from == document("b.md")
    worker.finish("c.md", "two")
    assert texts(catalog) == {"c.md": "two"}
    assert state(catalog, "a.md") is DocumentState.DELETED


def test_of_two_moves_from_one_name_the_later_takes_it_away(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present("b.md", moved_from="a.md")])
    catalog.record([present("c.md", moved_from="a.md")])
    assert worker.lease("b.md").moved_from is None
    worker.finish("b.md", "one")
    assert texts(catalog) == {"a.md": "one", "b.md": "one"}
    worker.finish("c.md", "one")
    assert (texts(catalog), pending(catalog, clock)) == ({"b.md": "one", "c.md": "one"}, [])


def test_a_held_document_that_turns_up_renamed_is_held_no_more(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one")
    catalog.record([Held(document("old.md"), Instant(1), "the folder is empty")])
    catalog.record([present("new.md", moved_from="old.md")])
    assert state(catalog, "old.md") is DocumentState.INDEXED
    worker.finish("new.md", "one")
    assert texts(catalog) == {"new.md": "one"}


def test_an_edit_of_the_new_file_before_the_commit_is_still_the_move(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("old.md", "one")
    catalog.record([present("new.md", moved_from="old.md")])
    catalog.record([present("new.md")])
    assert worker.lease("new.md").moved_from == document("old.md")
    worker.finish("new.md", "one\ntwo")
    assert (texts(catalog), pending(catalog, clock)) == ({"new.md": "one\ntwo"}, [])


def test_a_plan_made_before_the_old_document_changed_is_refused(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one")
    catalog.record([present("old.md")])
    worker.finish("old.md", "two")
    catalog.record([present("new.md", moved_from="old.md")])
    outcome = worker.indexed(worker.lease("new.md"), "two")
    stale = replace(outcome, moved_from_version=Version(outcome.moved_from_version - 1))
    assert worker.commit_one(stale) == Refused(Refusal.RECORDS_CHANGED)
    assert texts(catalog) == {"old.md": "two"}


def test_work_begun_before_a_document_became_a_move_does_not_finish_the_move(
    catalog: Catalog, worker: Worker, clock: SimulatedClock
) -> None:
    worker.index("old.md", "one")
    catalog.record([present("new.md")])
    late = worker.indexed(worker.lease("new.md"), "something else")
    catalog.record([present("new.md", moved_from="old.md")])
    worker.commit(late)
    assert texts(catalog)["old.md"] == "one"
    worker.finish("new.md", "one")
    assert (texts(catalog), pending(catalog, clock)) == ({"new.md": "one"}, [])


def test_permissions_and_own_metadata_follow_a_rename_unless_it_brings_others(catalog: Catalog, worker: Worker) -> None:
    for uri in ("a.md", "b.md"):
        worker.index(uri, uri, acl=("user:u",), metadata={"team": "ops"})
    catalog.record([present("c.md", moved_from="a.md"), present("d.md", moved_from="b.md", acl=("*",), metadata={})])
    assert worker.lease("c.md").metadata == {"team": "ops"}
    worker.finish("c.md", "a.md")
    worker.finish("d.md", "b.md")
    with catalog.snapshot() as snapshot:
        shown = {v.document.uri: (v.acl, v.metadata) for v in snapshot.documents(HOME)}
    assert shown == {"c.md": (("user:u",), {"team": "ops"}), "d.md": (("*",), {})}


def test_an_old_name_may_be_used_again(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one")
    worker.index("new.md", "one", moved_from="old.md")
    worker.index("old.md", "two")
    assert texts(catalog) == {"new.md": "one", "old.md": "two"}
    assert chunk_texts(catalog, "old.md") == ["two"]


def test_a_move_is_counted_as_a_move_alone(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one")
    worker.index("new.md", "one", moved_from="old.md")
    assert [outcomes(catalog, name) for name in ("added", "moved", "deleted", "updated")] == [1, 1, 0, 0]


# --- whose permissions a text is read under -------------------------------------------------------------------------


def shown_acls(catalog: Catalog) -> dict[str, tuple[str, tuple[str, ...] | None]]:
    """(text, permissions) by uri, as documents show them; the last step of a query says the same."""
    with catalog.snapshot() as snapshot:
        shown = {visible.document.uri: visible for visible in snapshot.documents(HOME)}
        for visible in shown.values():
            (chunk,) = snapshot.chunks(HOME, [visible.layout.placements[0].chunk_id])
            assert chunk is not None
            assert chunk.acl == visible.acl
    return {uri: (visible.text, visible.acl) for uri, visible in shown.items()}


def test_a_move_over_a_visible_document_shows_each_text_under_its_own_permissions(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "secret", acl=("user:a",), metadata={"of": "a"})
    worker.index("b.md", "public", acl=("*",), metadata={"of": "b"})
    catalog.record([present("a.md", moved_from="b.md")])
    assert shown_acls(catalog) == {"a.md": ("secret", ("user:a",)), "b.md": ("public", ("*",))}
    before = catalog.position()
    worker.finish("a.md", "public")
    assert shown_acls(catalog) == {"a.md": ("public", ("*",))}
    with catalog.snapshot() as snapshot:
        assert set(snapshot.changes(before, HOME).documents) == {document("a.md"), document("b.md")}
        assert [visible.metadata for visible in snapshot.documents(HOME)] == [{"of": "b"}]


def test_a_swap_shows_each_text_under_its_own_permissions_at_every_step(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "alpha", acl=("user:a",))
    worker.index("b.md", "beta", acl=("user:b",))
    catalog.record([present("a.md", moved_from="b.md"), present("b.md", moved_from="a.md")])
    assert shown_acls(catalog) == {"a.md": ("alpha", ("user:a",)), "b.md": ("beta", ("user:b",))}
    worker.finish("a.md", "beta")
    assert shown_acls(catalog) == {"a.md": ("beta", ("user:b",)), "b.md": ("beta", ("user:b",))}
    worker.finish("b.md", "alpha")
    assert shown_acls(catalog) == {"a.md": ("beta", ("user:b",)), "b.md": ("alpha", ("user:a",))}


def test_a_worker_that_read_before_the_move_over_shows_nothing_under_the_wrong_permissions(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "public", acl=("*",))
    worker.index("b.md", "secret", acl=("user:b",))
    catalog.record([present("a.md")])
    late = worker.indexed(worker.lease("a.md"), "secret")
    catalog.record([present("a.md", moved_from="b.md"), present("b.md")])
    assert worker.commit_one(late) == Refused(Refusal.FENCE_OLD)
    worker.finish("a.md", "secret")
    assert shown_acls(catalog)["a.md"] == ("secret", ("user:b",))


def test_a_moved_file_that_is_saved_again_and_again_is_shown_on_the_way_with_its_permissions(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "public", acl=("*",))
    worker.index("b.md", "secret", acl=("user:b",))
    catalog.record([present("a.md", moved_from="b.md"), present("b.md")])
    late = worker.indexed(worker.lease("a.md"), "secret")
    catalog.record([present("a.md")])
    assert isinstance(worker.commit_one(late), Committed)
    assert shown_acls(catalog)["a.md"] == ("secret", ("user:b",))


def test_equal_texts_that_swap_names_swap_permissions(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "same", acl=("user:a",))
    worker.index("b.md", "same", acl=("user:b",))
    catalog.record([present("a.md", moved_from="b.md"), present("b.md", moved_from="a.md")])
    before = catalog.position()
    for uri in ("a.md", "b.md"):
        verdict = worker.commit_one(worker.unchanged(worker.lease(uri), "same"))
        assert verdict == Committed(catalog.position().seq)
    assert shown_acls(catalog) == {"a.md": ("same", ("user:b",)), "b.md": ("same", ("user:a",))}
    with catalog.snapshot() as snapshot:
        assert [change.kind for change in snapshot.log(HOME, before)] == [ChangeKind.METADATA] * 2


def test_permissions_that_a_move_over_waits_with_are_kept_along_a_chain(catalog: Catalog, worker: Worker) -> None:
    for uri, acl in (("a.md", "user:a"), ("b.md", "user:b"), ("c.md", "user:c")):
        worker.index(uri, uri, acl=(acl,))
    catalog.record([present("b.md", moved_from="a.md")])
    catalog.record([present("c.md", moved_from="b.md")])
    assert shown_acls(catalog)["c.md"] == ("c.md", ("user:c",))
    worker.finish("c.md", "a.md")
    assert shown_acls(catalog) == {"c.md": ("a.md", ("user:a",))}


def test_permissions_that_are_set_while_a_move_over_waits_hold_at_once_and_afterwards(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "old", acl=("user:a",))
    worker.index("b.md", "new", acl=("user:b",))
    catalog.record([present("a.md", moved_from="b.md")])
    catalog.record([Described(document("a.md"), acl=("user:c",))])
    assert shown_acls(catalog)["a.md"] == ("old", ("user:c",))
    worker.finish("a.md", "new")
    assert shown_acls(catalog) == {"a.md": ("new", ("user:c",))}


def test_an_upload_of_other_content_opens_the_text_before_to_nobody_and_closes_it_at_once(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "secret", content="secret", acl=("user:a", "user:b"))
    catalog.record([present("a.md", content="public", acl=("*",))])
    assert shown_acls(catalog)["a.md"] == ("secret", ("user:a", "user:b"))
    before = catalog.position()
    catalog.record([present("a.md", content="other", acl=("user:b", "user:c"))])
    assert shown_acls(catalog)["a.md"] == ("secret", ("user:b",))
    with catalog.snapshot() as snapshot:
        assert snapshot.changes(before, HOME).documents == (document("a.md"),)
    worker.finish("a.md", "other")
    assert shown_acls(catalog) == {"a.md": ("other", ("user:b", "user:c"))}


def test_permissions_given_once_more_with_content_that_waits_wait_with_it(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "secret", content="secret", acl=("user:a",))
    catalog.record([present("a.md", content="public", acl=("user:b",)), present("a.md", content="public", acl=("*",))])
    assert shown_acls(catalog)["a.md"][1] == ()
    worker.finish("a.md", "public")
    assert shown_acls(catalog) == {"a.md": ("public", ("*",))}
