"""The client says what it was told, to the server it means, past proxies; and tells a server's problems as errors of their kind."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from evercurrent.client import (
    AsyncClient,
    Client,
    File,
    NotThere,
    OwnedElsewhere,
    Problem,
    Refused,
    RequestRefused,
    Servers,
    ServerSilent,
    TooLarge,
    TryLater,
    TypeRefused,
    Uploaded,
    servers_of,
)
from evercurrent.client_calls import BYTES_A_REQUEST_MAX, FILES_A_REQUEST_MAX, batches
from store.errors import Misuse, Transient, UriRejected


class Recorded:
    """A server that notes what it is asked and answers what it is told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, Any, dict[str, str]]] = []
        self.url = ""

    @property
    def servers(self) -> Servers:
        return Servers(self.url, self.url, namespace="Ümlaut", collection="a b", principals=("user:a", "group:ö"), api_key="k")

    def will_answer(self, status: int, words: Any, **headers: str) -> None:
        self.answers.append((status, words, headers))


@contextmanager
def served() -> Iterator[Recorded]:
    recorded = Recorded()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value.encode("latin-1").decode() for name, value in self.headers.items()}
            recorded.asked.append((self.command, self.path, headers, body))
            status, words, more = recorded.answers.pop(0)
            payload = words if isinstance(words, bytes) else json.dumps(words).encode()
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            """A test's server says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    recorded.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield recorded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    with served() as server:
        yield server


def test_an_upload_says_whose_it_is_and_what_it_is(recorded: Recorded) -> None:
    recorded.will_answer(202, {"document": "x", "version": 3})
    recorded.will_answer(200, {"document": "x", "version": 3})
    with Client(recorded.servers) as client:
        put = client.put("guide/100% ä?.md", "téxt", metadata={"a": "ü"}, acl=["user:ö"], content_type="text/markdown")
        assert put == Uploaded("x", 3, is_served=False)
        assert client.put("x", b"", wait=5).is_served
    method, path, headers, body = recorded.asked[0]
    assert (method, path) == ("PUT", "/v1/collections/a%20b/documents/guide/100%25%20%C3%A4%3F.md")
    assert (body, headers["content-type"], headers["x-evercurrent-metadata"]) == ("téxt".encode(), "text/markdown", '{"a": "\\u00fc"}')
    assert (headers["x-evercurrent-namespace"], headers["x-evercurrent-principals"]) == ("Ümlaut", "user:a,group:ö")
    assert (headers["authorization"], json.loads(headers["x-evercurrent-acl"])) == ("Bearer k", ["user:ö"])
    assert recorded.asked[1][1].endswith("/x?wait=5")


def test_a_uri_that_is_none_is_never_sent(recorded: Recorded) -> None:
    with Client(recorded.servers) as client:
        for call in (lambda uri: client.put(uri, b""), client.delete, client.get, lambda uri: client.put_many([(uri, b"")])):
            with pytest.raises(UriRejected):
                call("a/../b.md")
    assert recorded.asked == []


def test_a_patch_speaks_only_of_what_it_is_given(recorded: Recorded) -> None:
    for _ in range(4):
        recorded.will_answer(200, {"document": "a.md", "version": 7})
    with Client(recorded.servers) as client:
        assert client.patch("a.md", metadata={"a": None}) == 7
        client.patch("a.md", metadata=None)
        client.patch("a.md", acl=("*",))
        client.patch("a.md", acl=None)
    assert [json.loads(body) for *_, body in recorded.asked] == [
        {"metadata": {"a": None}},
        {"metadata": None},
        {"acl": ["*"]},
        {"acl": None},
    ]


@pytest.mark.parametrize(
    ("status", "kind", "branch"),
    [
        (400, RequestRefused, Misuse),
        (404, NotThere, Misuse),
        (409, OwnedElsewhere, Misuse),
        (413, TooLarge, Misuse),
        (415, TypeRefused, Misuse),
        (422, RequestRefused, Misuse),
        (429, TryLater, Transient),
        (503, TryLater, Transient),
        (504, TryLater, Transient),
        (500, Problem, Problem),
    ],
)
def test_a_problem_is_an_error_of_its_kind(recorded: Recorded, status: int, kind: type[Problem], branch: type[Exception]) -> None:
    recorded.will_answer(status, {"code": "some_code", "detail": "A sentence.", "place": "k"}, Retry_After="7")
    with Client(recorded.servers) as client, pytest.raises(kind) as caught:
        client.get("a.md")
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, branch)
    assert (error.code, error.status, error.message) == ("some_code", status, "A sentence.")
    assert not isinstance(error, TryLater) or error.retry_after_seconds == 7


def test_an_answer_that_is_no_json_is_a_problem_too(recorded: Recorded) -> None:
    recorded.will_answer(502, b"<html>")
    with Client(recorded.servers) as client, pytest.raises(Problem, match="502"):
        client.get("a.md")


def test_a_server_that_is_not_there_is_silent() -> None:
    with served() as gone:
        url = gone.url
    with Client(Servers(url, url)) as client, pytest.raises(ServerSilent):
        client.get("a.md")


def test_no_server_runs_on_a_folder_without_up(tmp_path: Path) -> None:
    with pytest.raises(ServerSilent):
        servers_of(tmp_path)


def test_documents_are_read_page_by_page(recorded: Recorded) -> None:
    recorded.will_answer(200, {"documents": [{"document": "a"}], "cursor": "a"})
    recorded.will_answer(200, {"documents": [{"document": "b"}], "cursor": None})
    with Client(recorded.servers) as client:
        assert [row["document"] for row in client.documents("indexed")] == ["a", "b"]
    assert [path.rpartition("?")[2] for _, path, *_ in recorded.asked] == ["state=indexed&limit=1000", "state=indexed&cursor=a&limit=1000"]


def test_many_files_go_some_a_request_and_each_has_its_outcome(recorded: Recorded, tmp_path: Path) -> None:
    (tmp_path / "b.md").write_bytes(b"from a file")
    recorded.will_answer(
        202,
        {"documents": [{"document": "a.md", "version": 1, "status": 202}, {"document": "b.md", "status": 415, "code": "c", "detail": "d"}]},
    )
    recorded.will_answer(422, {"documents": [{"document": "c.md", "status": 409, "code": "owned_by_source", "detail": "d"}]})
    with Client(recorded.servers) as client:
        first = client.put_many([("a.md", "one"), File("b.md", tmp_path / "b.md", {"k": 1}, ["*"])])
        (second,) = client.put_many([("c.md", "x")])
    assert first[0] == Uploaded("a.md", 1, is_served=False)
    assert isinstance(first[1], Refused)
    assert isinstance(first[1].problem, TypeRefused)
    assert isinstance(second, Refused)
    assert isinstance(second.problem, OwnedElsewhere)
    body = recorded.asked[0][3]
    assert b'filename="a.md"' in body
    assert b"from a file" in body
    assert b'X-Evercurrent-Metadata: {"k": 1}' in body


def test_a_batch_is_neither_too_many_nor_too_large() -> None:
    many = [len(batch) for batch in batches((f"{number}.md", b"x") for number in range(FILES_A_REQUEST_MAX + 1))]
    assert many == [FILES_A_REQUEST_MAX, 1]
    large = bytes(BYTES_A_REQUEST_MAX // 2 + 1)
    assert [len(batch) for batch in batches([("a", large), ("b", large), ("c", b"x")])] == [1, 2]


def test_searches_send_what_was_given(recorded: Recorded) -> None:
    recorded.will_answer(200, {"hits": []})
    recorded.will_answer(200, {"hits": []})
    recorded.will_answer(200, {"chunks": [{"chunk_id": "00"}]})
    with Client(recorded.servers) as client:
        client.search("heron", 3, mode="keyword", filter={"a": 1}, min_score=0.5)
        client.search([0.5, 1.0])
        assert client.chunks(["00"]) == [{"chunk_id": "00"}]
    asked = [json.loads(body) for *_, body in recorded.asked]
    assert asked[0] == {"query": "heron", "k": 3, "mode": "keyword", "filter": {"a": 1}, "min_score": 0.5}
    assert (asked[1], asked[2]) == ({"vector": [0.5, 1.0], "k": 10, "mode": "hybrid"}, {"ids": ["00"]})


def test_the_awaited_client_says_the_same(recorded: Recorded) -> None:
    answers: list[tuple[int, Any]] = [
        (202, {"document": "a.md", "version": 1}),
        (202, {"documents": [{"document": "b.md", "version": 2, "status": 202}]}),
        (200, {"document": "a.md", "version": 1}),
        (200, {"document": "a.md", "state": "indexed"}),
        (200, b"raw"),
        (200, {"documents": [{"document": "a.md"}], "cursor": None}),
        (200, {"settled": True}),
        (200, {"hits": []}),
        (200, {"chunks": []}),
        (200, {"document": "a.md", "version": 3}),
        (404, {"code": "unknown_document", "detail": "d"}),
    ]

    def all_of(client: Client) -> None:
        client.put("a.md", "x", metadata={"a": 1})
        client.put_many([("b.md", "y")])
        client.patch("a.md", metadata={"b": 1})
        client.get("a.md")
        assert client.original("a.md") == b"raw"
        assert [row["document"] for row in client.documents()] == ["a.md"]
        client.settle(1)
        client.search("x")
        client.chunks([])
        assert client.delete("a.md") == 3
        with pytest.raises(NotThere):
            client.get("a.md")

    async def all_awaited(client: AsyncClient) -> None:
        async with client:
            await client.put("a.md", "x", metadata={"a": 1})
            await client.put_many([("b.md", "y")])
            await client.patch("a.md", metadata={"b": 1})
            await client.get("a.md")
            assert await client.original("a.md") == b"raw"
            assert [row["document"] async for row in client.documents()] == ["a.md"]
            await client.settle(1)
            await client.search("x")
            await client.chunks([])
            assert await client.delete("a.md") == 3
            with pytest.raises(NotThere):
                await client.get("a.md")

    for _ in range(2):
        for status, words in answers:
            recorded.will_answer(status, words)
    with Client(recorded.servers) as client:
        all_of(client)
    asyncio.run(all_awaited(AsyncClient(recorded.servers)))
    half = len(answers)
    assert [row[:2] for row in recorded.asked[:half]] == [row[:2] for row in recorded.asked[half:]]


def test_a_server_elsewhere_is_asked_through_the_proxy_and_one_here_is_not(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", recorded.url)
    recorded.will_answer(200, {"document": "a.md"})
    elsewhere = "http://docs.example.test:8100"
    with Client(Servers(elsewhere, elsewhere)) as client:
        client.get("a.md")
    assert recorded.asked[0][1] == f"{elsewhere}/v1/collections/main/documents/a.md"
    recorded.will_answer(202, {"document": "b.md", "version": 1})

    async def put() -> None:
        async with AsyncClient(Servers(elsewhere, elsewhere)) as client:
            await client.put("b.md", "a heron")

    asyncio.run(put())
    assert recorded.asked[1][:2] == ("PUT", f"{elsewhere}/v1/collections/main/documents/b.md")
    with served() as here, Client(here.servers) as client:
        here.will_answer(200, {"document": "a.md"})
        client.get("a.md")
        assert len(here.asked) == 1
    assert len(recorded.asked) == 2
