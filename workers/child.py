"""A worker process: opens its bench once, then runs jobs until it is told to stop.

Started by the fleet as `python -m workers.child DATA [CONFIG]`; alone it works too, under a session of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import structlog

from store.bell import Bell, Topic
from store.broker import find_broker
from store.clock import SystemClock, new_session_id
from store.config import load_config
from store.errors import BrokerMissing, EvercurrentError
from store.folder import DataFolder
from store.telemetry import log_to_file
from workers.entry import install
from workers.fleet import beat
from workers.rq_worker import JOB_TIME_LIMIT, run_worker
from workers.sync import run_job
from workers.wiring import open_bench, url_given

log = structlog.get_logger()


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0 drained, 3 could not work."""
    session_id = beat()
    clock = SystemClock()
    data = Path(arguments[0])
    config = load_config(Path(arguments[1]) if len(arguments) > 1 else None)
    folder = DataFolder(data)
    folder.logs.mkdir(parents=True, exist_ok=True)
    log_to_file(folder.log("worker"), "worker")
    session_id = session_id or new_session_id(clock)
    try:
        url = find_broker(data, url_given(config))
        if url is None:
            raise BrokerMissing
        bell = Bell(url, clock)
        with open_bench(data, config, clock, session_id, bell, JOB_TIME_LIMIT) as bench:
            install(partial(run_job, bench))
            run_worker(url, session_id, clock, after_job=lambda: bell.ring(Topic.LEDGER))
        bell.close()
    except EvercurrentError as error:
        log.error("worker_stopped", code=error.code, reason=error.message)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
