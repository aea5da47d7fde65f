"""The role `indexer`: watches the registered roots, feeds the queue, keeps time, and answers over HTTP until told to stop.

Each part is a thread of its own; the main thread only waits for a signal and then ends them in order: watching first, so that
nothing new is noticed, then feeding, then the door. What was not finished is found again by the next start's comparison.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any

import h11
import structlog
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from indexer.http import IntakeReports, application
from indexer.intake import Intake
from indexer.openapi import PROBLEM_TYPE
from indexer.stopping import Stopping
from store.broker import find_broker
from store.clock import Clock
from store.config import Config, IntakeHttpTable
from store.errors import BrokerMissing, ConfigWrong, PortTaken
from store.folder import DataFolder
from store.ports import Catalog

log = structlog.get_logger()

BACKLOG = 512
HEAD_BYTES_MAX = 64 * 1024
CONNECTIONS_MAX = 500
"""Half of the files that a process may usually have open."""
REQUEST_SECONDS_MAX = 30.0
"""From a connection, or an answer, to the next request's whole head; what is left of a refused body counts, too."""
DRAIN_SECONDS_MAX = 5
LOOK_SECONDS = 2.0
"""How often roots that were registered meanwhile are looked for."""

Mount = Callable[[FastAPI, Catalog], None]
Lags = Callable[[Catalog], Mapping[str, int]]


def serve(folder: DataFolder, config: Config, clock: Clock, ready: Callable[[int], None], mount: Mount, consumer_lags: Lags) -> int:
    """Runs the role; `ready` gets the port once requests are accepted. Returns the exit code.

    `mount` adds to the application what this room does not know of; `consumer_lags` tells commits not applied yet, by consumer.
    Raises PortTaken, ConfigWrong, BrokerMissing, and what opening the catalog raises.
    """
    given = config.store.redis_url
    url = find_broker(folder.path, None if given is None else given.get_secret_value())
    if url is None:
        raise BrokerMissing("No queue server runs for this data folder. Start `evercurrent up`, or set REDIS_URL for all roles.")
    stopping = Stopping()
    with ExitStack() as stack:
        listening = stack.enter_context(bound(config.indexer.http))
        intake = stack.enter_context(Intake(folder, config, url, clock, consumer_lags))
        app = application(intake.catalog, reports_of(intake), intake.uploads, intake.collections)
        mount(app, intake.catalog)
        stack.enter_context(served(app, listening))
        intake.start()
        ready(listening.getsockname()[1])
        while not stopping.wait(LOOK_SECONDS):
            intake.look_for_roots()
        log.info("indexer_draining")
        intake.stop()
    return 0


def reports_of(intake: Intake) -> IntakeReports:
    return IntakeReports(
        unready=intake.unready,
        unsettled=intake.unsettled,
        flush=intake.flush,
        state=intake.state,
        metrics=intake.metrics.exposition,
    )


@contextmanager
def bound(table: IntakeHttpTable) -> Iterator[socket.socket]:
    """A listening socket on the configured address; port 0 is any free one. Raises PortTaken, ConfigWrong."""
    if table.host not in LOOPBACK_HOSTS:
        key = "indexer.http.host"
        raise ConfigWrong(
            reason=f"{key}: without API keys a server listens to this machine only; use 127.0.0.1, not {table.host!r}.", key=key
        )
    family = socket.AF_INET6 if ":" in table.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio takes TCP_NODELAY from it
    with listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((table.host, table.port))
            listening.listen(BACKLOG)
        except OSError as error:
            raise PortTaken(port=table.port, host=table.host, setting="indexer.http.port") from error
        yield listening


LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


@contextmanager
def served(app: Any, listening: socket.socket) -> Iterator[None]:
    """Serves `app` in a thread for the block; at its end what is in hand finishes."""
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
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="intake-http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(DRAIN_SECONDS_MAX + 1)


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
