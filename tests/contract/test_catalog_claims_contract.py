"""What every catalog adapter promises about a uri that two roots have: one owns it, the other's file waits, is shown, and takes over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kit.builders import HOME, Worker, document, home_of, present, root, signature, texts

from store.clock import SimulatedClock
from store.errors import OwnedBySource
from store.model import Absent, Cause, DocumentState, DocumentStatus, Held, Ignored, Instant, Root, RootName, Sighting, SourceKind, Version
from store.ports import Catalog

SECOND = root("second", "second/", "/srv/second")
THIRD = root("third", "third/", "/srv/third")
UPLOADS = Root(HOME, RootName("uploads"), SourceKind.UPLOADS, "uploads:", "")


@pytest.fixture(autouse=True)
def roots(catalog: Catalog) -> None:
    for one in (SECOND, THIRD, UPLOADS):
        catalog.ensure_root(one)


def absent_in(name: str, uri: str = "a.md") -> Absent:
    return Absent(document(uri), Cause.DELETED, Instant(0.0), RootName(name))


def rows(catalog: Catalog, states: Sequence[DocumentState] = (), limit: int = 1000) -> list[tuple[str, str, DocumentState]]:
    """(uri, root, state) of every page's rows."""
    found: list[DocumentStatus] = []
    cursor = None
    while True:
        page = catalog.documents(HOME, cursor, limit, states)
        found += page.documents
        if page.cursor is None:
            return [(status.document.uri, status.root, status.state) for status in found]
        cursor = page.cursor


