"""The role `retriever`: one process that follows the catalog and answers over HTTP until it is told to stop.

The port is bound before anything is loaded or reported; SIGTERM lets the answers in hand go out, then ends. Beside the
server one thread follows the change log and tells the beat. Documents are never written here.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import h11
import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from retriever.http import Readiness, Reports, SearchPool, application
from retriever.metrics import RetrieverMetrics
from retriever.openapi import PROBLEM_TYPE
from retriever.premises import RetrieverBeat
from retriever.wiring import Parts, opened_parts
from store.config import Config, RetrieverHttpTable
from store.errors import ConfigWrong, EvercurrentError, PortTaken
from store.model import CollectionId, Position, Seq

log = structlog.get_logger()

ROLE = "retriever"
POLL_SECONDS = 0.05
"""How often the change log is looked at when no bell rings."""
BEAT_SECONDS = 0.1
"""A beat that only moved on is told at most this often."""
DRAIN_SECONDS_MAX = 10
BACKLOG = 512
HEAD_BYTES_MAX = 64 * 1024
CONNECTIONS_MAX = 500
"""Half of the files that a process may usually have open."""
REQUEST_SECONDS_MAX = 30.0
"""From a connection, or an answer, to the next request's whole head; what is left of a refused body counts, too."""


def serve(data: Path, config: Config, ready: Callable[[dict[str, Any]], None]) -> int:
    """Runs the role; `ready` is called once, with role, pid, port and url, when requests are accepted. Returns the exit code.

    Raises PortTaken, ConfigWrong, and what opening the catalog raises.
    """
    with bound(config.retriever.http) as listening, opened_parts(data, config) as parts:
        following, pool = Following(parts, listening.getsockname()[1]), SearchPool()
        following.start()
        try:
            run_server(_application(parts, following, pool), listening, lambda port: ready(_told(config, port)))
        finally:
            pool.close()
            following.stop()
    return 0


