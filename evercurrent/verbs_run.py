"""`up` and the roles: processes that stay. Each role runs alone, too, beside whatever queue the data folder or REDIS_URL names."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from evercurrent.call import Call
from evercurrent.command_line import Option, Paths
from evercurrent.lifeline import Lifeline
from evercurrent.say import counted, note, say, say_json, shown_path
from evercurrent.verbs_sync import opened, read, record_roots, role_arguments, targets_for
from store.errors import BrokerMissing, BrokerUnavailable, EvercurrentError
from store.folder import prepare_folder
from store.telemetry import log_to_file

if TYPE_CHECKING:
    from fastapi import FastAPI

    from evercurrent.running import Running
    from store.ports import Catalog

ReadyFd = Annotated[int | None, Option("--ready-fd", hidden=True)]


def up(call: Call, paths: Paths = None) -> int:
    """Runs everything on this machine: queue, intake, workers, retriever, dashboard."""
    from evercurrent.targets import lookable
    from evercurrent.up import Supervised, run_up

    roots: list[str] = []

    def prepare() -> None:
        from indexer.wiring import ensure_wanted, probe_provider

        with opened(call) as catalog:
            targets = targets_for(call, catalog, paths or []) if paths or lookable(catalog.roots(call.home)) else []
            collection = ensure_wanted(catalog, call.config, call.home)
            probe_provider(call.config, collection.builds[-1].space)
            record_roots(catalog, targets)
            roots.extend(root.path for root in lookable(catalog.roots(call.home)))

    def announce(running: Running) -> None:
        if call.as_json:
            say_json({"urls": running.urls, "roots": roots, "data": str(call.folder.path)})
            return
        for line in welcome_lines(call, running.urls, roots, documents_of(call, running)):
            say(line)

    return run_up(Supervised(call.folder, call.config, role_arguments(call)), call.clock, prepare, announce)


def indexer(call: Call, ready_fd: ReadyFd = None) -> int:
    """The role that watches, keeps the ledger and feeds the queue."""

    def run(line: Lifeline) -> int:
        from evercurrent.console import mount_console
        from evercurrent.state import consumer_lags
        from evercurrent.up import url_of
        from indexer.serve import serve

        def mount(app: FastAPI, catalog: Catalog) -> None:
            mount_console(app, call, catalog)

        def ready(port: int) -> None:
            line.ready(port)
            if ready_fd is None:
                tell_ready(call, "indexer", url_of(call.config.indexer.http.host, port))

        warn_of_silent_broker(call, ready_fd)
        return serve(call.folder, call.config, call.clock, ready, mount, lambda catalog: consumer_lags(call.folder, catalog))

    return run_role(call, "indexer", ready_fd, run)


def worker(call: Call, ready_fd: ReadyFd = None) -> int:
    """The role that fetches, splits, embeds and commits."""

    def run(line: Lifeline) -> int:
        from workers.serve import serve

        def ready(_told: object) -> None:
            line.ready()
            if ready_fd is None:
                tell_ready(call, "worker", f"{count} process" if (count := call.config.workers.count) == 1 else f"{count} processes")

        warn_of_silent_broker(call, ready_fd)
        return serve(call.folder.path, call.config, ready, call.config_file)

    return run_role(call, "worker", ready_fd, run)


def retriever(call: Call, ready_fd: ReadyFd = None) -> int:
    """The role that answers."""

    def run(line: Lifeline) -> int:
        from retriever.serve import serve

        def ready(told: dict[str, Any]) -> None:
            line.ready(told["port"])
            if ready_fd is None:
                tell_ready(call, "retriever", str(told["url"]))

        return serve(call.folder.path, call.config, ready)

    return run_role(call, "retriever", ready_fd, run)


def dashboard(call: Call, ready_fd: ReadyFd = None) -> int:
    """The queue dashboard."""

    def run(line: Lifeline) -> int:
        from evercurrent.dashboard import serve_dashboard
        from store.broker import find_broker

        given = call.config.store.redis_url
        url = find_broker(call.folder.path, None if given is None else given.get_secret_value())
        if url is None:
            raise BrokerMissing("No queue server runs for this data folder. Start `evercurrent up`, or set REDIS_URL.")
        return serve_dashboard(url, call.config.evercurrent.dashboard.port, line.ready)

    return run_role(call, "dashboard", ready_fd, run)


VERBS = {"up": up, "indexer": indexer, "worker": worker, "retriever": retriever, "dashboard": dashboard}
HIDDEN = frozenset({"dashboard"})


def run_role(call: Call, role: str, ready_fd: int | None, run: Callable[[Lifeline], int]) -> int:
    """Runs a role with its log; its supervisor, when it has one, learns why it cannot."""
    line = Lifeline(ready_fd)
    try:
        prepare_folder(call.folder)
        log_to_file(call.folder.log(role), role)
        return run(line)
    except EvercurrentError as error:
        line.cannot(error)
        raise


def tell_ready(call: Call, role: str, where: str) -> None:
    """For a person who runs a role by hand: roles otherwise speak to their logs alone."""
    note(f"The {role} is ready ({where}); its log is {shown_path(call.folder.log(role))}. Ctrl-C ends it in order.")


def warn_of_silent_broker(call: Call, ready_fd: int | None) -> None:
    """Says that the queue does not answer; the role goes on, as a queue server may well start after it."""
    from store.broker import find_broker
    from store.broker.client import check

    if ready_fd is not None:
        return
    given = call.config.store.redis_url
    url = find_broker(call.folder.path, None if given is None else given.get_secret_value())
    if url is None:
        return
    try:
        check(url)
    except BrokerUnavailable as error:
        note(f"{error.message} Trying on; Ctrl-C gives up.")


def documents_of(call: Call, running: Running) -> dict[str, int]:
    """Counts by state, with what the intake has noticed and not written down yet."""
    from evercurrent.state import documents_json, intake_state

    with read(call) as catalog:
        return documents_json(catalog.counts(call.home).states, int(intake_state(running).get("unsettled", 0)))


def welcome_lines(call: Call, urls: dict[str, str], roots: list[str], documents: dict[str, int]) -> list[str]:
    """What a person wants to know once everything is ready."""
    names = {"intake": "console and intake", "retriever": "search", "dashboard": "queue dashboard"}
    lines = ["Evercurrent is ready."]
    lines += [f"  {names[name]:<20}{url}" for name, url in urls.items()]
    still = f", {documents['pending']} still being indexed" if documents["pending"] else ""
    lines.append(f"{counted(documents['indexed'], 'document')} indexed{still}.")
    if roots:
        lines.append("Watched (edit, add, rename or delete files here):")
        lines += [f"  {root}" for root in roots]
    else:
        lines.append("No folder is watched yet: `evercurrent up PATH`.")
    lines.append("Search from another terminal:")
    lines.append(f'  {command_name()} search "your question" --data {shown_path(call.folder.path)}')
    lines.append("Ctrl-C stops everything in order.")
    return lines


def command_name() -> str:
    """How this command is called from the working directory."""
    called = Path(sys.argv[0])
    on_path = shutil.which("evercurrent")
    if on_path is not None and called.exists() and Path(on_path).resolve() == called.resolve():
        return "evercurrent"
    return shown_path(called) if called.name == "evercurrent" else f"{shown_path(Path(sys.executable))} -m evercurrent"
