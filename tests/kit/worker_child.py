"""A small worker process for tests: joins its fleet, takes jobs from the queue, and does what the document's name says.

Run as `python worker_child.py URL FOLDER`. It writes `started-NAME` and `done-NAME` into FOLDER; `wait-…` waits for `go` there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from store.clock import SystemClock
from store.model import DocumentId, SessionId
from workers.entry import DocumentsQuarantined, install
from workers.fleet import beat
from workers.rq_worker import run_worker


def main(url: str, folder: Path) -> None:
    clock = SystemClock()
    session_id = beat() or SessionId(clock.new_id())
    (folder / f"worker-{session_id}").touch()
    install(lambda documents: work(folder, documents))
    run_worker(url, session_id, clock)
    (folder / f"drained-{session_id}").touch()


def work(folder: Path, documents: Sequence[DocumentId]) -> None:
    names = [document.uri for document in documents]
    with (folder / f"started-{names[0]}").open("a") as attempts:
        attempts.write("x")
    if names[0].startswith("wait"):
        while not (folder / "go").exists():
            threading.Event().wait(0.005)
    if names[0].startswith("quarantine"):
        raise DocumentsQuarantined(count=1, documents=len(names), first="The file cannot be parsed.")
    if names[0].startswith("break"):
        raise RuntimeError("a bug")
    (folder / f"done-{names[0]}").touch()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
