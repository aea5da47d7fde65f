"""The one-machine supervisor: broker, indexer, workers, retriever and queue dashboard, started in order and kept running.

One a data folder. It indexes and answers nothing itself; when it ends, in whatever way, so does all that it started.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from evercurrent.children import DRAIN_SECONDS_MAX, Child, RoleSpec
from evercurrent.ports import check_doors, doors_of
from evercurrent.running import Running, RunningProcess, write_running
from evercurrent.say import note_stopping
from indexer.stopping import Stopping
from store.broker import Broker, open_broker
from store.clock import Clock
from store.config import Config
from store.errors import Misuse
from store.folder import DataFolder, prepare_folder, try_lock
from store.telemetry import log_to_file, without_password

log = structlog.get_logger()

LOOK_SECONDS = 1.0
STOP_LOOK_SECONDS = 0.5
"""A child that ends wakes the supervisor; this is for what nobody announces."""
DASHBOARD = "dashboard"


class AlreadyUp(Misuse):
    code = "already_up"
    sentence = "`evercurrent up` already runs on {path} (pid {pid}); stop it, or choose another --data."


@dataclass(frozen=True, slots=True)
class Supervised:
    """What `up` was asked to run."""

    folder: DataFolder
    config: Config
    arguments: tuple[str, ...]
    """Options that every role gets: --data, --config."""


def role_specs(config: Config, arguments: tuple[str, ...]) -> list[RoleSpec]:
    """The roles in the order in which they start; they stop in the same order, so that nothing new comes in while work drains."""
    specs = [
        RoleSpec("indexer", ("indexer", *arguments), 120, 20, "EVERCURRENT_INDEXER__HTTP__PORT"),
        RoleSpec("worker", ("worker", *arguments), 120, DRAIN_SECONDS_MAX),
        RoleSpec("retriever", ("retriever", *arguments), 300, 20, "EVERCURRENT_RETRIEVER__HTTP__PORT"),
    ]
    if config.evercurrent.dashboard.enabled:
        specs.append(RoleSpec(DASHBOARD, (DASHBOARD, *arguments), 60, 5, "EVERCURRENT_EVERCURRENT__DASHBOARD__PORT", essential=False))
    return specs


def run_up(asked: Supervised, clock: Clock, prepare: Callable[[], None], announce: Callable[[Running], None]) -> int:
    """Runs until told to stop; returns the exit code.

    `prepare` records the roots once this process owns the data folder; `announce` is called once, when everything is ready.
    Raises AlreadyUp, PortTaken, what the broker raises, RoleRefused and RoleFailed: nothing is left running then.
    """
    prepare_folder(asked.folder)
    with try_lock(asked.folder.up_lock) as mine:
        if not mine:
            raise AlreadyUp(path=str(asked.folder.path), pid=_owner(asked.folder))
        asked.folder.up_lock.write_text(f"{os.getpid()}\n", "ascii")
        check_doors(doors_of(asked.config))
        asked.folder.logs.mkdir(mode=0o700, exist_ok=True)
        log_to_file(asked.folder.log("up"), "up")
        stopping = Stopping(also_wake_on=(signal.SIGCHLD,))
        prepare()
        given = asked.config.store.redis_url
        broker = open_broker(asked.folder.path, None if given is None else given.get_secret_value(), clock)
        try:
            return _run_roles(asked, clock, broker, stopping, announce)
        finally:
            asked.folder.up.unlink(missing_ok=True)
            broker.close()


def _run_roles(asked: Supervised, clock: Clock, broker: Broker, stopping: Stopping, announce: Callable[[Running], None]) -> int:
    environment = dict(os.environ)
    if not broker.embedded:
        environment["REDIS_URL"] = broker.url
    children = [Child(spec, asked.folder, environment, clock) for spec in role_specs(asked.config, asked.arguments)]
    try:
        _start(children, stopping)
        if not stopping.asked:
            write_running(asked.folder, running_of(children, broker, asked.config))
            log.info("up_ready", roles=[child.spec.role for child in children])
            announce(running_of(children, broker, asked.config))
            _keep(asked, children, broker, stopping)
        note_stopping(DRAIN_SECONDS_MAX)
        log.info("up_stopping")
        return 0
    finally:
        _stop(children, stopping)


def _start(children: list[Child], stopping: Stopping) -> None:
    """All at once, since each waits for nobody; then each is awaited in order."""
    for child in children:
        child.start()
    for child in children:
        if stopping.asked:
            return
        if child.spec.essential:
            child.await_ready(lambda: stopping.asked > 0)
        else:
            child.hope_ready(lambda: stopping.asked > 0)


def _keep(asked: Supervised, children: list[Child], broker: Broker, stopping: Stopping) -> None:
    told = running_of(children, broker, asked.config)
    while not stopping.wait(LOOK_SECONDS):
        broker.keep_alive()
        for child in children:
            child.look()
        if (now := running_of(children, broker, asked.config)) != told and tell(asked.folder, now):
            told = now


def tell(folder: DataFolder, running: Running) -> bool:
    """Writes `up.json` anew; False when there is no room for it now."""
    try:
        write_running(folder, running)
    except OSError as error:
        log.warning("up_untold", reason=error.strerror)
        return False
    return True


def _stop(children: list[Child], stopping: Stopping) -> None:
    """In order, each drained before the next is asked; told twice, without waiting for anything to drain."""
    for child in children:
        child.ask_to_stop()
        while child.is_alive and stopping.asked < 2 and not child.is_overdue():
            stopping.rest(STOP_LOOK_SECONDS)
        child.end()


def running_of(children: list[Child], broker: Broker, config: Config) -> Running:
    hosts = {"indexer": config.indexer.http.host, "retriever": config.retriever.http.host, DASHBOARD: "127.0.0.1"}
    names = {"indexer": "intake", "retriever": "retriever", DASHBOARD: DASHBOARD}
    processes = [RunningProcess("up", os.getpid())]
    if broker.server_pid is not None:
        processes.append(RunningProcess("broker", broker.server_pid))
    processes += [RunningProcess(child.spec.role, child.pid, child.port) for child in children if child.pid is not None]
    urls = {
        names[child.spec.role]: url_of(hosts[child.spec.role], child.port)
        for child in children
        if child.spec.role in names and child.port is not None
    }
    return Running(os.getpid(), tuple(processes), urls, without_password(broker.url))


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _owner(folder: DataFolder) -> str:
    try:
        return folder.up_lock.read_text("ascii").strip() or "unknown"
    except OSError:
        return "unknown"
