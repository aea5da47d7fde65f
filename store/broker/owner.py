"""The owner's side of the broker: one process a data folder starts the embedded server, through its keeper, and ends it.

A given Redis is only checked. The server speaks on a unix socket that nobody else can reach, keeps an append-only file, and
refuses writes at its memory limit rather than dropping any.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
from pathlib import Path

import structlog

from store.broker.locate import BrokerFiles, choose_socket, find_server_binary, given_url, is_private, url_of
from store.clock import Clock
from store.errors import BrokerFolderTaken, BrokerUnavailable
from store.folder import DataFolder

log = structlog.get_logger()

READY_SECONDS_MAX = 60.0
"""Includes reading the append-only file; an empty one takes 0.1 s."""
LOCK_SECONDS_MAX = 15.0
"""Patience for the server of an owner that was killed: it is still closing its files."""
CLOSE_SECONDS_MAX = 15.0
LOG_BYTES_MAX = 4 * 1024 * 1024
MEMORY_BYTES_MAX = 512 * 1024 * 1024
RESTART_BACKOFF_SECONDS_MAX = 5.0


def open_broker(data_folder: Path, redis_url: str | None, clock: Clock) -> Broker:
    """The broker of this data folder, answering: the given url, `REDIS_URL`, else the embedded server, started here.

    Raises BrokerUnavailable (a given one does not answer, or the server does not start), BrokerFolderTaken, BrokerMissing.
    """
    given = given_url(redis_url)
    if given is not None:
        from store.broker.client import check

        check(given)
        return Broker(given, None)
    server = EmbeddedServer(find_server_binary(), BrokerFiles(DataFolder(data_folder).broker), clock)
    server.start()
    return Broker(server.url, server)


class Broker:
    """A broker that answers, at `url`. `close` ends it when it is the embedded one."""

    def __init__(self, url: str, server: EmbeddedServer | None) -> None:
        self.url = url
        self._server = server

    @property
    def embedded(self) -> bool:
        return self._server is not None

    @property
    def server_pid(self) -> int | None:
        """Of the embedded server, while it runs."""
        return None if self._server is None else self._server.pid

    def keep_alive(self) -> None:
        """Starts the embedded server's keeper again if someone ended it; call it about once a second. Never raises, never waits long."""
        if self._server is not None:
            self._server.keep_alive()

    def close(self) -> None:
        """Ends the embedded server cleanly: everything acknowledged is on disk. Idempotent."""
        if self._server is not None:
            self._server.stop()

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EmbeddedServer:
    """The server of one folder with its keeper."""

    def __init__(self, binary: Path, files: BrokerFiles, clock: Clock) -> None:
        self._binary = binary
        self._files = files
        self._clock = clock
        self._keeper: subprocess.Popen[bytes] | None = None
        self._socket_path = Path()
        self._closed = False
        self._restart_at = 0.0
        self._backoff_seconds = 0.0

    @property
    def url(self) -> str:
        return url_of(self._socket_path)

    @property
    def pid(self) -> int | None:
        try:
            return int(self._files.pid.read_text("ascii"))
        except (OSError, ValueError):
            return None

    def start(self) -> None:
        """Returns when the server answers."""
        self._start_keeper(LOCK_SECONDS_MAX)
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    def keep_alive(self) -> None:
        now = self._clock.monotonic()
        if self._closed or self._keeper is None or self._keeper.poll() is None or now < self._restart_at:
            return
        self._backoff_seconds = min(RESTART_BACKOFF_SECONDS_MAX, max(0.5, self._backoff_seconds * 2))
        self._restart_at = now + self._backoff_seconds
        log.warning("broker_restarted", exit_code=self._keeper.returncode, backoff_seconds=self._backoff_seconds)
        try:
            self._start_keeper(0.0)
        except (BrokerFolderTaken, OSError) as error:
            log.warning("broker_restart_failed", reason=str(error))

    def stop(self) -> None:
        self._closed = True
        keeper = self._keeper
        if keeper is None:
            return
        close_pipes(keeper)
        try:
            keeper.wait(CLOSE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
        self._files.address.unlink(missing_ok=True)
        if self._socket_path.parent != self._files.folder.absolute() and is_private(self._socket_path.parent):
            self._socket_path.unlink(missing_ok=True)
            self._socket_path.parent.rmdir()
        self._keeper = None

    def _start_keeper(self, lock_seconds_max: float) -> None:
        self._files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._files.folder.chmod(0o700)
        lock_fd = take_lock(self._files, lock_seconds_max, self._clock)
        try:
            bound_log(self._files.log)
            self._socket_path = choose_socket(self._files)
            self._files.settings.write_bytes(server_settings(self._files, self._socket_path))
            if self._keeper is not None:
                close_pipes(self._keeper)
            self._keeper = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "store.broker.keeper"),
                    *(self._binary, self._files.folder.absolute(), self._socket_path, str(lock_fd)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(lock_fd,),
                start_new_session=True,  # Ctrl-C in a terminal is the owner's business
            )
        finally:
            os.close(lock_fd)  # from here on the lock lives and dies with keeper and server

    def _await_ready(self) -> None:
        assert self._keeper is not None
        assert self._keeper.stdout is not None
        readable, _, _ = select.select([self._keeper.stdout], [], [], READY_SECONDS_MAX)
        if not readable or os.read(self._keeper.stdout.fileno(), 64) == b"":
            raise BrokerUnavailable(url=self.url, reason=f"the server did not start: {last_line(self._files.log)} (see {self._files.log})")


