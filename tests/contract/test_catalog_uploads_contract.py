"""What every catalog adapter promises about uploads: their root, the contents they want, and changes that need no worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kit.builders import HOME, Worker, absent, content_hash, document, furnish, home_of, outcomes, present, root, tally, texts

from store.clock import SimulatedClock
from store.errors import MetadataRejected, Misuse
from store.model import (
    METADATA_BYTES_MAX,
    METADATA_KEYS_MAX,
    Build,
    ChangeKind,
    Committed,
    Described,
    DocumentState,
    Ignored,
    Instant,
    Namespace,
    Present,
    Refusal,
    Refused,
    Root,
    RootName,
    Seq,
    SourceKind,
    Version,
)
from store.ports import Catalog

UPLOADS = Root(HOME, RootName("uploads"), SourceKind.UPLOADS, "uploads:", "")


def described(uri: str = "a.md", **change: Any) -> Described:
    return Described(document(uri), **change)


def seen_metadata(catalog: Catalog, uri: str = "a.md") -> dict[str, Any]:
    with catalog.snapshot() as snapshot:
        return dict(next(iter(snapshot.documents(HOME, [document(uri)]))).metadata)


def acl_of(catalog: Catalog, uri: str = "a.md") -> tuple[str, ...] | None:
    with catalog.snapshot() as snapshot:
        return next(iter(snapshot.documents(HOME, [document(uri)]))).acl


# --- the root -----------------------------------------------------------------------------------------------------


def test_uploads_share_the_uris_of_the_first_root(catalog: Catalog, worker: Worker) -> None:
    assert catalog.ensure_root(UPLOADS) == UPLOADS == catalog.ensure_root(UPLOADS)
    assert {known.name for known in catalog.roots(HOME)} == {"notes", "uploads"}
    worker.index("up.md", "one", root="uploads", content="one")
    worker.index("file.md", "two")
    assert texts(catalog) == {"file.md": "two", "up.md": "one"}
    assert [sighting.uri for sighting in catalog.sightings(root())] == ["file.md"]


def test_a_first_folder_may_come_after_the_uploads(catalog: Catalog) -> None:
    home = home_of("acme")
    catalog.ensure_collection(home, *_build(catalog))
    catalog.ensure_root(Root(home, RootName("uploads"), SourceKind.UPLOADS, "uploads:", ""))
    catalog.ensure_root(root(home=home))
    with pytest.raises(Misuse):
        catalog.ensure_root(root("second", path="/srv/second", home=home))


def test_the_name_of_the_uploads_is_taken_like_any_other(catalog: Catalog) -> None:
    catalog.ensure_root(UPLOADS)
    with pytest.raises(Misuse):
        catalog.ensure_root(root("uploads", "uploads/", "/srv/uploads"))


def _build(catalog: Catalog) -> tuple[Any, Any]:
    collection = catalog.collection(HOME)
    assert collection is not None
    return collection.served.recipe, collection.served.space


def test_an_upload_onto_a_folders_document_sets_nothing(catalog: Catalog, worker: Worker) -> None:
    catalog.ensure_root(UPLOADS)
    worker.index("a.md", "the folder's")
    assert catalog.record([present("a.md", root="uploads", content="the upload's")]) == [None]
    assert (texts(catalog), catalog.wanted_blob(document("a.md"))) == ({"a.md": "the folder's"}, None)
    catalog.record([absent("a.md")])
    assert catalog.record([present("a.md", root="uploads", content="the upload's")]) != [None]


# --- which contents are wanted --------------------------------------------------------------------------------------


def test_a_content_is_wanted_from_its_notice_until_its_document_wants_another_or_none(catalog: Catalog, worker: Worker) -> None:
    catalog.ensure_root(UPLOADS)
    one, two = content_hash("one"), content_hash("two")

    def wanted() -> tuple[Any, set[Any]]:
        return catalog.wanted_blob(document("a.md")), catalog.wanted_blobs(HOME.namespace, [one, two])

    assert wanted() == (None, set())
    catalog.record([present(root="uploads", content="one")])
    assert wanted() == (one, {one})
    worker.finish("a.md", "one")
    assert wanted() == (one, {one})
    catalog.record([present(root="uploads", content="two")])
    assert wanted() == (two, {two})
    catalog.record([absent()])
    assert wanted() == (None, set())


def test_a_content_is_wanted_in_its_own_namespace_only(catalog: Catalog) -> None:
    other = home_of("acme")
    furnish(catalog, other)
    catalog.record([present("a.md", content="one", home=other)])
    assert catalog.wanted_blobs(HOME.namespace, [content_hash("one")]) == set()
    assert catalog.wanted_blobs(Namespace("acme"), [content_hash("one")]) == {content_hash("one")}


def test_many_contents_are_asked_for_at_once(catalog: Catalog) -> None:
    catalog.record([present("a.md", content="700")])
    assert catalog.wanted_blobs(HOME.namespace, [content_hash(str(number)) for number in range(1200)]) == {content_hash("700")}


# --- described ------------------------------------------------------------------------------------------------------


def test_a_description_is_visible_at_once_and_needs_no_worker(catalog: Catalog, worker: Worker, clock: SimulatedClock) -> None:
    worker.index("a.md", "one\ntwo", metadata={"kind": "note", "tags": ["x"]})
    before = catalog.position()
    version = catalog.status_of(document("a.md")).wanted_version  # type: ignore[union-attr]
    embedded = tally(catalog, "evercurrent_embedded_texts_total")
    assert catalog.record([described(metadata={"kind": "rule", "tags": None, "year": 2026})]) == [version]
    assert seen_metadata(catalog) == {"kind": "rule", "year": 2026}
    assert (texts(catalog), catalog.pending(10, clock.now())) == ({"a.md": "one\ntwo"}, [])
    with catalog.snapshot() as snapshot:
        assert [row.kind for row in snapshot.log(HOME, before)] == [ChangeKind.METADATA]
        assert snapshot.changes(before, HOME).documents == (document("a.md"),)
        chunk_id = next(iter(snapshot.documents(HOME))).layout.placements[0].chunk_id
        (chunk,) = snapshot.chunks(HOME, [chunk_id])
        assert chunk is not None
        assert (chunk.metadata["kind"], chunk.version) == ("rule", version)
    assert tally(catalog, "evercurrent_embedded_texts_total") == embedded
    assert outcomes(catalog, "updated") == 0


def test_a_merge_patch_reaches_into_objects_and_none_clears_all(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one", metadata={"owner": {"team": "a", "mail": "a@b"}, "year": 1})
    catalog.record([described(metadata={"owner": {"mail": None, "room": {"floor": 2}}})])
    assert seen_metadata(catalog) == {"owner": {"team": "a", "room": {"floor": 2}}, "year": 1}
    catalog.record([described(metadata=None)])
    assert seen_metadata(catalog) == {}


def test_what_a_description_does_not_speak_of_stays(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one", metadata={"kind": "note"}, acl=("user:a",))
    before = catalog.position()
    catalog.record([described()])
    assert catalog.position() == before
    catalog.record([described(acl=("user:b",))])
    assert (seen_metadata(catalog), acl_of(catalog)) == ({"kind": "note"}, ("user:b",))
    catalog.record([described(metadata={"kind": "rule"})])
    assert (seen_metadata(catalog), acl_of(catalog)) == ({"kind": "rule"}, ("user:b",))
    catalog.record([described(acl=None)])
    assert acl_of(catalog) is None


def test_a_description_that_changes_nothing_writes_no_row(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one", metadata={"kind": "note"}, acl=("user:a",))
    before = catalog.position()
    catalog.record([described(metadata={"kind": "note", "absent": None}, acl=("user:a",))])
    assert catalog.position() == before


def test_a_description_of_nothing_sets_nothing(catalog: Catalog, worker: Worker) -> None:
    assert catalog.record([described("never.md", metadata={"a": 1})]) == [None]
    assert catalog.status_of(document("never.md")) is None
    worker.index("a.md", "one")
    catalog.record([absent("a.md")])
    assert catalog.record([described("a.md", metadata={"a": 1}, acl=("*",))]) == [None]
    assert catalog.status_of(document("a.md")).state is DocumentState.DELETED  # type: ignore[union-attr]


def test_an_ignored_document_keeps_its_description_for_later(catalog: Catalog, worker: Worker) -> None:
    catalog.record([Ignored(document("a.md"), RootName("notes"), Instant(0.0))])
    catalog.record([described(metadata={"a": 1})])
    worker.index("a.md", "one")
    assert seen_metadata(catalog) == {"a": 1}


def test_what_the_document_says_of_itself_stays_beside_the_description(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present("a.md")])
    leased = worker.lease("a.md")
    outcome = worker.indexed(leased, "one")
    cut = replace(outcome.cuts[0], metadata={"author": "mira"})
    worker.commit(replace(outcome, cuts=(cut,)))
    catalog.record([described(metadata={"kind": "rule"})])
    assert seen_metadata(catalog) == {"author": "mira", "kind": "rule"}
    catalog.record([described(metadata={"kind": None})])
    assert seen_metadata(catalog) == {"author": "mira"}


def test_a_later_version_is_described_too(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    catalog.record([described(metadata={"kind": "rule"}, acl=("user:a",))])
    worker.index("a.md", "two")
    assert (texts(catalog), seen_metadata(catalog), acl_of(catalog)) == ({"a.md": "two"}, {"kind": "rule"}, ("user:a",))


def test_a_description_shows_on_the_served_version_while_a_newer_one_waits(catalog: Catalog, worker: Worker) -> None:
    catalog.ensure_root(UPLOADS)
    worker.index("a.md", "one", root="uploads", content="one", metadata={"a": 1})
    catalog.record([present("a.md", root="uploads", content="two", metadata={"b": 2})])
    catalog.record([described(metadata={"c": 3})])
    assert (texts(catalog), seen_metadata(catalog)) == ({"a.md": "one"}, {"a": 1, "c": 3})
    worker.finish("a.md", "two")
    assert (texts(catalog), seen_metadata(catalog)) == ({"a.md": "two"}, {"b": 2, "c": 3})


def test_work_that_was_handed_the_description_before_shows_the_one_of_now(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present("a.md")])
    late = worker.indexed(worker.lease("a.md"), "one")
    catalog.record([described(metadata={"kind": "rule"}, acl=("user:a",))])
    assert isinstance(worker.commit_one(late), Committed)
    assert (seen_metadata(catalog), acl_of(catalog)) == ({"kind": "rule"}, ("user:a",))


def test_late_work_of_a_version_that_came_with_other_metadata_shows_what_it_came_with(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present("a.md", content="one", metadata={"of": 1})])
    late = worker.indexed(worker.lease("a.md"), "one")
    catalog.record([present("a.md", content="two", metadata={"of": 2})])
    assert isinstance(worker.commit_one(late), Committed)
    assert (texts(catalog), seen_metadata(catalog)) == ({"a.md": "one"}, {"of": 1})
    worker.finish("a.md", "two")
    assert (texts(catalog), seen_metadata(catalog)) == ({"a.md": "two"}, {"of": 2})


def test_late_work_of_a_version_that_is_not_wanted_is_refused_once_it_is_described(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present("a.md", content="one")])
    late = worker.indexed(worker.lease("a.md"), "one")
    catalog.record([present("a.md", content="two")])
    catalog.record([described(metadata={"kind": "rule"})])
    assert worker.commit_one(late) == Refused(Refusal.FENCE_OLD)
    worker.finish("a.md", "two")
    assert seen_metadata(catalog) == {"kind": "rule"}


def test_a_description_that_hides_what_the_loader_found_gives_it_back(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present("a.md")])
    outcome = worker.indexed(worker.lease("a.md"), "one")
    worker.commit(replace(outcome, cuts=(replace(outcome.cuts[0], metadata={"author": "mira", "tags": ["x"]}),)))
    catalog.record([described(metadata={"author": "ada"})])
    assert seen_metadata(catalog) == {"author": "ada", "tags": ["x"]}
    catalog.record([described(metadata={"author": None})])
    assert seen_metadata(catalog) == {"author": "mira", "tags": ["x"]}
    catalog.record([described(metadata={"tags": []}), described(metadata=None)])
    assert seen_metadata(catalog) == {"author": "mira", "tags": ["x"]}


def test_the_planner_reads_what_the_loader_found_apart_from_the_sources_own(catalog: Catalog, worker: Worker) -> None:
    catalog.record([present("a.md", metadata={"kind": "note"})])
    outcome = worker.indexed(worker.lease("a.md"), "one")
    worker.commit(replace(outcome, cuts=(replace(outcome.cuts[0], metadata={"author": "mira"}),)))
    (recorded,) = catalog.recorded([(document("a.md"), _served(catalog))])
    assert (recorded.metadata, recorded.own_metadata) == ({"author": "mira"}, {"kind": "note"})


def test_equal_bytes_show_the_metadata_that_was_given_while_they_were_read(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one", content="one", metadata={"of": 1})
    catalog.record([present("a.md", content="two", metadata={"of": 1})])
    catalog.record([present("a.md", content="one", metadata={"of": 1})])
    leased = worker.lease("a.md")
    catalog.record([present("a.md", content="one", metadata={"of": 2}), described(metadata={"more": True})])
    before = catalog.position()
    verdict = worker.commit_one(worker.unchanged(leased, "one"))
    assert verdict == Committed(Seq(before.seq + 1))
    assert seen_metadata(catalog) == {"of": 2, "more": True}


# --- what the bytes are ---------------------------------------------------------------------------------------------


def test_a_media_type_reaches_the_worker_and_another_one_is_another_version(catalog: Catalog, worker: Worker) -> None:
    catalog.ensure_root(UPLOADS)
    (first,) = catalog.record([_typed("text/html")])
    assert worker.lease("a.md").media_type == "text/html"
    worker.finish("a.md", "one")
    assert catalog.record([_typed("text/html"), _typed(None)]) == [first, first]
    (second,) = catalog.record([_typed("text/markdown")])
    assert (second != first, worker.lease("a.md").media_type) == (True, "text/markdown")
    worker.finish("a.md", "one")
    assert catalog.record([_typed(None)]) == [second]


def test_a_media_type_stays_with_its_content_alone(catalog: Catalog, worker: Worker) -> None:
    catalog.ensure_root(UPLOADS)
    catalog.record([_typed("text/html")])
    worker.commit(worker.failed(worker.lease("a.md")))
    catalog.record([_typed(None)])
    assert worker.lease("a.md").media_type == "text/html"
    catalog.record([_typed(None, "two")])
    assert worker.lease("a.md").media_type is None
    catalog.record([_typed("text/html", "two"), absent("a.md"), _typed(None, "two")])
    assert worker.lease("a.md").media_type is None


def _typed(media_type: str | None, content: str = "one") -> Present:
    return replace(present("a.md", root="uploads", content=content), media_type=media_type)


def _served(catalog: Catalog) -> Build:
    collection = catalog.collection(HOME)
    assert collection is not None
    return collection.served


def test_a_document_on_its_way_to_a_new_name_is_described_under_both(catalog: Catalog, worker: Worker) -> None:
    worker.index("old.md", "one", metadata={"kind": "note"})
    catalog.record([present("new.md", moved_from="old.md")])
    catalog.record([described("old.md", metadata={"kind": "rule"}, acl=("user:a",))])
    assert seen_metadata(catalog, "old.md") == {"kind": "rule"}
    worker.finish("new.md", "one")
    assert (seen_metadata(catalog, "new.md"), acl_of(catalog, "new.md")) == ({"kind": "rule"}, ("user:a",))


@pytest.mark.parametrize("patch", [{f"k{number}": 1 for number in range(METADATA_KEYS_MAX)}, {"long": "x" * (METADATA_BYTES_MAX - 10)}])
def test_too_much_metadata_is_refused_and_changes_nothing(catalog: Catalog, worker: Worker, patch: dict[str, Any]) -> None:
    worker.index("a.md", "one", metadata={"first": "here"})
    before = catalog.position()
    with pytest.raises(MetadataRejected):
        catalog.record([described(metadata=patch)])
    assert (catalog.position(), seen_metadata(catalog)) == (before, {"first": "here"})


def test_the_version_of_a_described_document_stays(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one")
    status = catalog.status_of(document("a.md"))
    assert status is not None
    catalog.record([described(metadata={"a": 1})])
    assert catalog.status_of(document("a.md")) == status
    assert status.indexed_version > Version(0)


def test_the_audit_finds_nothing_after_descriptions(catalog: Catalog, worker: Worker) -> None:
    worker.index("a.md", "one\ntwo")
    catalog.record([described(metadata={"a": 1}, acl=("*",))])
    worker.index("a.md", "one\nthree")
    catalog.record([described(metadata=None)])
    assert list(catalog.findings()) == []
