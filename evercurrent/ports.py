"""Whether a port is free, asked before anything starts; and that no server listens to the network without keys."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

from store.config import Config
from store.errors import ConfigWrong, PortTaken


@dataclass(frozen=True, slots=True)
class Door:
    setting: str
    """The key that holds the port."""
    host: str
    port: int


def doors_of(config: Config) -> list[Door]:
    doors = [
        Door("indexer.http.port", config.indexer.http.host, config.indexer.http.port),
        Door("retriever.http.port", config.retriever.http.host, config.retriever.http.port),
    ]
    if config.evercurrent.dashboard.enabled:
        doors.append(Door("evercurrent.dashboard.port", "127.0.0.1", config.evercurrent.dashboard.port))
    return doors


def check_doors(doors: list[Door]) -> None:
    """Raises ConfigWrong for a host that others can reach, PortTaken for the first port that is in use."""
    for door in doors:
        check_loopback(door)
    for door in doors:
        check_free(door)


def check_loopback(door: Door) -> None:
    if not is_loopback(door.host):
        key = door.setting.removesuffix("port") + "host"
        raise ConfigWrong(
            reason=f"{key}: without API keys a server listens to this machine only; use 127.0.0.1, not {door.host!r}.", key=key
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_free(door: Door) -> None:
    if door.port == 0:
        return
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((door.host, door.port))
        except OSError as error:
            raise PortTaken(port=door.port, host=door.host, setting=door.setting) from error
