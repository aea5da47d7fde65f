"""The doors that change documents, over the in-memory catalog and a real blob folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.builders import Worker
from kit.pdfs import pdf_of

from indexer.http import IntakeReports, application
from indexer.load.registry import load
from indexer.uploads import UPLOADS, UploadLost, Uploads, fetch_upload
from indexer.uploads_http import Door as Receiving
from indexer.uploads_problems import UploadsBusy
from store.blobs.folder import DiskNearlyFull
from store.catalog.memory import MemoryCatalog
from store.clock import SimulatedClock
from store.config import Config, IndexerTable, StoreTable, UploadsTable
from store.errors import DocumentTooLarge, UriRejected
from store.folder import DataFolder
from store.model import (
    Absent,
    Cause,
    CollectionId,
    CollectionName,
    DocumentId,
    Ignored,
    Instant,
    Namespace,
    Present,
    Root,
    RootName,
    SourceKind,
    Urgency,
    check_uri,
)

HOME = CollectionId(Namespace("default"), CollectionName("main"))
BYTES_MAX = 4 * 1024 * 1024
DOCUMENTS = "/v1/collections/main/documents"


@dataclass
class Door:
    """An intake's application with its parts."""

    client: TestClient
    catalog: MemoryCatalog
    uploads: Uploads
    clock: SimulatedClock
    rings: list[None]

    def put(self, uri: str = "a.md", content: bytes | str = "a heron", **headers: Any) -> Any:
        return self.client.put(f"{DOCUMENTS}/{uri}", content=content, headers=headers)

    def put_with(self, metadata: Any, acl: Any = None, uri: str = "a.md", content: bytes | str = "a heron") -> Any:
        headers = {} if acl is None else {"X-Evercurrent-Acl": json.dumps(acl)}
        return self.client.put(f"{DOCUMENTS}/{uri}", content=content, headers={"X-Evercurrent-Metadata": json.dumps(metadata), **headers})

    def patch(self, body: Any, uri: str = "a.md") -> Any:
        return self.client.patch(f"{DOCUMENTS}/{uri}", json=body)

    def index(self, uri: str = "a.md", home: CollectionId = HOME) -> None:
        """What a worker does with a document that waits."""
        worker = Worker(self.catalog, self.clock)
        leased = worker.lease(uri, home)
        content = fetch_upload(self.uploads.blobs, leased, BYTES_MAX).content
        worker.commit(worker.indexed(leased, load(uri, content).text))

    def folder_document(self, uri: str = "file.md") -> None:
        root = self.catalog.ensure_root(Root(HOME, RootName("notes"), SourceKind.FOLDER, "/notes", ""))
        self.catalog.record([Present(HOME.document(uri), root.name, Cause.CREATED, Instant(1.0))])

    def pending(self) -> list[tuple[DocumentId, Cause, Urgency]]:
        return [(row.document, row.cause, row.urgency) for row in self.catalog.pending(100, self.clock.now())]

    def metadata(self, uri: str = "a.md") -> dict[str, Any]:
        with self.catalog.snapshot() as snapshot:
            return dict(next(iter(snapshot.documents(HOME, [HOME.document(uri)]))).metadata)


Open = Callable[..., Door]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    clients: list[TestClient] = []

    def open_door(acl: bool = False, namespaces_max: int = 1000, **limits: Any) -> Door:
        limits = {"free_bytes_min": 0, **limits}
        indexer = IndexerTable(
            document_bytes_max=BYTES_MAX,
            uploads=UploadsTable(**limits),
            embedding=IndexerTable().embedding.model_copy(update={"provider": "hashing"}),
        )
        config = Config(store=StoreTable(acl=acl, namespaces_max=namespaces_max), indexer=indexer)
        clock, rings = SimulatedClock(), list[None]()
        catalog = MemoryCatalog(clock)
        uploads = Uploads(catalog, DataFolder(tmp_path), config, clock, lambda: rings.append(None))
        reports = IntakeReports(lambda: (), lambda: (), lambda _seconds: None, dict, lambda: b"")
        client = TestClient(application(catalog, reports, uploads), raise_server_exceptions=False)
        client.__enter__()
        clients.append(client)
        return Door(client, catalog, uploads, clock, rings)

    yield open_door
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def door(opened: Open) -> Door:
    return opened()


def code(answer: Any) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]


# --- PUT ----------------------------------------------------------------------------------------------------------


