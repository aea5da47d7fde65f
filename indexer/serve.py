"""The role `indexer`: watches the registered roots, feeds the queue, keeps time, and answers over HTTP until told to stop.

Each part is a thread of its own; the main thread only waits for a signal and then ends them in order: watching first, so that
nothing new is noticed, then feeding, then the door. What was not finished is found again by the next start's comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import structlog
from fastapi import FastAPI

from indexer.connections import bound, served
from indexer.http import IntakeReports, application
from indexer.intake import Intake
from indexer.stopping import Stopping
from store.broker import find_broker
from store.clock import Clock
from store.config import Config
from store.errors import BrokerMissing
from store.folder import DataFolder
from store.ports import Catalog

log = structlog.get_logger()

DRAIN_SECONDS_MAX = 5
LOOK_SECONDS = 2.0
"""How often roots that were registered meanwhile are looked for."""

Mount = Callable[[FastAPI, Catalog], None]
Lags = Callable[[Catalog], Mapping[str, int]]


def serve(folder: DataFolder, config: Config, clock: Clock, ready: Callable[[int], None], mount: Mount, consumer_lags: Lags) -> int:
    """Runs the role; `ready` gets the port once requests are accepted. Returns the exit code.

    `mount` adds to the application what this room does not know of; `consumer_lags` tells commits not applied yet, by consumer.
    Raises PortTaken, ConfigWrong, BrokerMissing, and what opening the catalog raises.
    """
    given = config.store.redis_url
    url = find_broker(folder.path, None if given is None else given.get_secret_value())
    if url is None:
        raise BrokerMissing("No queue server runs for this data folder. Start `evercurrent up`, or set REDIS_URL for all roles.")
    stopping = Stopping()
    with ExitStack() as stack:
        http = config.indexer.http
        listening = stack.enter_context(bound(http.host, http.port, "indexer.http"))
        intake = stack.enter_context(Intake(folder, config, url, clock, consumer_lags))
        app = application(intake.catalog, reports_of(intake), intake.uploads, intake.collections)
        mount(app, intake.catalog)
        stack.enter_context(served(app, listening, DRAIN_SECONDS_MAX))
        intake.start()
        ready(listening.getsockname()[1])
        while not stopping.wait(LOOK_SECONDS):
            intake.look_for_roots()
        log.info("indexer_draining")
        intake.stop()
    return 0


def reports_of(intake: Intake) -> IntakeReports:
    return IntakeReports(
        unready=intake.unready,
        unsettled=intake.unsettled,
        flush=intake.flush,
        state=intake.state,
        metrics=intake.metrics.exposition,
    )
