"""What every catalog adapter promises about roots and collections that are removed: nothing of them is left, and their names are free."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from kit.builders import (
    HOME,
    Worker,
    absent,
    content_hash,
    document,
    furnish,
    home_of,
    input_hash,
    present,
    recipe,
    root,
    signature,
    space,
    texts,
)

from store.clock import SimulatedClock
from store.errors import Misuse, UnknownCollection
from store.model import (
    Absent,
    Cause,
    ChangeKind,
    DocumentState,
    Held,
    Ignored,
    Instant,
    Refusal,
    Refused,
    Root,
    RootName,
    SourceKind,
)
from store.ports import Catalog

SECOND = root("second", "second/", "/srv/second")
UPLOADS = Root(HOME, RootName("uploads"), SourceKind.UPLOADS, "uploads:", "")


# --- roots ----------------------------------------------------------------------------------------------------------


def test_a_removed_root_takes_its_documents_along_whatever_their_state(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.ensure_root(SECOND)
    worker.index("kept.md", "kept")
    for uri in ("one.md", "held.md", "waiting.md", "old.md"):
        worker.index(uri, uri, root="second")
    catalog.record([Held(document("held.md"), Instant(0.0), "the folder is empty"), present("waiting.md", root="second")])
    catalog.record([present("bad.md", root="second"), Ignored(document("x.bin"), RootName("second"), Instant(0.0))])
    worker.commit(worker.failed(worker.lease("bad.md")))
    catalog.record([present("new.md", root="second", moved_from="old.md")])
    before = catalog.position()
    assert catalog.remove_root(HOME, RootName("second"), clock.now()) == 5
    assert (texts(catalog), catalog.pending(10, clock.now())) == ({"kept.md": "kept"}, [])
    assert dict(catalog.counts(HOME).states) == {DocumentState.INDEXED: 1, DocumentState.DELETED: 7}
    with catalog.snapshot() as snapshot:
        assert {(row.kind, row.document) for row in snapshot.log(HOME, before)} == {
            (ChangeKind.DELETED, document(uri)) for uri in ("one.md", "held.md", "waiting.md", "old.md")
        }
        assert set(snapshot.changes(before, HOME).documents) == {document(uri) for uri in ("one.md", "held.md", "waiting.md", "old.md")}
    assert list(catalog.findings()) == []


def test_a_removed_roots_name_path_and_prefix_can_be_used_again(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one", sign=signature(1))
    catalog.remove_root(HOME, RootName("notes"), clock.now())
    assert catalog.roots(HOME) == []
    assert list(catalog.sightings(root())) == []
    elsewhere = root("notes", "", "/srv/elsewhere")
    assert catalog.ensure_root(elsewhere) == elsewhere
    assert (catalog.roots(HOME), list(catalog.sightings(elsewhere))) == ([elsewhere], [])
    again = root("again", "again/", "/srv/notes")
    assert catalog.ensure_root(again) == again
    worker.index("a.md", "two")
    assert texts(catalog) == {"a.md": "two"}
    assert catalog.remove_root(HOME, RootName("notes"), clock.now()) == 1
    assert catalog.roots(HOME) == [again]


def test_removing_an_unknown_or_removed_root_is_misuse(catalog: Catalog, clock: SimulatedClock) -> None:
    with pytest.raises(Misuse):
        catalog.remove_root(HOME, RootName("nowhere"), clock.now())
    catalog.remove_root(HOME, RootName("notes"), clock.now())
    with pytest.raises(Misuse):
        catalog.remove_root(HOME, RootName("notes"), clock.now())
    with pytest.raises(UnknownCollection):
        catalog.remove_root(home_of("acme"), RootName("notes"), clock.now())


def test_late_news_of_a_removed_root_set_nothing(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present("b.md")])
    late = worker.indexed(worker.lease("b.md"), "two")
    catalog.remove_root(HOME, RootName("notes"), clock.now())
    assert worker.commit_one(late) == Refused(Refusal.WANTED_ABSENT)
    late_scan = [
        present("a.md"),
        Ignored(document("c.bin"), RootName("notes"), Instant(0.0)),
        Absent(document("a.md"), Cause.DELETED, Instant(0.0), RootName("notes")),
    ]
    assert catalog.record(late_scan) == [None, None, None]
    assert (texts(catalog), catalog.documents(HOME).documents, catalog.pending(10, clock.now())) == ({}, (), [])


def test_a_removed_roots_claims_leave_and_those_on_its_documents_take_over(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.ensure_root(SECOND)
    worker.index("mine.md", "mine")
    worker.index("theirs.md", "theirs", root="second")
    catalog.record([present("theirs.md"), present("mine.md", root="second")])
    assert catalog.remove_root(HOME, RootName("second"), clock.now()) == 1
    assert worker.lease("theirs.md").root == root()
    assert [(status.document.uri, status.state) for status in catalog.documents(HOME).documents] == [
        ("mine.md", DocumentState.INDEXED),
        ("theirs.md", DocumentState.PENDING),
    ]
    catalog.record([absent("mine.md")])
    assert texts(catalog) == {}


def test_the_uploads_root_can_be_removed_and_comes_again(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.ensure_root(UPLOADS)
    worker.index("up.md", "one", root="uploads", content="one")
    assert catalog.remove_root(HOME, UPLOADS.name, clock.now()) == 1
    assert catalog.wanted_blobs(HOME.namespace, [content_hash("one")]) == set()
    assert catalog.ensure_root(UPLOADS) == UPLOADS
    worker.index("up.md", "one", root="uploads", content="one")
    assert texts(catalog) == {"up.md": "one"}


# --- collections ----------------------------------------------------------------------------------------------------


def test_a_dropped_collection_is_gone_from_every_call(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    other = home_of("acme", "papers")
    furnish(catalog, other)
    worker.index("kept.md", "kept", other)
    worker.index("a.md", "one\ntwo")
    catalog.record([present("b.md", content="two"), absent("b.md"), present("c.md"), present("d.md", content="three")])
    assert catalog.drop_collection(HOME, clock.now()) == 3
    assert catalog.collection(HOME) is None
    assert [collection.home for collection in catalog.collections()] == [other]
    assert (catalog.namespaces(), [known.home for known in catalog.roots()]) == (["acme"], [other])
    assert (catalog.status_of(document("a.md")), catalog.pending(10, clock.now())) == (None, [])
    assert catalog.wanted_blobs(HOME.namespace, [content_hash("three")]) == set()
    with catalog.snapshot() as snapshot:
        for asked in (
            lambda: snapshot.changes(snapshot.position, HOME),
            lambda: list(snapshot.documents(HOME)),
            lambda: catalog.counts(HOME),
        ):
            with pytest.raises(UnknownCollection):
                asked()
    assert texts(catalog, other) == {"kept.md": "kept"}
    assert list(catalog.findings()) == []


def test_dropping_again_or_nothing_removes_nothing(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    assert catalog.drop_collection(HOME, clock.now()) == 1
    before = catalog.position()
    assert (catalog.drop_collection(HOME, clock.now()), catalog.drop_collection(home_of("never"), clock.now())) == (0, 0)
    assert catalog.position() == before


def test_nothing_of_a_dropped_collection_comes_back_under_its_name(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    old = catalog.collection(HOME)
    assert old is not None
    worker.index("a.md", "one\ntwo", acl=("*",), metadata={"kind": "note"}, content="one\ntwo")
    worker.index("new.md", "three", moved_from="a.md")
    catalog.drop_collection(HOME, clock.now())
    created = furnish(catalog)
    assert created.served.build_id != old.served.build_id
    assert (texts(catalog), catalog.documents(HOME, states=list(DocumentState)).documents, catalog.roots(HOME)) == ({}, (), [root()])
    assert dict(catalog.counts(HOME).states) == {}
    worker.index("a.md", "one")
    with catalog.snapshot() as snapshot:
        (visible,) = snapshot.documents(HOME)
        assert (visible.text, visible.acl, visible.metadata) == ("one", None, {})
        assert [row.document for row in snapshot.log(HOME, catalog.position().__class__(catalog.position().incarnation, 0))] == [
            document("a.md")
        ]  # type: ignore[arg-type]
    assert list(catalog.findings()) == []


def test_a_late_commit_into_a_dropped_collection_is_refused(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.record([present("a.md"), present("b.md")])
    first, second = worker.indexed(worker.lease("a.md"), "one"), worker.failed(worker.lease("b.md"))
    catalog.drop_collection(HOME, clock.now())
    assert worker.commit_one(first) == Refused(Refusal.WANTED_ABSENT)
    assert catalog.leased(clock.now(), 10.0) == set()
    assert worker.try_lease("a.md") is None
    furnish(catalog)
    catalog.record([present("a.md"), present("b.md")])
    assert [type(verdict) for verdict in worker.commit(first, second)] == [Refused, Refused]
    assert texts(catalog) == {}


def test_a_follower_learns_that_its_collection_is_another_one(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    cursor = catalog.position()
    catalog.drop_collection(HOME, clock.now())
    assert catalog.position().seq > cursor.seq
    furnish(catalog)
    with catalog.snapshot() as snapshot:
        assert snapshot.changes(cursor, HOME).rebuild
        after = snapshot.position
    worker.index("b.md", "two")
    with catalog.snapshot() as snapshot:
        changes = snapshot.changes(after, HOME)
        assert (changes.rebuild, changes.documents) == (False, (document("b.md"),))
        assert snapshot.changes(cursor, HOME).rebuild


def test_vectors_stay_while_another_collection_of_the_namespace_needs_them(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    other = home_of("default", "papers")
    furnish(catalog, other)
    worker.index("a.md", "shared\nalone")
    worker.index("b.md", "shared", other)
    catalog.drop_collection(HOME, clock.now())
    asked = [input_hash("shared"), input_hash("alone")]
    assert catalog.missing(other, space(), asked) == {input_hash("alone")}
    assert list(catalog.findings()) == []
    assert catalog.namespaces() == ["default"]


def test_an_open_snapshot_goes_on_seeing_a_dropped_collection(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one\ntwo")
    with ExitStack() as open_snapshots:
        pinned = open_snapshots.enter_context(catalog.snapshot())
        assert [visible.text for visible in pinned.documents(HOME)] == ["one\ntwo"]
        catalog.drop_collection(HOME, clock.now())
        furnish(catalog)
        worker.index("a.md", "anew")
        assert [visible.text for visible in pinned.documents(HOME)] == ["one\ntwo"]
        assert len(list(pinned.vectors(HOME))) == 2
    catalog.sweep(clock.now(), 1000.0, 1000.0)
    assert texts(catalog) == {"a.md": "anew"}
    assert list(catalog.findings()) == []


def test_a_dropped_collections_growing_build_and_claims_go_along(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    catalog.ensure_root(SECOND)
    worker.index("a.md", "one")
    catalog.record([present("a.md", root="second")])
    catalog.ensure_collection(HOME, recipe("recipe-2"), space())
    worker.finish("a.md", "one")
    catalog.drop_collection(HOME, clock.now())
    created = furnish(catalog)
    assert (created.growing, catalog.documents(HOME).documents) == (None, ())
    catalog.ensure_root(SECOND)
    worker.index("a.md", "one")
    catalog.record([absent("a.md")])
    assert (texts(catalog), catalog.pending(10, clock.now())) == ({}, [])


def test_namespaces_are_those_that_have_a_collection(catalog: Catalog, clock: SimulatedClock) -> None:
    for home in (home_of("zeta", "a"), home_of("acme", "a"), home_of("acme", "b")):
        furnish(catalog, home)
    assert catalog.namespaces() == ["acme", "default", "zeta"]
    catalog.drop_collection(home_of("acme", "a"), clock.now())
    catalog.drop_collection(home_of("zeta", "a"), clock.now())
    assert catalog.namespaces() == ["acme", "default"]