def test_an_upload_is_answered_once_it_is_in_the_ledger_and_rings_the_bell(door: Door) -> None:
    answer = door.put("guide/a.md", "a heron")
    assert (answer.status_code, answer.json()) == (202, {"document": "guide/a.md", "version": 1})
    assert door.pending() == [(HOME.document("guide/a.md"), Cause.UPLOADED, Urgency.URGENT)]
    assert door.rings == [None]
    door.index("guide/a.md")
    state = door.client.get(f"{DOCUMENTS}/guide/a.md").json()
    assert (state["state"], state["version"], state["root"]) == ("indexed", 1, "uploads")


def test_the_same_bytes_again_are_the_same_version_and_no_work(door: Door) -> None:
    first = door.put(content="a heron").json()["version"]
    assert door.put(content="a heron").json()["version"] == first
    door.index()
    assert door.put(content="a heron").json()["version"] == first
    assert door.pending() == []
    assert door.put(content="an egret").json()["version"] > first
    assert len(door.pending()) == 1


def test_every_byte_of_a_uri_may_be_encoded(door: Door) -> None:
    for sent, meant in (
        ("guide%2Fa.md", "guide/a.md"),
        ("a%20b%3F%23.md", "a b?#.md"),
        ("%E5%AD%97.md", "字.md"),
        ("100%25.md", "100%.md"),
        ("a%0Ab.md", "a\nb.md"),
        ("%61+%2B.md", "a++.md"),
        ("line.md%0A.md", "line.md\n.md"),
    ):
        assert door.put(sent).json()["document"] == meant
        assert door.client.get(f"{DOCUMENTS}/{sent}").json()["document"] == meant


@pytest.mark.parametrize(
    "uri",
    ["", "%00.md", "a%00.md", "%2e%2e/a.md", "..%2Fa.md", "a/%2E/b.md", "%2Fa.md", "a%2F%2Fb.md", "a%2F", "%ff.md", "x" * 1025 + ".md"],
)
def test_a_uri_that_is_none_is_refused_and_leaves_nothing(door: Door, uri: str, tmp_path: Path) -> None:
    assert code(door.put(uri)) == (400, "uri_rejected")
    assert code(door.client.delete(f"{DOCUMENTS}/{uri}")) == (400, "uri_rejected")
    assert code(door.patch({"metadata": {}}, uri)) == (400, "uri_rejected")
    assert not (tmp_path / "blobs").exists()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(min_size=1, max_size=20).map(lambda text: text + "x.md"))
def test_whatever_the_uri_it_comes_back_or_is_refused_as_the_rules_say(door: Door, uri: str) -> None:
    try:
        check_uri(uri)
    except UriRejected:
        assert door.put(quote(uri.encode("utf-8", "surrogatepass"), safe="")).status_code == 400
    else:
        assert door.put(quote(uri, safe="")).json()["document"] == uri


def test_types_that_no_loader_claims_are_415(door: Door) -> None:
    assert code(door.put("photo.png")) == (415, "type_unclaimed")
    assert code(door.put("no-extension", content=b"\x00\x01\x02\x03")) == (415, "type_unclaimed")
    for content_type in ("image/png", "application/zip", "nonsense"):
        assert code(door.put("a.md", **{"Content-Type": content_type})) == (415, "type_unclaimed")
    for content_type in ("", "text/markdown; charset=utf-8", "application/octet-stream", "application/ld+json", "APPLICATION/JSON"):
        assert door.put("a.md", **{"Content-Type": content_type}).status_code == 202


@pytest.mark.parametrize(
    ("uri", "content", "declared", "media_type"),
    [
        ("minutes", b"# Minutes", "text/markdown", "text/markdown"),
        ("page", b"<p>x</p>", "text/html; charset=utf-8", "text/html"),
        ("minutes", b"just text", "application/octet-stream", "text/plain"),
        ("minutes.2026", b"just text", "", "text/plain"),
        ("report", pdf_of([["x"]]), "application/octet-stream", "application/pdf"),
        ("photo.png", b"# no photo", "text/markdown", "text/markdown"),
    ],
)
def test_a_document_whose_name_says_nothing_is_what_its_bytes_or_its_sender_say(
    door: Door, uri: str, content: bytes, declared: str, media_type: str
) -> None:
    assert door.put(uri, content=content, **{"Content-Type": declared}).status_code == 202
    assert Worker(door.catalog, door.clock).lease(uri, HOME).media_type == media_type


