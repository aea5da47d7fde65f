"""The small process between the owner and its queue server: starts it, restarts it with back-off, ends it when the owner ends.

The owner's end is the end of standard input, which works on every system and for `kill -9`. Says `ready` once on standard output.
Folder lock and server live together: the lock's descriptor is handed down to the server.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from store.broker.lifeline import die_with_parent
from store.broker.locate import Answer, BrokerFiles, ping
from store.clock import Clock, SystemClock

LOOK_SECONDS = 0.2
STOP_SECONDS_MAX = 10.0
SHORT_LIFE_SECONDS = 5.0
BACKOFF_SECONDS_MAX = 5.0
QUICK_DEATHS_MAX = 3
"""Deaths before the first readiness after which the keeper gives up: the settings or the files are wrong, and the owner says so."""


def main(arguments: list[str]) -> int:
    binary, folder, socket_path, lock_fd = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the owner decides; its end is the only signal
    return Keeper(Path(binary), BrokerFiles(Path(folder)), Path(socket_path), int(lock_fd), SystemClock()).keep()


class Keeper:
    def __init__(self, binary: Path, files: BrokerFiles, socket_path: Path, lock_fd: int, clock: Clock) -> None:
        self._binary = binary
        self._files = files
        self._socket_path = socket_path
        self._lock_fd = lock_fd
        self._clock = clock
        self._was_ready = False

    def keep(self) -> int:
        """Keeps a server running until the owner is gone. Returns 1 when it could never be started."""
        deaths, pause_seconds = 0, 0.0
        while not owner_gone(pause_seconds):
            started = self._clock.monotonic()
            server = self._start()
            if self._watch(server):
                self._stop(server)
                return 0
            deaths += 1
            if not self._was_ready and deaths >= QUICK_DEATHS_MAX:
                return 1
            quick = self._clock.monotonic() - started < SHORT_LIFE_SECONDS
            pause_seconds = min(BACKOFF_SECONDS_MAX, max(0.1, pause_seconds * 2)) if quick else 0.0
        return 0

    def _start(self) -> subprocess.Popen[bytes]:
        farewell: Callable[[], None] = partial(die_with_parent, signal.SIGTERM, os.getpid())
        with self._files.log.open("ab") as log:
            server = subprocess.Popen(
                [self._binary, self._files.settings],
                cwd=self._files.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self._lock_fd,),
                restore_signals=True,
                preexec_fn=lambda: _as_server(farewell),  # noqa: PLW1509 (this process has one thread)
            )
        self._files.pid.write_text(f"{server.pid}\n", "ascii")
        return server

    def _watch(self, server: subprocess.Popen[bytes]) -> bool:
        """True when the owner went, False when the server did."""
        look_seconds = 0.005
        while server.poll() is None:
            if owner_gone(look_seconds):
                return True
            if look_seconds < LOOK_SECONDS and ping(self._socket_path) is Answer.READY:
                self._say_ready()
                look_seconds = LOOK_SECONDS
        return False

    def _say_ready(self) -> None:
        if not self._was_ready:
            self._was_ready = True
            os.write(sys.stdout.fileno(), b"ready\n")

    def _stop(self, server: subprocess.Popen[bytes]) -> None:
        """SIGTERM is a clean shutdown to the server: it writes and syncs its append-only file before it ends."""
        server.terminate()
        try:
            server.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        self._files.pid.unlink(missing_ok=True)


def owner_gone(seconds_max: float) -> bool:
    """Waits up to `seconds_max` for the end of standard input."""
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], seconds_max)
    return bool(readable) and os.read(sys.stdin.fileno(), 64) == b""


def _as_server(farewell: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    farewell()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
