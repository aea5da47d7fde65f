"""The servers answer at once on a connection that is kept: without TCP_NODELAY every answer waits 40 ms for the peer's delayed ACK."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AbstractContextManager

import pytest

from indexer.serve import bound as intake_bound
from retriever.serve import bound as retriever_bound
from store.config import IntakeHttpTable, RetrieverHttpTable


@pytest.mark.parametrize(
    "bound",
    [lambda: intake_bound(IntakeHttpTable(port=0)), lambda: retriever_bound(RetrieverHttpTable(port=0))],
    ids=["intake", "retriever"],
)
def test_an_accepted_connection_sends_at_once(bound: object) -> None:
    opened: AbstractContextManager[socket.socket] = bound()  # type: ignore[operator]
    with opened as listening:
        assert asyncio.run(_is_undelayed(listening))


async def _is_undelayed(listening: socket.socket) -> bool:
    """Whether asyncio, as uvicorn uses it, turns the delay off for a connection to this socket."""
    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        answered.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0)
        writer.close()

    server = await asyncio.start_server(connected, sock=listening)
    async with server:
        _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
        undelayed = await answered
        writer.close()
    return undelayed
