from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.testclient import TestClient

from indexer.http import IntakeReports, application
from indexer.metrics import Gauges, IntakeMetrics, added_up, freshness_buckets, quantile
from store.catalog.memory import MemoryCatalog
from store.clock import SimulatedClock
from store.model import (
    Cause,
    CollectionId,
    CollectionName,
    Instant,
    Namespace,
    Present,
    Recipe,
    RecipeId,
    Root,
    RootName,
    SourceKind,
    Space,
    SpaceId,
    Uri,
)
from store.ports import Tally

HOME = CollectionId(Namespace("default"), CollectionName("main"))


def catalog_with(*uris: str) -> MemoryCatalog:
    catalog = MemoryCatalog(SimulatedClock())
    catalog.ensure_collection(HOME, Recipe(RecipeId("r")), Space(SpaceId("s"), "hashing", "m", 4))
    root = catalog.ensure_root(Root(HOME, RootName("main"), SourceKind.FOLDER, "/docs", ""))
    catalog.record([Present(HOME.document(Uri(uri)), root.name, Cause.CREATED, Instant(1.0)) for uri in uris])
    return catalog


def client(catalog: MemoryCatalog | None = None, unready: Sequence[str] = (), unsettled: Sequence[str] = (), **more: Any) -> TestClient:
    reports = IntakeReports(
        unready=lambda: unready,
        unsettled=lambda: unsettled,
        flush=lambda _seconds: None,
        state=lambda: {"unsettled": 0},
        metrics=IntakeMetrics(lambda: more.get("tallies", []), lambda: more.get("gauges", Gauges())).exposition,
    )
    return TestClient(application(catalog or catalog_with(), reports))


def test_health_says_nothing_about_readiness() -> None:
    assert client(unready=["x"]).get("/healthz").json() == {"status": "ok"}


def test_readiness_names_what_is_missing() -> None:
    assert client().get("/readyz").json() == {"status": "ready"}
    answer = client(unready=["the first comparison is not in the ledger yet"]).get("/readyz")
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["the first comparison is not in the ledger yet"])
    assert answer.headers["content-type"] == "application/problem+json"


def test_settle_answers_when_nothing_is_left_and_504_when_time_is_out() -> None:
    assert client().post("/v1/settle?timeout=0").json() == {"settled": True}
    answer = client(unsettled=["3 pending"]).post("/v1/settle?timeout=0.05")
    assert (answer.status_code, answer.json()["code"]) == (504, "not_settled")
    assert "3 pending" in answer.json()["detail"]


def test_a_wrong_timeout_is_422_with_the_place() -> None:
    for timeout in ("nan", "-1", "soon"):
        answer = client().post(f"/v1/settle?timeout={timeout}")
        assert (answer.status_code, answer.json()["code"]) == (422, "request_wrong")


def test_documents_are_listed_page_by_page() -> None:
    door = client(catalog_with("a.md", "b.md", "c.md"))
    first = door.get("/v1/collections/main/documents?limit=2").json()
    assert [row["document"] for row in first["documents"]] == ["a.md", "b.md"]
    second = door.get("/v1/collections/main/documents", params={"limit": 2, "cursor": first["cursor"]}).json()
    assert ([row["document"] for row in second["documents"]], second["cursor"]) == (["c.md"], None)


def test_documents_are_listed_by_state() -> None:
    door = client(catalog_with("a.md"))
    assert len(door.get("/v1/collections/main/documents?state=pending").json()["documents"]) == 1
    assert door.get("/v1/collections/main/documents?state=indexed").json()["documents"] == []
    assert door.get("/v1/collections/main/documents?state=lost").status_code == 422


def test_a_document_is_found_by_its_encoded_uri() -> None:
    door = client(catalog_with("guide/a b.md"))
    assert door.get("/v1/collections/main/documents/guide%2Fa%20b.md").json()["state"] == "pending"
    answer = door.get("/v1/collections/main/documents/none.md")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_document")


def test_main_is_empty_before_it_is_made_and_another_collection_unknown() -> None:
    door = client(MemoryCatalog(SimulatedClock()))
    assert door.get("/v1/collections/main/documents").json() == {"documents": [], "cursor": None}
    assert door.get("/v1/collections/notes/documents").status_code == 404


def test_another_namespace_sees_none_of_them() -> None:
    door = client(catalog_with("a.md"))
    answer = door.get("/v1/collections/main/documents/a.md", headers={"X-Evercurrent-Namespace": "other"})
    assert answer.status_code == 404


def test_counters_and_histograms_of_the_catalog_are_exposed() -> None:
    tallies = [
        Tally("evercurrent_embedded_texts_total", (), 7),
        Tally("evercurrent_freshness_seconds_bucket", (("le", "0.1"),), 2),
        Tally("evercurrent_freshness_seconds_bucket", (("le", "+Inf"),), 1),
        Tally("evercurrent_freshness_seconds_sum", (), 9.5),
    ]
    lines = client(tallies=tallies, gauges=Gauges(pending_documents=3, queue_jobs={"queued": 2})).get("/metrics").text.splitlines()
    for line in (
        "evercurrent_embedded_texts_total 7.0",
        'evercurrent_freshness_seconds_bucket{le="0.1"} 2.0',
        'evercurrent_freshness_seconds_bucket{le="+Inf"} 3.0',
        "evercurrent_freshness_seconds_sum 9.5",
        "evercurrent_pending_documents 3.0",
        'evercurrent_queue_jobs{state="queued"} 2.0',
    ):
        assert line in lines


def test_buckets_are_added_up_and_quantiles_are_their_bounds() -> None:
    assert added_up({0.1: 2.0, 1.0: 3.0}) == [("0.1", 2.0), ("1", 5.0), ("+Inf", 5.0)]
    assert quantile({0.1: 9.0, 1.0: 1.0}, 0.5) == 0.1
    assert quantile({0.1: 9.0, 1.0: 1.0}, 0.95) == 1.0
    assert quantile({1.0: 1.0, float("inf"): 9.0}, 0.95) == 1.0
    assert quantile({}, 0.5) is None
    assert freshness_buckets([Tally("evercurrent_freshness_seconds_bucket", (("le", "+Inf"),), 4)]) == {float("inf"): 4.0}
