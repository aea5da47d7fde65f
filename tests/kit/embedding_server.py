"""A small server of the OpenAI embeddings protocol on loopback: counts what it is asked, misbehaves when told to.

In process: `with EmbeddingServer() as server: server.base_url`; set `server.behaviour` fields, or `server.latch`.
In a process of its own: `python -m kit.embedding_server` (tests/ on the path) prints {"port": N, "base_url": ...} and serves until
its standard input closes or it is terminated; POST /behaviour, POST /release, POST /reset, GET /counts steer it from anywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass
class Behaviour:
    """What the server does wrong. Counts go down with each call they spoil; flags stay until they are reset."""

    dimensions: int = 32
    """Of an answer to a request that names none."""
    rate_limited: int = 0
    retry_after: str = "2"
    failing: int = 0
    failing_status: int = 500
    hang: bool = False
    """Calls wait until `release`; `hanging` tells how many do."""
    hang_only: tuple[str, ...] = ()
    """With `hang`: only calls with a text that contains one of these wait (the probe of a start-up goes through)."""
    one_too_few: bool = False
    wrong_dimension: bool = False
    not_finite: tuple[int, ...] = ()
    """Positions in a call whose vector is NaN; (-1,): all of them."""
    zero: tuple[str, ...] = ()
    """Texts that get a vector of zeros."""
    refused: tuple[str, ...] = ()
    """A call with a text that contains one of these is answered 400."""
    reversed: bool = False
    """Answers in reverse order, with their indexes."""
    without_index: bool = False
    without_usage: bool = False
    garbage: bool = False
    """Answers 200 with a page that is no JSON."""
    key: str | None = None
    """Calls without this bearer token are answered 401."""
    model: str | None = None
    """Calls for another model are answered 404."""


@dataclass
class Counts:
    calls: int = 0
    """Requests for embeddings, spoiled ones included."""
    texts: int = 0
    """Texts that were answered with vectors."""
    by_text: Counter[str] = field(default_factory=Counter)
    largest_call: int = 0
    last_authorization: str | None = None
    last_path: str | None = None


def vector_of(text: str, dimensions: int) -> list[float]:
    """The vector this server gives a text: deterministic, not of unit length."""
    stretched = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(2 * dimensions)
    return [(int.from_bytes(stretched[2 * i : 2 * i + 2], "little") - 32_768) / 8_192 for i in range(dimensions)]


class EmbeddingServer:
    """Serves from the moment it is built; `close` (or the end of `with`) releases whoever hangs and stops it."""

    def __init__(self, port: int = 0, **behaviour: Any) -> None:
        self.behaviour = Behaviour(**behaviour)
        self.counts = Counts()
        self.latch = threading.Event()
        """Hanging calls wait for it."""
        self.hanging = 0
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def wait_hanging(self, calls: int = 1, deadline_seconds: float = 20) -> None:
        """Returns when that many calls hang; raises TimeoutError after the deadline."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.hanging >= calls, deadline_seconds):
                raise TimeoutError(f"{self.hanging} of {calls} calls hang")

    def release(self) -> None:
        """Lets the hanging calls go on, and none hang from now on."""
        self.behaviour.hang = False
        self.latch.set()

    def reset(self, **behaviour: Any) -> None:
        """Zero counts, and only the faults given."""
        self.release()
        self.latch = threading.Event()
        self.behaviour = Behaviour(**{"dimensions": self.behaviour.dimensions, **behaviour})
        self.counts = Counts()

    def close(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> EmbeddingServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- called by the handler's threads ---

    def answer(self, asked: dict[str, Any], authorization: str | None, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for one request for embeddings."""
        behaviour = self.behaviour
        texts = [asked["input"]] if isinstance(asked["input"], str) else list(asked["input"])
        with self._changed:
            self.counts.calls += 1
            self.counts.largest_call = max(self.counts.largest_call, len(texts))
            self.counts.last_authorization, self.counts.last_path = authorization, path
            spoiled = self._spoiled(behaviour, texts, asked, authorization)
        if spoiled is not None:
            return spoiled
        if behaviour.hang and (not behaviour.hang_only or any(word in text for word in behaviour.hang_only for text in texts)):
            self._hang()
        with self._changed:
            self.counts.texts += len(texts)
            self.counts.by_text.update(texts)
        if behaviour.garbage:
            return 200, {"Content-Type": "text/html"}, b"<h1>Welcome</h1>"
        return 200, {}, json.dumps(_embeddings(behaviour, texts, asked)).encode()

    def _spoiled(
        self, behaviour: Behaviour, texts: list[str], asked: dict[str, Any], authorization: str | None
    ) -> tuple[int, dict[str, str], bytes] | None:
        if behaviour.key is not None and authorization != f"Bearer {behaviour.key}":
            return 401, {}, _problem(f"Incorrect API key provided: {authorization}", "invalid_api_key")
        if behaviour.model is not None and asked.get("model") != behaviour.model:
            return 404, {}, _problem("no such model", "model_not_found")
        if behaviour.rate_limited:
            behaviour.rate_limited -= 1
            return 429, {"Retry-After": behaviour.retry_after}, _problem("slow down", "rate_limit_exceeded")
        if behaviour.failing:
            behaviour.failing -= 1
            return behaviour.failing_status, {}, _problem("it broke", "server_error")
        if any(word in text for word in behaviour.refused for text in texts):
            return 400, {}, _problem(f"too long: {texts}", "context_length_exceeded")
        return None

    def _hang(self) -> None:
        latch = self.latch
        with self._changed:
            self.hanging += 1
            self._changed.notify_all()
        latch.wait()
        with self._changed:
            self.hanging -= 1
            self._changed.notify_all()


def _embeddings(behaviour: Behaviour, texts: list[str], asked: dict[str, Any]) -> dict[str, Any]:
    dimensions = asked.get("dimensions") or behaviour.dimensions
    items: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        vector = [0.0] * dimensions if text in behaviour.zero else vector_of(text, dimensions)
        if index in behaviour.not_finite or -1 in behaviour.not_finite:
            vector[0] = math.nan
        if behaviour.wrong_dimension:
            vector.append(1.0)
        item: dict[str, Any] = {"object": "embedding", "embedding": vector}
        items.append(item if behaviour.without_index else {**item, "index": index})
    if behaviour.one_too_few:
        items.pop()
    if behaviour.reversed:
        items.reverse()
    tokens = sum(len(text.split()) for text in texts)
    usage = {} if behaviour.without_usage else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return {"object": "list", "model": asked.get("model"), "data": items, **usage}


def _problem(message: str, code: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": code}}).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    owner: EmbeddingServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        owner = self.server.owner
        if self.path == "/counts":
            self._send(200, {}, json.dumps({**vars(owner.counts), "hanging": owner.hanging}).encode())
        else:
            self._send(404, {}, b"{}")

    def do_POST(self) -> None:
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path.endswith("/embeddings"):
            self._send(*owner.answer(body, self.headers.get("Authorization"), self.path))
        elif self.path == "/behaviour":
            for name in {named.name for named in fields(Behaviour)} & body.keys():
                setattr(owner.behaviour, name, tuple(body[name]) if isinstance(body[name], list) else body[name])
            self._send(200, {}, b"{}")
        elif self.path == "/release":
            owner.release()
            self._send(200, {}, b"{}")
        elif self.path == "/reset":
            owner.reset(**body)
            self._send(200, {}, b"{}")
        else:
            self._send(404, {}, b"{}")

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: what was asked is in the counts."""


def main() -> None:
    with EmbeddingServer(port=int(sys.argv[1]) if len(sys.argv) > 1 else 0) as server:
        print(json.dumps({"port": server.port, "base_url": server.base_url}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
