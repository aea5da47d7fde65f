"""The retriever's HTTP door: problems with codes, limits, headers, and a loop that no search stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from kit.retrieving import OPEN_LIMITS, Desk, Library, searching

from indexer.embedding.hashing import HashingEmbedder
from retriever.http import BODY_BYTES_MAX, Readiness, Reports, SearchPool, application
from retriever.metrics import RetrieverMetrics
from store.catalog.memory import MemoryCatalog
from store.clock import SystemClock
from store.errors import EmbedderUnavailable
from store.model import CollectionId, CollectionName, Namespace
from store.ports import Catalog

SEARCH = "/v1/collections/main/search"
RIVAL = CollectionId(Namespace("rival"), CollectionName("main"))


class SwitchedEmbedder(HashingEmbedder):
    """Down, broken, or waiting at a latch, when a test says so."""

    down = False
    broken = False
    latch: threading.Event | None = None
    arrived = threading.Event()

    def embed_query(self, text: str) -> bytes:
        cls = type(self)
        if cls.down:
            raise EmbedderUnavailable(provider="hashing", reason="it is switched off")
        if cls.broken:
            raise RuntimeError("a secret detail")
        if cls.latch is not None:
            cls.arrived.set()
            assert cls.latch.wait(10)
        return super().embed_query(text)


@dataclass
class Door:
    app: Any
    shelf: Library
    desk: Desk
    reasons: list[str]
    asleep: threading.Event
    """Set once a search waits for a version."""

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self.sent(method, path, **options))

    async def sent(self, method: str, path: str, **options: Any) -> httpx.Response:
        async with self.client() as client:
            return await client.request(method, path, **options)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app, raise_app_exceptions=False), base_url="http://retriever")


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    opened = MemoryCatalog(SystemClock())
    yield opened
    opened.close()


@pytest.fixture
def door(catalog: Catalog, tmp_path: Path) -> Iterator[Door]:
    library, reasons = Library(catalog), list[str]()
    library.put("tides.md", "The tide turns at noon.")
    SwitchedEmbedder.down, SwitchedEmbedder.broken = False, False
    SwitchedEmbedder.latch, SwitchedEmbedder.arrived = None, threading.Event()
    pool = SearchPool(threads=1, waiting_max=1)
    asleep, pause = threading.Event(), threading.Event()

    def wait(seconds: float) -> None:
        asleep.set()
        pause.wait(seconds)

    with searching(catalog, tmp_path / "keywords", embedder=SwitchedEmbedder, limits=OPEN_LIMITS, wait=wait) as desk:
        reports = Reports(lambda: Readiness(tuple(reasons)), lambda: {"replica": 3})
        app = application(desk.searcher, RetrieverMetrics("1.2.3"), reports, SystemClock(), pool)
        yield Door(app, library, desk, reasons, asleep)
        pool.close()


def problem(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["detail"]
    return answer.status_code, body["code"]


def test_a_search_is_answered_as_json(door: Door) -> None:
    answer = door.send("POST", SEARCH, json={"query": "tide"})
    assert answer.status_code == 200
    body = answer.json()
    assert [hit["document"] for hit in body["hits"]] == ["tides.md"]
    assert body["snapshot"] == door.shelf.catalog.position().seq


def test_a_wrong_request_is_told_the_place(door: Door) -> None:
    for body, place in [
        ({"query": "tide", "k": 0}, "k"),
        ({"query": "tide", "filter": {"a": {"$im": [1]}}}, "filter.a.$im"),
        ({"vector": [1.0, 2.0]}, "vector"),
        ({"query": "tide", "mmr": {"fetch_k": 2}, "k": 3}, "mmr.fetch_k"),
    ]:
        answer = door.send("POST", SEARCH, json=body)
        assert problem(answer) == (422, "query_rejected")
        assert answer.json()["place"] == place


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 200_000])
def test_a_body_that_is_no_json_object_is_refused(door: Door, content: bytes) -> None:
    assert problem(door.send("POST", SEARCH, content=content)) == (400, "body_rejected")


def test_a_body_above_the_limit_is_refused(door: Door) -> None:
    assert problem(door.send("POST", SEARCH, content=b" " * (BODY_BYTES_MAX + 1))) == (413, "body_too_large")


def test_a_body_that_stops_is_408(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.http.BODY_SECONDS_MAX", 0.1)

    async def stops() -> AsyncIterator[bytes]:
        yield b'{"query": '
        await asyncio.Event().wait()

    assert problem(door.send("POST", SEARCH, content=stops())) == (408, "body_slow")


def test_an_unknown_collection_or_path_is_404(door: Door) -> None:
    assert problem(door.send("POST", "/v1/collections/nowhere/search", json={"query": "tide"})) == (404, "unknown_collection")
    assert problem(door.send("POST", "/v1/collections/nowhere/chunks", json={"ids": []})) == (404, "unknown_collection")
    assert problem(door.send("GET", "/v2")) == (404, "no_such_path")
    assert problem(door.send("GET", SEARCH)) == (405, "no_such_method")


def test_the_main_collection_is_empty_and_not_unknown_before_its_first_document(door: Door) -> None:
    headers = {"X-Evercurrent-Namespace": "newcomer"}
    answer = door.send("POST", SEARCH, json={"query": "tide"}, headers=headers)
    assert (answer.status_code, answer.json()["hits"], answer.json()["complete"]) == (200, [], True)
    assert answer.json()["snapshot"] == door.shelf.catalog.position().seq
    chunks = door.send("POST", "/v1/collections/main/chunks", json={"ids": ["00" * 16]}, headers=headers)
    assert (chunks.status_code, chunks.json()) == (200, {"chunks": []})


def test_an_unknown_collection_is_404_at_once_whatever_version_is_waited_for(door: Door) -> None:
    body = {"query": "tide", "min_version": {"tides.md": 1}}
    assert problem(door.send("POST", "/v1/collections/nowhere/search", json=body)) == (404, "unknown_collection")


@pytest.mark.parametrize(
    "body",
    [
        b'{"query": "tide", "\\ud800": 1}',
        b'{"query": "tide", "filter": {"a": {"$\\ud800": 1}}}',
        b'{"query": "tide", "min_version": {"\\ud800": 1}}',
        b'{"query": "tide", "min_version": {"../a.md": 1}}',
    ],
)
def test_a_name_that_no_document_or_key_can_have_is_refused_with_the_place(door: Door, body: bytes) -> None:
    assert problem(door.send("POST", SEARCH, content=body)) == (422, "query_rejected")


def test_an_embedder_that_is_down_is_503_in_dense_and_degrades_hybrid(door: Door) -> None:
    SwitchedEmbedder.down = True
    assert problem(door.send("POST", SEARCH, json={"query": "tide", "mode": "dense"})) == (503, "embedder_unavailable")
    answer = door.send("POST", SEARCH, json={"query": "tide"})
    assert (answer.status_code, answer.json()["degraded"], len(answer.json()["hits"])) == (200, ["dense"], 1)


def test_a_fault_of_ours_is_a_problem_without_its_details(door: Door) -> None:
    SwitchedEmbedder.broken = True
    answer = door.send("POST", SEARCH, json={"query": "tide"})
    assert problem(answer) == (500, "internal")
    assert "secret" not in answer.text
    SwitchedEmbedder.broken = False
    assert door.send("POST", SEARCH, json={"query": "tide"}).status_code == 200


def test_the_namespace_header_chooses_whose_documents_are_searched(door: Door) -> None:
    Library(door.shelf.catalog, RIVAL).put("theirs.md", "The tide of theirs.")
    headers = {"X-Evercurrent-Namespace": "rival"}
    assert [hit["document"] for hit in door.send("POST", SEARCH, json={"query": "tide"}, headers=headers).json()["hits"]] == ["theirs.md"]
    theirs = door.desk.ask("tide", home=RIVAL).hits[0].chunk.chunk_id.hex()
    asked = {"ids": [theirs]}
    assert door.send("POST", "/v1/collections/main/chunks", json=asked).json() == {"chunks": []}
    assert len(door.send("POST", "/v1/collections/main/chunks", json=asked, headers=headers).json()["chunks"]) == 1


def test_chunk_ids_are_checked(door: Door) -> None:
    answer = door.send("POST", "/v1/collections/main/chunks", json={"ids": ["00" * 16, "no id"]})
    assert problem(answer) == (422, "query_rejected")
    assert answer.json()["place"] == "ids[1]"


def test_health_is_answered_while_searches_wait_and_one_too_many_is_429(door: Door) -> None:
    SwitchedEmbedder.latch = threading.Event()

    async def crowd() -> tuple[int, httpx.Response, list[int]]:
        async with door.client() as client:
            waiting = [asyncio.create_task(client.post(SEARCH, json={"query": "tide"})) for _ in range(2)]
            await asyncio.to_thread(SwitchedEmbedder.arrived.wait, 10)
            health = await client.get("/healthz")
            refused = await client.post(SEARCH, json={"query": "tide"})
            assert SwitchedEmbedder.latch is not None
            SwitchedEmbedder.latch.set()
            return health.status_code, refused, [answer.status_code for answer in await asyncio.gather(*waiting)]

    health, refused, served = asyncio.run(crowd())
    assert (health, served) == (200, [200, 200])
    assert problem(refused) == (429, "overloaded")
    assert refused.headers["retry-after"] == "1"
    assert door.send("POST", SEARCH, json={"query": "tide"}).status_code == 200


def test_a_search_that_waits_for_a_version_keeps_no_other_from_its_answer(door: Door) -> None:
    status = door.shelf.catalog.status_of(CollectionId(Namespace("default"), CollectionName("main")).document("tides.md"))
    assert status is not None
    awaited = {"query": "tide", "min_version": {"tides.md": status.indexed_version + 1}}

    async def ask() -> tuple[int, bool, httpx.Response]:
        async with door.client() as client:
            waiting = asyncio.create_task(client.post(SEARCH, json=awaited))
            assert await asyncio.to_thread(door.asleep.wait, 10)
            other = await client.post(SEARCH, json={"query": "tide"})
            still_waits = not waiting.done()
            door.shelf.put("tides.md", "The tide turns at six.")
            return other.status_code, still_waits, await waiting

    other, still_waits, answer = asyncio.run(ask())
    assert (other, still_waits, answer.status_code) == (200, True, 200)
    assert answer.json()["hits"][0]["text"] == "The tide turns at six."


def test_readiness_names_what_is_missing(door: Door) -> None:
    assert door.send("GET", "/readyz").json() == {"status": "ready"}
    door.reasons.append("collection main is not loaded yet")
    answer = door.send("GET", "/readyz")
    assert problem(answer) == (503, "not_ready")
    assert answer.json()["reasons"] == ["collection main is not loaded yet"]


def test_metrics_count_searches_by_mode_and_outcome(door: Door) -> None:
    for body in [{"query": "tide"}, {"query": "zebra", "mode": "keyword"}, {"query": "tide", "min_score": 2}, {"query": "tide", "k": 0}]:
        door.send("POST", SEARCH, json=body)
    SwitchedEmbedder.down = True
    door.send("POST", SEARCH, json={"query": "tide"})
    door.send("POST", SEARCH, json={"query": "tide", "mode": "dense"})
    lines = door.send("GET", "/metrics").text.splitlines()
    for labels in [
        'mode="hybrid",outcome="ok"',
        'mode="keyword",outcome="empty"',
        'mode="hybrid",outcome="below_threshold"',
        'mode="hybrid",outcome="degraded"',
        'mode="dense",outcome="unavailable"',
        'mode="unparsed",outcome="rejected"',
    ]:
        assert f"evercurrent_search_total{{{labels}}} 1.0" in lines
    assert 'evercurrent_search_seconds_count{mode="hybrid"} 3.0' in lines
    assert 'evercurrent_consumer_lag{consumer="replica"} 3.0' in lines
    assert 'evercurrent_build_info{role="retriever",version="1.2.3"} 1.0' in lines