def test_equal_bytes_that_are_called_something_else_are_another_version(door: Door) -> None:
    first = door.put("minutes", content=b"# Minutes", **{"Content-Type": "text/plain"}).json()["version"]
    assert door.put("minutes", content=b"# Minutes", **{"Content-Type": "text/plain"}).json()["version"] == first
    assert door.put("minutes", content=b"# Minutes", **{"Content-Type": "text/markdown"}).json()["version"] > first


def test_a_document_of_a_folder_is_409(door: Door) -> None:
    door.put()
    door.folder_document("file.md")
    assert code(door.put("file.md")) == (409, "owned_by_source")
    assert code(door.client.delete(f"{DOCUMENTS}/file.md")) == (409, "owned_by_source")
    assert "notes" in door.put("file.md").json()["detail"]
    door.catalog.record([Absent(HOME.document("file.md"), Cause.DELETED, Instant(2.0))])
    assert door.put("file.md").status_code == 202


def test_too_many_bytes_are_413_whether_they_are_announced_or_not(door: Door) -> None:
    assert code(door.put(content=b"x" * (BYTES_MAX + 1))) == (413, "upload_too_large")
    endless = (b"x" * 500_000 for _ in range(10))
    assert code(door.client.put(f"{DOCUMENTS}/a.md", content=endless)) == (413, "upload_too_large")
    assert door.put(content=b"x" * BYTES_MAX).status_code == 202
    assert len(door.pending()) == 1


