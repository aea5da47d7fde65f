"""The role `retriever`: one process that follows the catalog and answers over HTTP until it is told to stop.

The port is bound before anything is loaded or reported; SIGTERM lets the answers in hand go out, then ends. Beside the
server one thread follows the change log and tells the beat. Documents are never written here.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from indexer.connections import bound, settings_of
from retriever.http import Readiness, Reports, SearchPool, application
from retriever.metrics import RetrieverMetrics
from retriever.premises import RetrieverBeat
from retriever.wiring import Parts, opened_parts
from store.config import Config
from store.errors import EvercurrentError
from store.model import CollectionId, Position, Seq

log = structlog.get_logger()

ROLE = "retriever"
POLL_SECONDS = 0.05
"""How often the change log is looked at when no bell rings."""
BEAT_SECONDS = 0.1
"""A beat that only moved on is told at most this often."""
DRAIN_SECONDS_MAX = 10


def serve(data: Path, config: Config, ready: Callable[[dict[str, Any]], None]) -> int:
    """Runs the role; `ready` is called once, with role, pid, port and url, when requests are accepted. Returns the exit code.

    Raises PortTaken, ConfigWrong, and what opening the catalog raises.
    """
    http = config.retriever.http
    with bound(http.host, http.port, "retriever.http") as listening, opened_parts(data, config) as parts:
        following, pool = Following(parts, listening.getsockname()[1]), SearchPool()
        following.start()
        try:
            run_server(_application(parts, following, pool), listening, lambda port: ready(_told(config, port)))
        finally:
            pool.close()
            following.stop()
    return 0


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
    return _ReportingServer(settings_of(app, DRAIN_SECONDS_MAX), started)


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
