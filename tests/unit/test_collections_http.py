"""The doors to collections and namespaces, over the in-memory catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from indexer.collections import Collections
from indexer.http import IntakeReports, application
from indexer.uploads import Uploads
from store.catalog.memory import MemoryCatalog
from store.clock import SimulatedClock
from store.config import CollectionTable, Config, EmbeddingTable, FieldTable, IndexerTable, UploadsTable
from store.folder import DataFolder

DECLARED = {"letters": CollectionTable(fields={"status": FieldTable(values=("draft", "final"), required=True)})}
ACME = {"X-Evercurrent-Namespace": "acme"}


@dataclass
class Door:
    client: TestClient
    catalog: MemoryCatalog
    rings: list[None]

    def upload(self, collection: str, headers: dict[str, str] | None = None) -> None:
        answer = self.client.put(f"/v1/collections/{collection}/documents/a.md", content=b"A text.", headers=headers or {})
        assert answer.status_code == 202, answer.text

    def names(self, headers: dict[str, str] | None = None) -> list[str]:
        return [row["collection"] for row in self.client.get("/v1/collections", headers=headers or {}).json()["collections"]]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    clock = SimulatedClock()
    rings: list[None] = []
    catalog, folder = MemoryCatalog(clock), DataFolder(tmp_path)
    config = Config(
        indexer=IndexerTable(embedding=EmbeddingTable(provider="hashing"), uploads=UploadsTable(collections_max=4), collections=DECLARED)
    )
    uploads = Uploads(catalog, folder, config, clock, lambda: rings.append(None))
    collections = Collections(catalog, clock, uploads.furnish, lambda: rings.append(None), uploads.fields)
    reports = IntakeReports(unready=list, unsettled=list, flush=lambda _: None, state=dict, metrics=lambda: b"")
    with TestClient(application(catalog, reports, uploads, collections), base_url="http://127.0.0.1") as client:
        yield Door(client, catalog, rings)


def test_a_collection_is_there_from_its_first_document_on_and_is_listed_with_what_it_holds(door: Door) -> None:
    assert door.names() == ["main"]
    door.upload("notes")
    (main, notes) = door.client.get("/v1/collections").json()["collections"]
    assert (main["collection"], main["recipe"], sum(main["documents"].values())) == ("main", None, 0)
    assert (notes["collection"], notes["documents"]["pending"], notes["chunks"]) == ("notes", 1, 0)
    assert (len(notes["recipe"]), len(notes["space"]) > 0, notes["growing"]) == (32, True, None)


def test_making_a_collection_twice_makes_it_once(door: Door) -> None:
    answers = [door.client.put("/v1/collections/notes") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()
    assert len(door.catalog.collections()) == 1


def test_a_deletion_takes_the_documents_and_the_name_starts_empty_again(door: Door) -> None:
    door.upload("notes")
    before = len(door.rings)
    answer = door.client.delete("/v1/collections/notes")
    assert (answer.status_code, answer.json()) == (200, {"deleted": "notes", "documents": 1})
    assert len(door.rings) == before + 1
    assert door.client.get("/v1/collections/notes/documents").status_code == 404
    again = door.client.delete("/v1/collections/notes")
    assert (again.status_code, again.json()["code"]) == (404, "unknown_collection")
    assert door.client.put("/v1/collections/notes").json()["documents"]["pending"] == 0


def test_main_is_emptied_and_stays(door: Door) -> None:
    assert door.client.delete("/v1/collections/main").json() == {"deleted": "main", "documents": 0}
    door.upload("main")
    assert door.client.delete("/v1/collections/main").json() == {"deleted": "main", "documents": 1}
    assert door.names() == ["main"]
    assert door.client.get("/v1/collections/main/documents").json()["documents"] == []


def test_another_namespaces_collection_of_the_same_name_stays(door: Door) -> None:
    door.upload("notes")
    door.upload("notes", ACME)
    door.client.delete("/v1/collections/notes")
    assert (door.names(), door.names(ACME)) == (["main"], ["main", "notes"])
    assert len(door.client.get("/v1/collections/notes/documents", headers=ACME).json()["documents"]) == 1


def test_a_namespace_leaves_with_all_of_its_collections_and_no_other(door: Door) -> None:
    for collection in ("main", "notes"):
        door.upload(collection, ACME)
    door.upload("notes")
    listed = door.client.get("/v1/namespaces").json()["namespaces"]
    assert listed == [{"namespace": "acme", "collections": ["main", "notes"]}, {"namespace": "default", "collections": ["notes"]}]
    assert door.client.delete("/v1/namespaces/acme").json() == {"deleted": "acme", "collections": {"main": 1, "notes": 1}}
    assert door.client.get("/v1/namespaces").json()["namespaces"] == listed[1:]
    assert door.client.delete("/v1/namespaces/acme").json()["collections"] == {}


def test_a_collection_too_many_is_refused_with_the_limit_and_one_that_is_there_is_not(door: Door) -> None:
    for number in range(4):
        assert door.client.put(f"/v1/collections/c{number}").status_code == 201
    refused = door.client.put("/v1/collections/c4")
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (429, "collections_full", "60")
    assert door.client.put("/v1/collections/c3").status_code == 200


def test_names_and_origins_are_checked_as_at_every_door(door: Door) -> None:
    assert door.client.put("/v1/collections/%20x").status_code == 400
    assert door.client.delete(f"/v1/namespaces/{'n' * 101}").json()["code"] == "name_rejected"
    foreign = door.client.delete("/v1/collections/main", headers={"Origin": "http://elsewhere.example"})
    assert (foreign.status_code, foreign.json()["code"]) == (403, "foreign_origin")


def test_declared_fields_are_checked_at_every_door_and_the_refusal_names_the_nearest_value(door: Door) -> None:
    place = "/v1/collections/letters/documents/a.md"
    wrong = door.client.put(place, content=b"A letter.", headers={"X-Evercurrent-Metadata": '{"status": "drafty"}'})
    assert (wrong.status_code, wrong.json()["code"], "did you mean 'draft'?" in wrong.json()["detail"]) == (422, "metadata_rejected", True)
    assert door.client.put(place, content=b"A letter.").json()["code"] == "metadata_rejected"
    many = door.client.post("/v1/collections/letters/documents", files=[("file", ("b.md", b"B"))])
    assert many.json()["documents"][0]["code"] == "metadata_rejected"
    assert door.client.put(place, content=b"A letter.", headers={"X-Evercurrent-Metadata": '{"status": "draft"}'}).status_code == 202
    assert door.client.put(place, content=b"A later letter.").status_code == 202
    assert door.client.patch(place, json={"metadata": {"status": "finale"}}).json()["code"] == "metadata_rejected"
    assert door.client.patch(place, json={"metadata": None}).json()["code"] == "metadata_rejected"
    assert door.client.patch(place, json={"metadata": {"status": "final"}}).status_code == 200
    assert door.client.put("/v1/collections/notes/documents/a.md", content=b"Free.").status_code == 202


def test_a_listing_tells_what_is_declared(door: Door) -> None:
    fields = door.client.put("/v1/collections/letters").json()["fields"]
    assert fields["status"] == {"type": "string", "values": ["draft", "final"], "required": True}
    assert [row["fields"]["effective_from"]["type"] for row in door.client.get("/v1/collections").json()["collections"]] == ["date", "date"]
