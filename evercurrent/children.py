"""Role processes as children of the supervisor: started, made ready, started again with back-off, ended.

A role's log is its own affair; what it prints besides (a crash of a library) lands in `DATA/logs/<role>.stderr`.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from evercurrent.lifeline import LINE_BYTES_MAX
from store.clock import Clock
from store.errors import EvercurrentError, Misuse, Transient
from store.folder import DataFolder

log = structlog.get_logger()

BACKOFF_SECONDS_FIRST = 0.5
BACKOFF_SECONDS_MAX = 10.0
LONG_LIFE_SECONDS = 30.0
DRAIN_SECONDS_MAX = 45
"""How long a worker's running jobs may take once it was asked to stop."""


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """A role and the command line that runs it, less the data folder and the lifeline."""

    role: str
    arguments: tuple[str, ...]
    ready_seconds_max: float
    drain_seconds_max: float
    port_setting: str | None = None
    """The environment variable that makes a restarted role take its old port again."""
    essential: bool = True
    """`up` does not start without it."""


class RoleFailed(Transient):
    code = "role_failed"
    sentence = "The {role} did not start: {reason} (see {log})."


class RoleRefused(Misuse):
    """The role found its settings wrong; code and sentence are its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]


@dataclass(slots=True)
class Child:
    """One role's process. For the supervisor's main thread: the kernel ends children with the thread that started them."""

    spec: RoleSpec
    folder: DataFolder
    environment: dict[str, str]
    clock: Clock
    process: subprocess.Popen[bytes] | None = None
    port: int | None = None
    is_ready: bool = False
    _line: socket.socket | None = None
    _heard: bytes = b""
    _started_at: float = 0.0
    _restart_at: float | None = None
    _stop_by: float = 0.0
    _backoff_seconds: float = BACKOFF_SECONDS_FIRST
    _refusal: dict[str, str] | None = field(default=None)

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Starts the process; `await_ready` or `look` finds out how it went."""
        mine, theirs = socket.socketpair()
        environment = dict(self.environment)
        if self.spec.port_setting is not None and self.port is not None:
            environment[self.spec.port_setting] = str(self.port)
        with theirs, open(self.folder.logs / f"{self.spec.role}.stderr", "wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evercurrent", *self.spec.arguments, "--ready-fd", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                env=environment,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C in a terminal is the supervisor's business: it ends its children in order
            )
        mine.setblocking(False)
        self._close_line()
        self._line, self._heard, self.is_ready, self._refusal = mine, b"", False, None
        self._started_at, self._restart_at = self.clock.monotonic(), None

    def await_ready(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """Returns when the role said that it is ready, or `give_up` says so. Raises RoleRefused (its settings are wrong) or RoleFailed."""
        give_up_at = self.clock.monotonic() + self.spec.ready_seconds_max
        while not self.is_ready and self.is_alive and self.clock.monotonic() < give_up_at:
            assert self._line is not None
            select.select([self._line], [], [], 0.2)
            self._listen()
            if give_up():
                return
        self._listen()
        if not self.is_ready:
            raise self._failure()

    def hope_ready(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """As `await_ready`, for a role that others can do without: its failure is logged, and it is tried again later."""
        try:
            self.await_ready(give_up)
        except EvercurrentError as error:
            log.warning("role_failed", failed_role=self.spec.role, reason=error.message)

    def look(self) -> bool:
        """Starts an ended role again when its pause is over; returns whether anything that `up.json` tells has changed."""
        if self.is_alive:
            was_ready = self.is_ready
            self._listen()
            return self.is_ready != was_ready
        now = self.clock.monotonic()
        if self._restart_at is None:
            self._plan_restart(now)
            return False
        if now < self._restart_at:
            return False
        self.start()
        return True

    def ask_to_stop(self) -> None:
        self._stop_by = self.clock.monotonic() + self.spec.drain_seconds_max
        if self.is_alive and self.process is not None:
            self.process.terminate()

    def is_overdue(self) -> bool:
        """Whether it was asked to stop and its time to drain is over."""
        return self.clock.monotonic() >= self._stop_by

    def await_end(self) -> None:
        """Waits for the role to drain, then ends it."""
        if self.process is not None:
            try:
                self.process.wait(max(0.0, self._stop_by - self.clock.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("role_overdue", stopped_role=self.spec.role, drain_seconds_max=self.spec.drain_seconds_max)
        self.end()

    def end(self) -> None:
        """Makes sure that the process is gone."""
        if self.is_alive:
            log.warning("role_killed", stopped_role=self.spec.role)
            self.kill()
        self._close_line()

    def hurry(self) -> None:
        """Ends the process without waiting for it: a signal handler may call this in the middle of `await_end`."""
        if self.process is not None:
            self.process.kill()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _plan_restart(self, now: float) -> None:
        if now - self._started_at > LONG_LIFE_SECONDS:
            self._backoff_seconds = BACKOFF_SECONDS_FIRST
        self._restart_at = now + self._backoff_seconds
        exit_code = None if self.process is None else self.process.returncode
        log.warning("role_ended", ended_role=self.spec.role, exit_code=exit_code, backoff_seconds=self._backoff_seconds)
        self._backoff_seconds = min(BACKOFF_SECONDS_MAX, self._backoff_seconds * 2)

    def _listen(self) -> None:
        """Takes what the role has said since."""
        if self._line is None:
            return
        try:
            self._heard += self._line.recv(LINE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            return
        while b"\n" in self._heard:
            line, _, self._heard = self._heard.partition(b"\n")
            words = json.loads(line)
            self._refusal = words.get("error")
            if words.get("ready"):
                self.is_ready, self.port = True, words.get("port")

    def _failure(self) -> EvercurrentError:
        if self._refusal is not None and self.process is not None and self.process.wait(5) == 2:
            return RoleRefused(self._refusal["code"], self._refusal["message"])
        if self._refusal is not None:
            reason = self._refusal["message"].rstrip(".")
        elif self.is_alive:
            reason = f"it was not ready within {self.spec.ready_seconds_max:.0f} seconds"
        else:
            reason = f"it ended with {None if self.process is None else self.process.returncode}"
        return RoleFailed(role=self.spec.role, reason=reason, log=self.folder.log(self.spec.role))

    def _close_line(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