def bound(table: RetrieverHttpTable) -> socket.socket:
    """A listening socket on the configured address; port 0 is any free one. Raises PortTaken, ConfigWrong."""
    if not _is_loopback(table.host):
        key = "retriever.http.host"
        raise ConfigWrong(
            reason=f"{key}: without API keys a server listens to this machine only; use 127.0.0.1, not {table.host!r}.", key=key
        )
    family = socket.AF_INET6 if ":" in table.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio takes TCP_NODELAY from it
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((table.host, table.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise PortTaken(port=table.port, host=table.host, setting="retriever.http.port") from error
    return listening


def run_server(app: Any, listening: socket.socket, started: Callable[[int], None]) -> None:
    """Serves `app` until SIGTERM or SIGINT, then lets what is in hand finish. For the main thread."""
    server = server_of(app, lambda: started(listening.getsockname()[1]))
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def server_of(app: Any, started: Callable[[], None]) -> uvicorn.Server:
    settings = uvicorn.Config(
        app,
        http=BoundedConnection,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS_MAX,
    )
    return _ReportingServer(settings, started)


class _ReportingServer(uvicorn.Server):
    """Says when it accepts requests. (Uvicorn raises a caught signal again at its end: the handlers set around it swallow that.)"""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()


class Following:
    """The thread that keeps the replicas at the head and tells the beat, and what it knows of how far they are."""

    def __init__(self, parts: Parts, port: int) -> None:
        self._parts = parts
        self._port = port
        self._head_at_start = parts.catalog.position()
        self._known_at_start = frozenset(collection.home for collection in parts.catalog.collections())
        self._stopping = threading.Event()
        self._listener = parts.listener()
        self._thread = threading.Thread(target=self._follow, name="follow")
        self._beat_at = -BEAT_SECONDS

    def start(self) -> None:
        self._tell()
        self._parts.replicas.load_known()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._listener.close()
        self._thread.join()

    def readiness(self) -> Readiness:
        """Ready once every collection known at the start has reached what was the head then, or is gone."""
        if self._thread.ident is not None and not self._thread.is_alive():
            return Readiness(("the thread that follows the catalog has ended; restart the retriever",))
        positions = self._parts.replicas.positions()
        late = [home for home in sorted(self._known_at_start) if not _reached(positions.get(home), self._head_at_start)]
        late = [home for home in late if self._parts.catalog.collection(home) is not None]
        return Readiness(tuple(_lateness(home, positions.get(home), self._head_at_start) for home in late))

    def lags(self) -> Mapping[str, int]:
        head = self._parts.catalog.position()
        return {"replica": head.seq - self._applied(head).seq}

    def _follow(self) -> None:
        self._attempt(self._warm)
        while not self._stopping.is_set():
            self._attempt(self.follow_once)
            self._listener.wait(POLL_SECONDS)

    def _warm(self) -> None:
        for collection in self._parts.catalog.collections():
            self._parts.embedders.warm(collection.served.space)

    def follow_once(self) -> None:
        """Brings every replica in use to the head and tells the beat."""
        self._parts.replicas.advance_loaded()
        self._tell()

    def _attempt(self, step: Callable[[], None]) -> None:
        """What fails is logged and tried again at the next look; a query that needs it is told by itself."""
        try:
            step()
        except EvercurrentError as error:
            log.warning("following_interrupted", code=error.code, reason=error.message)

    def _tell(self) -> None:
        now = self._parts.clock.monotonic()
        if now < self._beat_at + BEAT_SECONDS:
            return
        applied = self._applied(self._parts.catalog.position())
        if self._parts.premises.beat(RetrieverBeat(ROLE, os.getpid(), self._port, applied.incarnation, applied.seq)):
            self._beat_at = now

    def _applied(self, head: Position) -> Position:
        """The position that every replica in use has reached; the head when none is in use."""
        return min((_floor(position, head) for position in self._parts.replicas.positions().values()), default=head)


def _application(parts: Parts, following: Following, pool: SearchPool) -> Any:
    metrics = RetrieverMetrics(version("evercurrent"))
    return application(parts.searcher, metrics, Reports(following.readiness, following.lags), parts.clock, pool)


def _told(config: Config, port: int) -> dict[str, Any]:
    host = config.retriever.http.host
    return {"role": ROLE, "pid": os.getpid(), "port": port, "url": f"http://{f'[{host}]' if ':' in host else host}:{port}"}


def _floor(position: Position | None, head: Position) -> Position:
    """A replica that is not loaded, or of another incarnation, has applied nothing."""
    return position if position is not None and position.incarnation == head.incarnation else Position(head.incarnation, Seq(0))


def _reached(position: Position | None, head: Position) -> bool:
    return position is not None and (position.incarnation != head.incarnation or position.seq >= head.seq)


def _lateness(home: CollectionId, position: Position | None, head: Position) -> str:
    at = "not loaded yet" if position is None else f"at {position.seq}"
    return f"collection {home.collection} of namespace {home.namespace} is {at}; the head at the start was {head.seq}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class BoundedConnection(H11Protocol):
    """A connection with patience that ends: uvicorn by itself waits for ever for a first byte, and for what follows an answer."""

    connections_max = CONNECTIONS_MAX
    request_seconds_max = REQUEST_SECONDS_MAX
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            log.warning("connection_refused", open=len(self.connections) - 1, connections_max=self.connections_max)
            transport.close()
            return
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or too long a head, is told as every other problem is."""
        is_long = len(self.conn.trailing_data[0]) >= HEAD_BYTES_MAX
        status, code = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large") if is_long else (HTTPStatus.BAD_REQUEST, "not_http")
        detail = f"The request's head is longer than {HEAD_BYTES_MAX} bytes." if is_long else msg
        words = {"type": "about:blank", "title": status.phrase, "status": status.value, "code": code, "detail": detail}
        headers = [("Content-Type", PROBLEM_TYPE), ("Connection", "close")]
        answer = h11.Response(status_code=status.value, headers=headers, reason=status.phrase.encode())
        for event in (answer, h11.Data(data=json.dumps(words).encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _await_request(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(self.request_seconds_max, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            log.info("connection_idle_closed", seconds=self.request_seconds_max)
            self.transport.close()
