"""The role `worker`: a fleet of warm worker processes over one data folder, until it is told to stop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from indexer.stopping import Stopping
from store.broker import find_broker
from store.clock import SystemClock
from store.config import Config
from store.errors import BrokerMissing
from store.model import SessionId
from workers.fleet import Fleet
from workers.rq_worker import requeue_abandoned
from workers.wiring import open_catalog, url_given

log = structlog.get_logger()

LOOK_SECONDS = 0.05
"""Between looks at whether the children are warm, at the start only."""
IDLE_SECONDS = 1.0
"""Between looks at whether the fleet itself still runs."""
EXIT_BROKEN = 3
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""The fleet's parallelism is its processes: arithmetic threads of several workers only fight over the cores."""


def serve(data: Path, config: Config, ready: Callable[[Mapping[str, object]], None], config_path: Path | None = None) -> int:
    """Keeps `workers.count` processes at work; calls `ready` once all have given a sign of life. Returns the exit code:
    0 drained, 3 the fleet broke, so that whoever started the role starts it anew.

    Raises BrokerMissing when the data folder has no running queue and none is given.
    """
    clock = SystemClock()
    url = find_broker(data, url_given(config))
    if url is None:
        raise BrokerMissing("No queue server runs for this data folder. Start `evercurrent up`, or set REDIS_URL for all roles.")
    stopping = Stopping()
    catalog = open_catalog(data, config, clock)

    def on_death(_pid: int, session_id: SessionId) -> None:
        catalog.end_session(session_id)
        requeue_abandoned(url, session_id, clock)

    command = [sys.executable, "-P", "-m", "workers.child", str(data), *([str(config_path)] if config_path else [])]
    environment = ONE_THREAD | os.environ
    fleet = Fleet(command, config.workers.count, clock, on_death, lease_seconds=config.workers.lease_seconds, environment=environment)
    fleet.start()
    try:
        while fleet.running and fleet.ready < config.workers.count and not stopping.wait(LOOK_SECONDS):
            pass
        if fleet.running:
            ready({"processes": config.workers.count})
        while fleet.running and not stopping.wait(IDLE_SECONDS):
            pass
        broke = not fleet.running
        log.info("workers_draining")
    finally:
        fleet.stop()
        catalog.close()
    return EXIT_BROKEN if broke else 0
