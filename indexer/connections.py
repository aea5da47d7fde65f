"""HTTP over uvicorn, as every server of ours speaks it (this room's one door to it): where it listens, and a connection's bounds."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

import h11
import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from indexer.openapi import PROBLEM_TYPE
from store.errors import ConfigWrong, PortTaken

log = structlog.get_logger()

BACKLOG = 512
HEAD_BYTES_MAX = 64 * 1024
CONNECTIONS_MAX = 500
"""Half of the files that a process may usually have open."""
REQUEST_SECONDS_MAX = 30.0
"""From a connection, or an answer, to the next request's whole head; what is left of a refused body counts, too."""


def bound(host: str, port: int, table: str) -> socket.socket:
    """A listening socket on the address that the configuration's `table` names; port 0 is any free one. Raises PortTaken, ConfigWrong."""
    if not _is_loopback(host):
        key = f"{table}.host"
        raise ConfigWrong(reason=f"{key}: without API keys a server listens to this machine only; use 127.0.0.1, not {host!r}.", key=key)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio takes TCP_NODELAY from it
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise PortTaken(port=port, host=host, setting=f"{table}.port") from error
    return listening


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def settings_of(app: Any, drain_seconds_max: int) -> uvicorn.Config:
    """How uvicorn serves `app`; at the end what is in hand may take `drain_seconds_max`."""
    return uvicorn.Config(
        app,
        http=BoundedConnection,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=drain_seconds_max,
    )


@contextmanager
def served(app: Any, listening: socket.socket, drain_seconds_max: int) -> Iterator[None]:
    """Serves `app` in a thread for the block; at its end what is in hand finishes."""
    server = uvicorn.Server(settings_of(app, drain_seconds_max))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="intake-http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(drain_seconds_max + 1)


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