def test_a_full_disk_is_507_with_the_reason_and_when_to_come_again(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise DiskNearlyFull(retry_after_seconds=60.0)

    monkeypatch.setattr(type(door.uploads.blobs), "_check_floor", full)
    answer = door.put()
    assert (code(answer), answer.headers["retry-after"]) == ((507, "disk_nearly_full"), "60")


def test_more_uploads_at_once_than_the_limit_are_turned_away(opened: Open) -> None:
    receiving = Receiving(opened(at_once_max=1).uploads)
    with receiving._one_more(), pytest.raises(UploadsBusy), receiving._one_more():
        pass
    with receiving._one_more():
        pass


def test_namespaces_are_begun_within_their_limit(opened: Open) -> None:
    door = opened(namespaces_max=2)
    for namespace in ("default", "b"):
        assert door.put(**{"X-Evercurrent-Namespace": namespace}).status_code == 202
    assert code(door.put(**{"X-Evercurrent-Namespace": "c"})) == (429, "namespaces_full")
    assert door.put("b.md", **{"X-Evercurrent-Namespace": "b"}).status_code == 202


@pytest.mark.parametrize("whole", [True, False])
def test_what_was_removed_is_made_again_by_the_next_upload(door: Door, whole: bool) -> None:
    door.put()
    door.index()
    now = door.clock.now()
    assert (door.catalog.drop_collection(HOME, now) if whole else door.catalog.remove_root(HOME, UPLOADS, now)) == 1
    assert door.put().status_code == 202
    door.index()
    assert door.client.get(f"{DOCUMENTS}/a.md").json()["state"] == "indexed"


def test_collections_are_made_on_first_use_within_the_limit(opened: Open) -> None:
    door = opened(collections_max=2)
    for name in ("main", "notes"):
        assert door.client.put(f"/v1/collections/{name}/documents/a.md", content="x").status_code == 202
    assert code(door.client.put("/v1/collections/third/documents/a.md", content="x")) == (429, "collections_full")
    assert door.client.put("/v1/collections/notes/documents/b.md", content="x").status_code == 202
    assert [collection.home.collection for collection in door.catalog.collections()] == ["main", "notes"]


@pytest.mark.parametrize("name", ["n" * 101, "%07", "a%0Ab", "%20a"])
def test_a_collection_name_that_is_none_is_400(door: Door, name: str) -> None:
    assert code(door.client.put(f"/v1/collections/{name}/documents/a.md", content="x")) == (400, "name_rejected")


def test_an_encoded_slash_in_a_collection_is_no_way_around(door: Door) -> None:
    assert door.client.put("/v1/collections/a%2Fdocuments%2Fb/documents/c.md", content="x").status_code == 404
    assert door.catalog.collections() == []


def test_two_namespaces_have_the_same_uri_and_bytes_apart(door: Door) -> None:
    for namespace in ("acme", "Ümlaut"):
        header = {"X-Evercurrent-Namespace": namespace.encode()}
        assert door.client.put(f"{DOCUMENTS}/a.md", content="same", headers=header).status_code == 202
    assert {row.document.namespace for row in door.catalog.pending(9, door.clock.now())} == {"acme", "Ümlaut"}
    door.client.delete(f"{DOCUMENTS}/a.md", headers={"X-Evercurrent-Namespace": "acme"})
    raw = {"X-Evercurrent-Namespace": "Ümlaut".encode()}
    assert door.client.get(f"{DOCUMENTS}/a.md?raw=true", headers=raw).text == "same"
    assert door.client.get(f"{DOCUMENTS}/a.md?raw=true").status_code == 404


def test_a_web_page_of_somewhere_else_changes_nothing(door: Door) -> None:
    for header in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert code(door.put(**header)) == (403, "foreign_origin")
        assert code(door.client.post(DOCUMENTS, files=[("f", ("a.md", b"x"))], headers=header)) == (403, "foreign_origin")
        assert code(door.client.delete(f"{DOCUMENTS}/a.md", headers=header)) == (403, "foreign_origin")
    assert door.put(Origin="http://testserver").status_code == 202


# --- metadata and ACL ----------------------------------------------------------------------------------------------


def test_metadata_and_acl_come_with_the_upload(door: Door) -> None:
    assert door.put_with({"author": "Jürgen", "year": 2026, "tags": ["a"]}, ["user:a", "user:a", "*"]).status_code == 202
    door.index()
    assert door.metadata() == {"author": "Jürgen", "year": 2026, "tags": ["a"]}
    with door.catalog.snapshot() as snapshot:
        assert next(iter(snapshot.documents(HOME))).acl == ("user:a", "*")


def test_a_key_that_every_hit_has_gets_a_prefix(door: Door) -> None:
    door.put_with({"title": "T", "source": "S", "section": "kept"})
    door.index()
    assert door.metadata() == {"doc_title": "T", "doc_source": "S", "section": "kept"}


@pytest.mark.parametrize(
    "header",
    [
        "[1]", "nonsense", '{"a": NaN}', '{"a": 1e999}', '{"": 1}', json.dumps({f"k{n}": 1 for n in range(65)}),
        json.dumps({"long": "x" * 17_000}), "x" * 50_000, '{"a":' * 10 + "1" + "}" * 10, '{"a": 99999999999999999999999}',
        '{"title": 1, "doc_title": 2}', '{"a": "a heron"}',
    ],
)  # fmt: skip
def test_metadata_that_is_none_is_422_and_nothing_is_recorded(door: Door, header: str) -> None:
    answer = door.put(content="a heron\n", **{"X-Evercurrent-Metadata": header})
    assert code(answer) == (422, "metadata_rejected")
    assert door.pending() == []


def test_what_is_not_ascii_in_a_header_is_said(door: Door) -> None:
    answer = door.client.put(f"{DOCUMENTS}/a.md", content="x", headers={"X-Evercurrent-Metadata": '{"a": "é"}'.encode()})
    assert "ASCII" in answer.json()["detail"]


@pytest.mark.parametrize("header", ['"*"', "{}", "[1]", '[""]', "[", '[" a"]', json.dumps(["x" * 300]), json.dumps(["a"] * 1001)])
def test_an_acl_that_is_none_is_422(door: Door, header: str) -> None:
    assert code(door.put(**{"X-Evercurrent-Acl": header})) == (422, "acl_rejected")


def test_metadata_that_comes_with_the_same_bytes_is_visible_at_once(door: Door) -> None:
    version = door.put_with({"a": 1}).json()["version"]
    door.index()
    assert door.put_with({"a": 2}).json()["version"] == version
    assert (door.metadata(), door.pending()) == ({"a": 2}, [])


# --- PATCH and DELETE ------------------------------------------------------------------------------------------------


def test_a_patch_is_visible_when_it_is_answered(door: Door) -> None:
    version = door.put_with({"kind": "note", "old": 1}).json()["version"]
    door.index()
    answer = door.patch({"metadata": {"kind": "rule", "old": None, "title": "T"}, "acl": ["user:a"]})
    assert (answer.status_code, answer.json()) == (200, {"document": "a.md", "version": version})
    assert (door.metadata(), door.pending()) == ({"kind": "rule", "doc_title": "T"}, [])
    assert door.patch({"metadata": {"title": None}}).status_code == 200
    assert door.metadata() == {"kind": "rule"}
    assert door.patch({"metadata": None}).status_code == 200
    assert door.metadata() == {}


def test_a_folders_document_may_be_described(door: Door) -> None:
    door.put()
    door.folder_document("file.md")
    assert door.patch({"metadata": {"kind": "rule"}}, "file.md").status_code == 200


def test_a_patch_that_is_none_changes_nothing(door: Door) -> None:
    door.put_with({"kind": "note"})
    door.index()
    before = door.catalog.position()
    for body, expected in (
        ({"metadata": []}, (422, "metadata_rejected")),
        ({"acl": "*"}, (422, "acl_rejected")),
        ({"metdata": {}}, (422, "request_wrong")),
        ([], (422, "request_wrong")),
        ({"metadata": {"a": "a heron"}}, (422, "metadata_rejected")),
        ({"metadata": {f"k{n}": 1 for n in range(64)}}, (422, "metadata_rejected")),
        ({"metadata": {"a": "x" * 300_000}}, (413, "body_too_large")),
    ):
        assert code(door.patch(body)) == expected
    assert code(door.client.patch(f"{DOCUMENTS}/a.md", content=b"{nope")) == (422, "request_wrong")
    assert code(door.client.patch(f"{DOCUMENTS}/a.md", content=b'{"metadata": {"a": Infinity}}')) == (422, "request_wrong")
    assert door.patch({}).status_code == 200
    assert (door.catalog.position(), door.metadata()) == (before, {"kind": "note"})


def test_what_is_not_there_is_404(door: Door) -> None:
    assert code(door.patch({"metadata": {}}, "never.md")) == (404, "unknown_document")
    assert code(door.client.delete(f"{DOCUMENTS}/never.md")) == (404, "unknown_document")
    assert code(door.client.get(f"{DOCUMENTS}/never.md?raw=true")) == (404, "unknown_document")
    door.put()
    door.client.delete(f"{DOCUMENTS}/a.md")
    assert code(door.patch({"metadata": {}})) == (404, "unknown_document")
    assert code(door.client.get(f"{DOCUMENTS}/a.md?raw=true")) == (404, "unknown_document")


def test_a_deletion_is_committed_when_it_is_answered_and_beats_work_in_flight(door: Door) -> None:
    door.put()
    door.index()
    door.put(content="an egret")
    worker = Worker(door.catalog, door.clock)
    late = worker.indexed(worker.lease(), "an egret")
    answer = door.client.delete(f"{DOCUMENTS}/a.md")
    assert (answer.status_code, answer.json()["document"]) == (200, "a.md")
    worker.commit(late)
    with door.catalog.snapshot() as snapshot:
        assert list(snapshot.documents(HOME)) == []
    assert door.client.delete(f"{DOCUMENTS}/a.md").json() == answer.json()


def test_erasing_is_refused_not_ignored(door: Door) -> None:
    door.put()
    assert code(door.client.delete(f"{DOCUMENTS}/a.md?erase=true")) == (422, "not_served")
    assert door.client.get(f"{DOCUMENTS}/a.md").json()["state"] == "pending"


# --- the original ------------------------------------------------------------------------------------------------------


def test_the_original_comes_back_byte_by_byte_and_runs_nothing(door: Door) -> None:
    content = b"<script>alert(1)</script>\xff\x00"
    door.put("page.html", content)
    answer = door.client.get(f"{DOCUMENTS}/page.html?raw=true")
    assert (answer.content, answer.headers["content-type"]) == (content, "text/html")
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_original_that_a_browser_would_run_is_saved_instead(door: Door) -> None:
    door.put("guide/字.html", "<script>alert(1)</script>")
    headers = door.client.get(f"{DOCUMENTS}/guide/字.html?raw=true").headers
    assert (headers["content-type"], headers["x-content-type-options"]) == ("text/html", "nosniff")
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''%E5%AD%97.html"
    door.put("a.md", "x")
    assert "content-disposition" not in door.client.get(f"{DOCUMENTS}/a.md?raw=true").headers


@pytest.mark.parametrize("name", ["X-Evercurrent-Namespace", "X-Evercurrent-Metadata", "X-Evercurrent-Acl"])
def test_a_header_of_ours_that_comes_twice_is_refused(door: Door, name: str) -> None:
    answer = door.client.put(f"{DOCUMENTS}/a.md", content="x", headers=[(name, "a"), (name, "b")])
    assert code(answer) == (422, "request_wrong")
    assert door.catalog.collections() == []


def test_a_folders_original_is_elsewhere(door: Door) -> None:
    door.put()
    door.folder_document()
    assert code(door.client.get(f"{DOCUMENTS}/file.md?raw=true")) == (404, "original_elsewhere")


def test_an_original_that_is_lost_is_said(door: Door) -> None:
    door.put()
    door.clock.advance(10)
    door.uploads.blobs.sweep(lambda _namespace, _contents: set(), 1)
    assert code(door.client.get(f"{DOCUMENTS}/a.md?raw=true")) == (410, "upload_lost")


def test_with_acls_in_force_an_original_is_for_its_readers(opened: Open) -> None:
    door = opened(acl=True)
    door.put_with({}, ["user:a"])
    door.put("open.md", "x", **{"X-Evercurrent-Acl": '["*"]'})
    door.put("closed.md", "x")
    for uri in ("a.md", "open.md", "closed.md"):
        door.index(uri)

    def status(uri: str, principals: str) -> int:
        headers = {"X-Evercurrent-Principals": principals}
        return int(door.client.get(f"{DOCUMENTS}/{uri}?raw=true", headers=headers).status_code)

    assert [status("a.md", "user:b, user:a"), status("a.md", "user:b"), status("a.md", "")] == [200, 404, 404]
    assert [status("open.md", ""), status("closed.md", "user:a")] == [200, 404]


# --- many files ----------------------------------------------------------------------------------------------------------


def test_a_bad_file_does_not_stop_the_others(door: Door) -> None:
    door.put("first.md", "x")
    door.folder_document("file.md")
    files = [
        ("f", ("guide/a.md", b"one", "text/markdown")),
        ("f", ("photo.png", b"two", "image/png")),
        ("f", ("../b.md", b"three", "text/markdown")),
        ("f", ("file.md", b"four", "text/markdown")),
        ("f", ("large.txt", b"x" * (BYTES_MAX + 1), "text/plain")),
        ("f", ("字.md", b"five", "text/markdown")),
    ]
    answer = door.client.post(DOCUMENTS, files=files, data={"note": "no file"})
    assert answer.status_code == 202
    rows = {row["document"]: (row["status"], row.get("code")) for row in answer.json()["documents"]}
    assert rows == {
        "note": (422, "request_wrong"),
        "guide/a.md": (202, None),
        "photo.png": (415, "type_unclaimed"),
        "../b.md": (400, "uri_rejected"),
        "file.md": (409, "owned_by_source"),
        "large.txt": (413, "upload_too_large"),
        "字.md": (202, None),
    }
    assert {row[0].uri for row in door.pending()} == {"first.md", "file.md", "guide/a.md", "字.md"}
    door.index("guide/a.md")
    assert door.client.get(f"{DOCUMENTS}/guide%2Fa.md?raw=true").content == b"one"


def test_a_name_that_comes_twice_in_one_request_ends_at_its_last_file(door: Door) -> None:
    answer = door.client.post(DOCUMENTS, files=[("f", ("a.md", b"first")), ("f", ("a.md", b"second"))])
    first, second = (row["version"] for row in answer.json()["documents"])
    assert first < second
    door.index()
    assert door.client.get(f"{DOCUMENTS}/a.md?raw=true").content == b"second"


def test_a_head_of_a_part_has_a_limit_and_a_wrong_boundary_is_400(door: Door, tmp_path: Path) -> None:
    boundary = {"Content-Type": "multipart/form-data; boundary=b"}
    long_head = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.md"\r\nX: ' + b"x" * 70_000 + b"\r\n\r\nx\r\n--b--"
    other = b'--c\r\nContent-Disposition: form-data; name="f"; filename="a.md"\r\n\r\nx\r\n--c--'
    for body in (long_head, other):
        assert code(door.client.post(DOCUMENTS, content=body, headers=boundary)) == (400, "multipart_wrong")
    assert door.catalog.collections() == []


def test_when_no_file_was_taken_the_answer_is_422(door: Door) -> None:
    answer = door.client.post(DOCUMENTS, files=[("f", ("photo.png", b"x"))])
    assert (answer.status_code, answer.json()["documents"][0]["status"]) == (422, 415)


def test_parts_bring_metadata_of_their_own_over_the_requests(door: Door) -> None:
    own = {"X-Evercurrent-Metadata": '{"a": 2}', "X-Evercurrent-Acl": '["user:a"]'}
    door.client.post(
        DOCUMENTS,
        files=[("f", ("a.md", b"x", "text/markdown", own)), ("f", ("b.md", b"y", "text/markdown"))],
        headers={"X-Evercurrent-Metadata": '{"a": 1}'},
    )
    door.index("a.md")
    door.index("b.md")
    assert (door.metadata("a.md"), door.metadata("b.md")) == ({"a": 2}, {"a": 1})


def test_a_request_that_is_none_records_nothing(opened: Open, tmp_path: Path) -> None:
    door = opened(files_max=2)
    boundary = {"Content-Type": "multipart/form-data; boundary=b"}
    whole = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.md"\r\n\r\nx\r\n--b'
    assert code(door.client.post(DOCUMENTS, content=whole, headers=boundary)) == (400, "multipart_wrong")
    assert code(door.client.post(DOCUMENTS, content=b"x", headers={"Content-Type": "text/plain"})) == (400, "multipart_wrong")
    many = [("f", (f"{number}.md", b"x")) for number in range(3)]
    assert code(door.client.post(DOCUMENTS, files=many)) == (413, "body_too_large")
    assert door.catalog.collections() == []
    assert not any((tmp_path / "blobs" / "drafts").iterdir())


# --- waiting ---------------------------------------------------------------------------------------------------------------


def test_patience_that_ends_is_202_and_what_will_never_be_served_is_told_at_once(door: Door) -> None:
    answer = door.client.put(f"{DOCUMENTS}/a.md?wait=0.05", content="x")
    assert (answer.status_code, answer.json()["state"]) == (202, "pending")
    worker = Worker(door.catalog, door.clock)
    worker.commit(worker.failed(worker.lease()))
    uploaded = door.uploads.settled_at(HOME.document("a.md"), answer.json()["version"])
    assert uploaded == "quarantined"
    for wait in ("nan", "-1", "soon"):
        assert door.client.put(f"{DOCUMENTS}/a.md?wait={wait}", content="x").status_code == 422


def test_what_is_served_already_is_200(door: Door) -> None:
    door.put(content="x")
    door.index()
    answer = door.client.put(f"{DOCUMENTS}/a.md?wait=5", content="x")
    assert (answer.status_code, answer.json()) == (200, {"document": "a.md", "version": 1})


# --- for workers -----------------------------------------------------------------------------------------------------------


def test_a_worker_reads_the_bytes_that_are_wanted_or_says_why_not(door: Door, tmp_path: Path) -> None:
    door.put(content="a heron")
    leased = Worker(door.catalog, door.clock).lease()
    fetched = fetch_upload(door.uploads.blobs, leased, BYTES_MAX)
    assert (fetched.content, fetched.signature, fetched.proven) == (b"a heron", None, True)
    with pytest.raises(DocumentTooLarge):
        fetch_upload(door.uploads.blobs, leased, 3)
    blob = next(path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.stat().st_size == 7)
    blob.write_bytes(b"a hero\x00")
    with pytest.raises(UploadLost):
        fetch_upload(door.uploads.blobs, leased, BYTES_MAX)
    blob.unlink()
    with pytest.raises(UploadLost):
        fetch_upload(door.uploads.blobs, leased, BYTES_MAX)


def test_the_sweep_keeps_what_the_ledger_wants(opened: Open) -> None:
    door = opened(grace_seconds=60)
    door.put("a.md", "one")
    door.put("b.md", "two")
    door.put("a.md", "three")
    door.client.delete(f"{DOCUMENTS}/b.md")
    assert door.uploads.sweep() == 0
    door.clock.advance(61)
    assert door.uploads.sweep() == 2
    assert door.client.get(f"{DOCUMENTS}/a.md?raw=true").text == "three"


def test_an_ignored_document_does_not_own_its_name(door: Door) -> None:
    door.put()
    root = door.catalog.ensure_root(Root(HOME, RootName("notes"), SourceKind.FOLDER, "/notes", ""))
    door.catalog.record([Ignored(HOME.document("b.md"), root.name, Instant(1.0))])
    assert door.put("b.md").status_code == 202
