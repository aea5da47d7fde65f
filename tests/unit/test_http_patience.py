"""Clients that are slow, silent or gone: both servers close what sends nothing, and an upload that trickles leaves nothing behind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.commands import wait_until
from kit.live_intake import live_intake

from indexer import connections, requests
from retriever import serve as retriever

HEAD = b"PUT /v1/collections/main/documents/slow.md HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\n"
PATIENCE_SECONDS = 20


async def greet(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def intake_of(app: Any) -> Iterator[int]:
    with connections.bound("127.0.0.1", 0, "indexer.http") as listening, connections.served(app, listening, 5):
        yield listening.getsockname()[1]


@contextmanager
def connected(port: int, sent: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(sent)
        yield connection


def received(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_a_hundred_connections_that_send_nothing_stop_nobody_and_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.BoundedConnection, "request_seconds_max", 0.5)
    with intake_of(greet) as port:
        silent = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) for _ in range(100)]
        with connected(port, b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n") as connection:
            assert received(connection).startswith(b"HTTP/1.1 200")
        with connected(port, b"GET / HTTP/1.1\r\nHo") as half:
            assert received(half) == b""
        for connection in silent:
            assert received(connection) == b""
            connection.close()


def test_connections_beyond_the_limit_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.BoundedConnection, "connections_max", 2)
    with intake_of(greet) as port, connected(port), connected(port), connected(port) as third:
        assert received(third) == b""


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [(b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, b"431", b"head_too_large"), (b"\x16\x03\x01 hello\r\n\r\n", b"400", b"not_http")],
)
def test_what_is_no_request_is_a_problem_like_any_other(sent: bytes, status: bytes, code: bytes) -> None:
    with intake_of(greet) as port, connected(port, sent) as connection:
        head, _, body = received(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert b"application/problem+json" in head
    assert code in body


def test_an_upload_that_stops_is_408_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_IDLE_SECONDS_MAX", 0.2)
    drafts = tmp_path / "blobs" / "drafts"
    with live_intake(tmp_path) as live, intake_of(live.app) as port, connected(port, HEAD + b"half of it") as connection:
        answer = received(connection)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"body_slow" in answer
        wait_until(lambda: not any(drafts.iterdir()), "nothing is left of it")
        assert live.catalog.collections() == []


def test_an_upload_whose_client_is_gone_leaves_nothing(tmp_path: Path) -> None:
    drafts = tmp_path / "blobs" / "drafts"
    with live_intake(tmp_path) as live, intake_of(live.app) as port:
        with connected(port, HEAD + b"half of it"):
            wait_until(lambda: drafts.is_dir() and any(drafts.iterdir()), "the upload has begun")
        wait_until(lambda: not any(drafts.iterdir()), "nothing is left of it")
        assert live.catalog.collections() == []


def test_the_patience_with_a_body_grows_with_what_came() -> None:
    assert requests.body_patience(0, 0) == 30
    assert requests.body_patience(0, 20) == 10
    assert requests.body_patience(1 << 20, 1_000) == 30
    assert requests.body_patience(60 * 1024, 100) < 0


def test_the_retriever_is_as_patient_as_the_intake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.BoundedConnection, "request_seconds_max", 0.3)
    ready = threading.Event()
    with connections.bound("127.0.0.1", 0, "retriever.http") as listening:
        server = retriever.server_of(greet, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        assert ready.wait(PATIENCE_SECONDS)
        with connected(listening.getsockname()[1]) as silent:
            assert received(silent) == b""
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
