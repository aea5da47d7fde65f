"""The fleet with real children: deaths are noticed and named, late ones are killed, jobs are finished on stop, nobody is orphaned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from kit.brokers import alive, child, kill, line_of, running_broker, until

from indexer.feed import Nudge
from indexer.queue import JobQueue
from store.broker import connect
from store.clock import SystemClock
from store.errors import CatalogBusy
from store.model import Cause, CollectionName, DocumentId, Namespace, SessionId, Urgency, Uri
from workers.fleet import BEAT_VARIABLE, SESSION_VARIABLE, Fleet, beat

pytestmark = pytest.mark.process

KIT = Path(__file__).parents[1] / "kit"
IDLE = "from workers.fleet import beat; import signal; beat(); signal.pause()"
SILENT = "import signal; signal.pause()"
STUBBORN = (
    "from workers.fleet import beat; import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); beat();"
    "[signal.pause() for _ in range(99)]"
)
SHORT = "raise SystemExit(3)"


class Deaths:
    """Collects what the fleet tells; fails the first `refusals` calls as a busy catalog would."""

    def __init__(self, refusals: int = 0) -> None:
        self.told: list[tuple[int, SessionId]] = []
        self._refusals = refusals

    def __call__(self, pid: int, session_id: SessionId) -> None:
        if self._refusals:
            self._refusals -= 1
            raise CatalogBusy(seconds=1)
        self.told.append((pid, session_id))

    @property
    def pids(self) -> list[int]:
        return [pid for pid, _ in self.told]


@contextmanager
def fleet_of(
    command: str | Sequence[str], count: int, deaths: Deaths, lease_seconds: float = 10, grace_seconds: float = 30
) -> Iterator[Fleet]:
    arguments = [sys.executable, "-P", "-c", command] if isinstance(command, str) else list(command)
    fleet = Fleet(arguments, count, SystemClock(), deaths, lease_seconds=lease_seconds, grace_seconds=grace_seconds)
    fleet.start()
    try:
        yield fleet
    finally:
        fleet.stop()


def all_ready(fleet: Fleet, count: int) -> list[int]:
    until("all children gave a sign of life", lambda: fleet.ready == count)
    return fleet.pids


def test_a_child_that_the_system_refuses_to_start_is_started_again_later(tmp_path: Path) -> None:
    program = tmp_path / "program"
    with fleet_of([str(program)], 1, Deaths()) as fleet:
        until("the system refused", lambda: fleet.refused > 0)
        assert fleet.running
        program.write_text(f"#!{sys.executable} -P\n{IDLE}\n", "utf-8")
        program.chmod(0o700)
        all_ready(fleet, 1)


def test_a_killed_child_is_named_at_once_and_replaced() -> None:
    deaths = Deaths()
    with fleet_of(IDLE, 2, deaths) as fleet:
        first, second = all_ready(fleet, 2)
        kill(first)
        until("its death is told", lambda: deaths.pids == [first], seconds_max=1)
        until("another one took its place", lambda: fleet.ready == 2 and first not in fleet.pids)
        assert second in fleet.pids
    assert len({session for _, session in deaths.told}) == 3


def test_a_stopped_child_is_killed_when_its_beat_is_late_and_one_that_beats_is_not() -> None:
    deaths = Deaths()
    with fleet_of(IDLE, 2, deaths, lease_seconds=1) as fleet:
        stopped, beating = all_ready(fleet, 2)
        kill(stopped, signal.SIGSTOP)
        until("the stopped one is dead and told", lambda: deaths.pids == [stopped])
        assert not alive(stopped)
        until("it is replaced", lambda: fleet.ready == 2)
        assert beating in fleet.pids


def test_a_child_that_never_beats_is_killed_after_its_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.fleet.WARM_UP_SECONDS_MAX", 0.2)
    deaths = Deaths()
    with fleet_of(SILENT, 1, deaths) as fleet:
        until("it is killed", lambda: deaths.told)
        assert fleet.ready == 0


def test_a_death_that_could_not_be_told_is_told_again() -> None:
    deaths = Deaths(refusals=2)
    with fleet_of(IDLE, 1, deaths) as fleet:
        (pid,) = all_ready(fleet, 1)
        kill(pid)
        until("it is told in the end", lambda: deaths.pids == [pid])


def test_a_child_that_dies_young_again_and_again_is_started_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[float] = []
    original = Fleet._start

    def recorded(fleet: Fleet, now: float) -> object:
        starts.append(now)
        return original(fleet, now)

    monkeypatch.setattr(Fleet, "_start", recorded)
    with fleet_of(SHORT, 1, Deaths()):
        until("it was started five times", lambda: len(starts) == 5)
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    assert all(pause >= floor for pause, floor in zip(pauses, [0.1, 0.2, 0.4, 0.8], strict=True))


def test_stop_ends_all_children_and_tells_of_each() -> None:
    deaths = Deaths()
    with fleet_of(IDLE, 3, deaths) as fleet:
        pids = all_ready(fleet, 3)
    assert not any(alive(pid) for pid in pids)
    assert sorted(deaths.pids) == sorted(pids)
    fleet.stop()


def test_stop_kills_what_does_not_end_in_the_grace() -> None:
    deaths = Deaths()
    with fleet_of(STUBBORN, 1, deaths, grace_seconds=0.2) as fleet:
        (pid,) = all_ready(fleet, 1)
    assert not alive(pid)
    assert deaths.pids == [pid]


def test_stop_lets_running_jobs_finish(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        queue = JobQueue(broker.url, SystemClock())
        document = DocumentId(Namespace("default"), CollectionName("main"), Uri("wait"))
        queue.push([Nudge((document,), Cause.MODIFIED, Urgency.FRESH)])
        deaths = Deaths()
        with fleet_of([sys.executable, "-P", str(KIT / "worker_child.py"), broker.url, str(tmp_path)], 1, deaths) as fleet:
            until("the job started", (tmp_path / "started-wait").exists)
            stopping = threading.Thread(target=fleet.stop)
            stopping.start()
            until("the worker drains", lambda: draining(broker.url))
            (tmp_path / "go").touch()
            stopping.join()
        (session,) = (session for _, session in deaths.told)
        assert (tmp_path / "done-wait").exists()
        assert (tmp_path / f"drained-{session}").exists()


def draining(url: str) -> bool:
    client = connect(url)
    return any(b"shutdown_requested_date" in client.hgetall(key) for key in client.smembers("rq:workers"))  # type: ignore[union-attr,operator]


def test_children_die_with_a_fleet_that_is_killed(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, child(KIT / "fleet_owner.py", broker.url, tmp_path, "2") as owner:
        _, *pids = line_of(owner).split()
        assert len(pids) == 2
        owner.kill()
        until("both are gone", lambda: not any(alive(int(pid)) for pid in pids))


def test_a_child_that_cannot_reach_its_fleet_ends_itself_without_the_kernels_help() -> None:
    program = f"import workers.fleet as f; f.die_with_parent = lambda *_: None\n{IDLE}"
    reader, writer = os.pipe()
    environment = os.environ | {SESSION_VARIABLE: "s", BEAT_VARIABLE: f"{writer}:{os.getpid()}:0.05"}
    with subprocess.Popen([sys.executable, "-P", "-c", program], pass_fds=(writer,), env=environment) as process:
        os.close(writer)
        assert os.read(reader, 1) == b"."
        os.close(reader)
        assert process.wait(10) == 1


def test_a_process_that_no_fleet_started_has_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BEAT_VARIABLE, raising=False)
    assert beat() is None