def close_pipes(keeper: subprocess.Popen[bytes]) -> None:
    for pipe in (keeper.stdin, keeper.stdout):
        if pipe is not None:
            pipe.close()


def take_lock(files: BrokerFiles, seconds_max: float, clock: Clock) -> int:
    """The lock's descriptor, with this process named as the owner. Raises BrokerFolderTaken.

    A lock whose owner is alive is refused at once; one whose owner is gone is waited for: its server is closing its files.
    """
    fd = os.open(files.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    give_up_at = clock.monotonic() + seconds_max
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            if clock.monotonic() >= give_up_at or is_alive(owner):
                os.close(fd)
                raise BrokerFolderTaken(path=str(files.folder), pid=owner or "unknown") from error
            select.select([], [], [], 0.02)
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
    return fd


def is_alive(pid: str) -> bool:
    if not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not is_zombie(int(pid))


def is_zombie(pid: int) -> bool:
    """A killed owner whose parent has not looked yet. Always False where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


def server_settings(files: BrokerFiles, socket_path: Path) -> bytes:
    """The server's configuration file: no TCP, a private socket, an append-only file synced each second, nothing ever evicted."""
    lines = [
        b"port 0",
        b"unixsocket " + quoted(socket_path),
        b"unixsocketperm 700",
        b"dir " + quoted(files.folder.absolute()),
        b"daemonize no",
        b"appendonly yes",
        b"appendfsync everysec",
        b"aof-load-truncated yes",
        b'save ""',
        b"maxmemory %d" % MEMORY_BYTES_MAX,
        b"maxmemory-policy noeviction",
        b"loglevel notice",
        b"logfile " + quoted(files.log.absolute()),
    ]
    return b"\n".join(lines) + b"\n"


def quoted(path: Path) -> bytes:
    """A path as the server's configuration reads it: quoted, with what could end the value or the line escaped."""
    return b'"' + b"".join(b"\\x%02x" % byte if byte < 0x20 or byte in b'"\\' else bytes((byte,)) for byte in os.fsencode(path)) + b'"'


def bound_log(path: Path) -> None:
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        path.replace(path.with_name(path.name + ".1"))


def last_line(path: Path) -> str:
    try:
        lines = path.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        return "no log"
    return lines[-1] if lines else "no log"
