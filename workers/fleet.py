"""The fleet: warm worker processes kept alive, watched by their heartbeat, killed when it is late, drained on stop.

Parents and children die together: the kernel kills a child whose fleet ended, and a child that cannot tell its fleet it lives ends
itself. Who dies is named to the caller, who ends the session's leases and abandons its job.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from store.broker.lifeline import die_with_parent
from store.clock import Clock, new_session_id
from store.errors import EvercurrentError
from store.model import SessionId

log = structlog.get_logger()

SESSION_VARIABLE = "EVERCURRENT_FLEET_SESSION"
BEAT_VARIABLE = "EVERCURRENT_FLEET_BEAT"
"""Of the child: `<pipe's descriptor>:<fleet's pid>:<seconds between beats>`."""

LOOK_SECONDS_MAX = 0.5
"""A death is seen at once, by the end of its pipe; this is for what nobody announces."""
DRAIN_LOOK_SECONDS = 0.1
BEATS_A_DEADLINE = 5
WARM_UP_SECONDS_MAX = 60.0
"""From the start to the first beat: imports on a cold disk."""
SHORT_LIFE_SECONDS = 1.0
BACKOFF_SECONDS = (0.1, 5.0)
GRACE_SECONDS = 30.0
"""For the running job, when the fleet stops."""

OnDeath = Callable[[int, SessionId], None]
"""(pid, session) of a worker that is gone, however it ended. May run twice for one death; an EvercurrentError is tried again."""


@dataclass(slots=True)
class Worker:
    """A running child as the fleet sees it."""

    process: subprocess.Popen[bytes]
    session_id: SessionId
    pipe: int
    started_at: float
    beat_at: float | None = None


@dataclass(slots=True)
class Post:
    """A place in the fleet: it always wants a worker."""

    worker: Worker | None = None
    start_at: float = 0.0
    backoff_seconds: float = 0.0


class Fleet:
    """`count` children running `command`. Started and watched by one thread of its own, since the kernel ties children to a thread."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        clock: Clock,
        on_death: OnDeath,
        *,
        lease_seconds: float = 10.0,
        environment: Mapping[str, str] | None = None,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._command = list(command)
        self._environment = dict(os.environ if environment is None else environment)
        self._clock = clock
        self._on_death = on_death
        self._beat_seconds_max = lease_seconds / 2
        self._grace_seconds = grace_seconds
        self._posts = [Post() for _ in range(count)]
        self._unreported: list[tuple[int, SessionId]] = []
        self._refused = 0
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="fleet")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Drains: each child finishes its job, up to the grace, then is killed. Returns when none is left. Idempotent."""
        if not self._stopping.is_set():
            self._stopping.set()
            os.write(self._wake_writer, b"!")
        if self._thread.is_alive():
            self._thread.join()

    @property
    def running(self) -> bool:
        """False before the start, after the stop, and when the fleet itself broke (its children are dead then)."""
        return self._thread.is_alive()

    @property
    def pids(self) -> list[int]:
        """Of the children that run now."""
        return [worker.process.pid for worker in self._running()]

    @property
    def ready(self) -> int:
        """Children that have given a sign of life."""
        return sum(worker.beat_at is not None for worker in self._running())

    @property
    def refused(self) -> int:
        """Starts that the system refused (no memory, no process left): each is tried again."""
        return self._refused

    def _running(self) -> list[Worker]:
        return [worker for post in self._posts if (worker := post.worker) is not None]

    # --- the fleet's thread

    def _keep(self) -> None:
        os.set_blocking(self._wake_reader, False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        try:
            while not self._stopping.is_set():
                self._start_missing()
                self._look(self._seconds_to_next())
            self._drain()
        finally:
            for worker in self._running():
                worker.process.kill()
            self._selector.close()
            os.close(self._wake_reader)
            os.close(self._wake_writer)

    def _start_missing(self) -> None:
        now = self._clock.monotonic()
        for post in self._posts:
            if post.worker is None and post.start_at <= now:
                try:
                    post.worker = worker = self._start(now)
                except OSError as error:
                    self._refused += 1
                    rest(post, now)
                    log.warning("worker_not_started", reason=error.strerror or str(error))
                    continue
                log.info("worker_started", worker=worker.process.pid, session=worker.session_id)

    def _start(self, now: float) -> Worker:
        session_id = new_session_id(self._clock)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        beats = f"{writer}:{os.getpid()}:{self._beat_seconds_max / BEATS_A_DEADLINE}"
        try:
            process = subprocess.Popen(
                self._command,
                env=self._environment | {SESSION_VARIABLE: session_id, BEAT_VARIABLE: beats},
                stdin=subprocess.DEVNULL,
                pass_fds=(writer,),
                start_new_session=True,  # Ctrl-C in a terminal is the fleet's business
            )
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._selector.register(reader, selectors.EVENT_READ)
        return Worker(process, session_id, reader, now)

    def _seconds_to_next(self) -> float:
        starts = [post.start_at for post in self._posts if post.worker is None]
        return max(0.0, min([LOOK_SECONDS_MAX, *(at - self._clock.monotonic() for at in starts)]))

    def _look(self, seconds_max: float) -> None:
        """Hears beats first, so that a fleet that was itself held up does not take its children for dead."""
        spoke = {key.fd for key, _ in self._selector.select(seconds_max)}
        now = self._clock.monotonic()
        for post in self._posts:
            if post.worker is not None:
                self._look_at(post, post.worker, post.worker.pipe in spoke, now)
        self._report_deaths()

    def _look_at(self, post: Post, worker: Worker, spoke: bool, now: float) -> None:
        if spoke and os.read(worker.pipe, 65_536):
            worker.beat_at = now
        elif spoke:
            end(worker)  # the pipe ended: it is gone, or can never be heard again
        deadline = worker.started_at + WARM_UP_SECONDS_MAX if worker.beat_at is None else worker.beat_at + self._beat_seconds_max
        if now > deadline and worker.process.poll() is None:
            self._kill(worker, "its beat is late")
        if worker.process.poll() is not None:
            self._bury(post, worker, now)

    def _kill(self, worker: Worker, reason: str) -> None:
        log.warning("worker_killed", worker=worker.process.pid, session=worker.session_id, reason=reason)
        end(worker)

    def _bury(self, post: Post, worker: Worker, now: float) -> None:
        self._selector.unregister(worker.pipe)
        os.close(worker.pipe)
        post.worker = None
        if now - worker.started_at < SHORT_LIFE_SECONDS:
            rest(post, now)
        else:
            post.backoff_seconds, post.start_at = 0.0, now
        self._unreported.append((worker.process.pid, worker.session_id))
        log.info("worker_ended", worker=worker.process.pid, session=worker.session_id, exit_code=worker.process.returncode)

    def _report_deaths(self) -> None:
        """Tells the caller of each death until it could act on it."""
        still: list[tuple[int, SessionId]] = []
        for pid, session_id in self._unreported:
            try:
                self._on_death(pid, session_id)
            except EvercurrentError as error:
                log.warning("worker_death_unreported", worker=pid, session=session_id, reason=error.message)
                still.append((pid, session_id))
        self._unreported = still

    def _drain(self) -> None:
        self._selector.unregister(self._wake_reader)
        for worker in self._running():
            worker.process.terminate()
        give_up_at = self._clock.monotonic() + self._grace_seconds
        while self._running():
            self._look(DRAIN_LOOK_SECONDS)
            if self._clock.monotonic() >= give_up_at:
                for worker in self._running():
                    self._kill(worker, "it did not finish its job in time")
                self._look(0.0)
        self._report_deaths()


def rest(post: Post, now: float) -> None:
    """The post stays empty for a while, twice as long as the last time."""
    first, longest = BACKOFF_SECONDS
    post.backoff_seconds = min(longest, max(first, post.backoff_seconds * 2))
    post.start_at = now + post.backoff_seconds


def end(worker: Worker) -> None:
    """SIGKILL ends stopped processes too: one may hold the catalog's write lock."""
    worker.process.kill()
    worker.process.wait()


# --- the child's side -------------------------------------------------------------------------------------------


def beat() -> SessionId | None:
    """Joins the fleet that started this process: ends with it, and tells it from a thread, each second or so, that it lives.

    Returns the session this worker is known by, or None when no fleet started it. To be called first thing, once.
    """
    told = os.environ.pop(BEAT_VARIABLE, None)
    session_id = os.environ.pop(SESSION_VARIABLE, None)
    if told is None or session_id is None:
        return None
    pipe, fleet_pid, seconds = told.split(":")
    os.set_inheritable(int(pipe), False)  # no child of this process keeps it alive
    die_with_parent(signal.SIGKILL, int(fleet_pid))
    threading.Thread(target=_beat_until_alone, args=(int(pipe), float(seconds)), name="beat", daemon=True).start()
    return SessionId(session_id)


def _beat_until_alone(pipe: int, seconds: float) -> None:
    pause = threading.Event()
    while True:
        try:
            os.write(pipe, b".")
        except OSError:
            os._exit(1)  # the fleet is gone, and its leases with it
        pause.wait(seconds)
