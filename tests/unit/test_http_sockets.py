"""The servers answer at once on a connection that is kept: without TCP_NODELAY every answer waits 40 ms for the peer's delayed ACK."""

from __future__ import annotations

import asyncio
import socket

import pytest

from indexer.connections import bound


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_accepted_connection_sends_at_once(host: str) -> None:
    with bound(host, 0, "indexer.http") as listening:
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