def test_a_second_claim_sets_nothing_and_is_shown_beside_the_owners_row(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    before = catalog.position()
    assert catalog.record([present("a.md", root="second", noticed_at=5.0, sign=signature(7))]) == [None]
    assert (texts(catalog), catalog.position(), catalog.pending(10, clock.now())) == ({"a.md": "one"}, before, [])
    owner, claim = catalog.documents(HOME).documents
    assert (owner.root, owner.state) == ("notes", DocumentState.INDEXED)
    assert claim == DocumentStatus(
        document("a.md"),
        DocumentState.CONFLICT,
        Version(0),
        Version(0),
        0,
        RootName("second"),
        Instant(5.0),
        code="owned_by_source",
        message=OwnedBySource(document="a.md", owner="notes").message,
    )
    assert catalog.status_of(document("a.md")) == owner
    assert dict(catalog.counts(HOME).states) == {DocumentState.INDEXED: 1, DocumentState.CONFLICT: 1}
    assert list(catalog.findings()) == []


def test_a_claim_is_among_the_sightings_of_its_root_and_leaves_the_owners_alone(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one", sign=signature(1))
    for uri, number in (("z.md", 3), ("b.md", 2)):
        worker.index(uri, uri, root="second", sign=signature(number))
    catalog.record([present("a.md", root="second", sign=signature(7))])
    assert [(one.uri, one.state) for one in catalog.sightings(SECOND)] == [
        ("a.md", DocumentState.CONFLICT),
        ("b.md", DocumentState.INDEXED),
        ("z.md", DocumentState.INDEXED),
    ]
    assert next(iter(catalog.sightings(SECOND, "a"))) == Sighting(
        document("a.md").uri, DocumentState.CONFLICT, signature(7), False, None, Version(0)
    )
    assert [one.state for one in catalog.sightings(root())] == [DocumentState.INDEXED]


def test_a_claim_that_is_noticed_again_keeps_its_place_with_its_new_signature(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md", root=name, sign=signature(number)) for name, number in (("second", 1), ("third", 2), ("second", 3))])
    catalog.record([absent_in("notes")])
    status = catalog.status_of(document("a.md"))
    assert status is not None
    assert (status.root, worker.lease("a.md").signature) == ("second", signature(3))


def test_a_claim_takes_over_when_the_owners_document_leaves_and_the_next_goes_on_waiting(
    catalog: Catalog, worker: Worker, clock: SimulatedClock
) -> None:
    worker.index("a.md", "the first's", acl=("user:a",), metadata={"of": "first"})
    catalog.record([present("a.md", root="third", sign=signature(3)), present("a.md", root="second", sign=signature(2))])
    (version,) = catalog.record([absent_in("notes")])
    status = catalog.status_of(document("a.md"))
    assert status is not None
    assert version is not None
    assert (status.root, status.state, status.wanted_version > version) == ("third", DocumentState.PENDING, True)
    assert (texts(catalog), rows(catalog)) == (
        {},
        [("a.md", "third", DocumentState.PENDING), ("a.md", "second", DocumentState.CONFLICT)],
    )
    leased = worker.lease("a.md")
    assert (leased.cause, leased.signature, leased.root, leased.metadata) == (Cause.CREATED, signature(3), THIRD, {})
    worker.commit(worker.indexed(leased, "the third's"))
    assert texts(catalog) == {"a.md": "the third's"}
    with catalog.snapshot() as snapshot:
        assert [visible.acl for visible in snapshot.documents(HOME)] == [None]
    catalog.record([absent_in("third")])
    worker.finish("a.md", "the second's")
    assert (texts(catalog), rows(catalog)) == ({"a.md": "the second's"}, [("a.md", "second", DocumentState.INDEXED)])


def test_a_claim_leaves_with_its_file_and_the_owner_stays(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md", root="second"), present("a.md", root="third")])
    assert catalog.record([absent_in("second")]) == [None]
    assert rows(catalog, [DocumentState.CONFLICT]) == [("a.md", "third", DocumentState.CONFLICT)]
    catalog.record([Ignored(document("a.md"), RootName("third"), Instant(0.0))])
    assert rows(catalog) == [("a.md", "notes", DocumentState.INDEXED)]
    catalog.record([absent_in("notes")])
    assert texts(catalog) == {}


def test_a_claim_takes_over_from_what_its_owner_ignores_from_now_on(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md", root="second")])
    catalog.record([Ignored(document("a.md"), RootName("notes"), Instant(0.0))])
    worker.finish("a.md", "the second's")
    assert (texts(catalog), rows(catalog)) == ({"a.md": "the second's"}, [("a.md", "second", DocumentState.INDEXED)])


def test_a_claim_takes_over_when_the_owners_document_has_moved_away_and_not_before(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "wandering")
    catalog.record([present("a.md", root="second")])
    catalog.record([present("new.md", moved_from="a.md")])
    assert texts(catalog) == {"a.md": "wandering"}
    worker.finish("new.md", "wandering")
    assert texts(catalog) == {"new.md": "wandering"}
    worker.finish("a.md", "the second's")
    assert texts(catalog) == {"a.md": "the second's", "new.md": "wandering"}


def test_a_claim_takes_over_when_a_worker_finds_the_owners_file_gone(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md", root="second"), present("a.md")])
    worker.commit(worker.vanished(worker.lease("a.md")))
    assert worker.lease("a.md").root == SECOND


def test_a_claim_takes_over_when_what_its_owner_renamed_cannot_be_indexed(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md", root="second"), present("new.md", moved_from="a.md")])
    worker.commit(worker.failed(worker.lease("new.md")))
    assert worker.lease("a.md").root == SECOND


def test_a_held_owner_keeps_its_uri(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([Held(document("a.md"), Instant(0.0), "the folder is empty"), present("a.md", root="second")])
    assert rows(catalog) == [("a.md", "notes", DocumentState.HELD), ("a.md", "second", DocumentState.CONFLICT)]


def test_an_upload_onto_a_folders_document_is_no_claim(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    assert catalog.record([present("a.md", root="uploads", content="two")]) == [None]
    catalog.record([absent_in("notes")])
    assert (rows(catalog), catalog.pending(10, clock.now())) == ([], [])


def test_a_file_onto_an_upload_waits_for_it(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "uploaded", root="uploads", content="uploaded")
    catalog.record([present("a.md")])
    catalog.record([Absent(document("a.md"), Cause.DELETED, Instant(0.0))])
    worker.finish("a.md", "the folder's")
    assert texts(catalog) == {"a.md": "the folder's"}
    assert catalog.wanted_blob(document("a.md")) is None


def test_a_file_that_is_renamed_onto_anothers_leaves_its_old_uri(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    worker.index("b.md", "the second's", root="second")
    catalog.record([present("a.md", root="second", moved_from="b.md")])
    assert (texts(catalog), rows(catalog)) == (
        {"a.md": "one"},
        [("a.md", "notes", DocumentState.INDEXED), ("a.md", "second", DocumentState.CONFLICT)],
    )


def test_a_claim_whose_file_is_renamed_waits_under_its_new_uri_or_not_at_all(catalog: Catalog, worker: Worker) -> None:
    for uri in ("a.md", "b.md"):
        worker.index(uri, uri)
    catalog.record([present("a.md", root="second")])
    catalog.record([present("b.md", root="second", moved_from="a.md")])
    assert rows(catalog, [DocumentState.CONFLICT]) == [("b.md", "second", DocumentState.CONFLICT)]
    catalog.record([present("c.md", root="second", moved_from="b.md")])
    assert rows(catalog, [DocumentState.CONFLICT]) == []
    worker.finish("c.md", "mine")
    assert texts(catalog) == {"a.md": "a.md", "b.md": "b.md", "c.md": "mine"}


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_pages_of_any_length_show_every_row_once(catalog: Catalog, worker: Worker, limit: int) -> None:
    for uri in ("a.md", "b.md", "c.md"):
        worker.index(uri, uri)
    catalog.record([present(uri, root=name) for uri in ("a.md", "c.md") for name in ("third", "second")])
    indexed, conflict = DocumentState.INDEXED, DocumentState.CONFLICT
    everything = [
        ("a.md", "notes", indexed),
        ("a.md", "second", conflict),
        ("a.md", "third", conflict),
        ("b.md", "notes", indexed),
        ("c.md", "notes", indexed),
        ("c.md", "second", conflict),
        ("c.md", "third", conflict),
    ]
    assert rows(catalog, limit=limit) == everything
    assert rows(catalog, [conflict], limit) == [row for row in everything if row[2] is conflict]
    assert rows(catalog, [indexed], limit) == [row for row in everything if row[2] is indexed]


def test_a_uri_is_a_cursor_before_its_claims(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md", root="second")])
    assert [status.root for status in catalog.documents(HOME, "a.md").documents] == ["second"]


def test_claims_are_their_collections_own(catalog: Catalog, worker: Worker) -> None:
    other = home_of("acme")
    collection = catalog.collection(HOME)
    assert collection is not None
    catalog.ensure_collection(other, collection.served.recipe, collection.served.space)
    catalog.ensure_root(root(home=other))
    worker.index("a.md", "one")
    catalog.record([present("a.md", root="second")])
    assert catalog.documents(other).documents == ()
    assert catalog.counts(other).states == {}


def test_the_oldest_notice_is_the_takeovers_own(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one")
    catalog.record([present("a.md", root="second", noticed_at=1.0)])
    clock.advance(100)
    catalog.record([absent_in("notes")])
    assert [waiting.noticed_at for waiting in catalog.pending(10, clock.now())] == [clock.now()]
