"""Who does the work of a pass: whoever already feeds this data folder, else a queue, a feeder and workers of the pass's own.

Nothing is started before the first `rest`, and what was started ends with the pass. When the one who fed the queue goes away
meanwhile, the pass takes over.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType

from evercurrent.children import DRAIN_SECONDS_MAX, Child, RoleSpec
from evercurrent.say import note_stopping
from evercurrent.stuck import Patience
from indexer.feeding import Feeder
from indexer.wiring import open_feeder
from store.bell import Bell, Listener, Topic
from store.broker import find_broker, open_broker
from store.broker.client import check
from store.clock import Clock
from store.config import Config
from store.folder import DataFolder, try_lock
from store.ports import Catalog

REST_SECONDS = 0.1
"""A worker that is free rings; this is for what nobody announces."""
FEED_SECONDS = 0.03
"""Between looks of the feeder: it reads many rows, and the queue holds work for longer than that."""


class Crew:
    """For one pass, in the main thread."""

    def __init__(
        self, folder: DataFolder, config: Config, arguments: tuple[str, ...], catalog: Catalog, clock: Clock, patience: Patience
    ) -> None:
        self._folder = folder
        self._config = config
        self._arguments = arguments
        self._catalog = catalog
        self._clock = clock
        self._patience = patience
        self._url: str | None = None
        self._hired = ExitStack()
        self._feeder: Feeder | None = None
        self._worker: Child | None = None
        self._listener: Listener | None = None
        self._told = False
        self._feed_at = 0.0

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is KeyboardInterrupt and self._worker is not None:
            with hurried(self._worker):
                note_stopping(DRAIN_SECONDS_MAX)
                self._hired.close()
        self._hired.close()

    @property
    def is_hired(self) -> bool:
        """Whether this pass has workers of its own."""
        return self._feeder is not None

    def rest(self) -> None:
        """Keeps the work going and waits a moment, or until a worker is free. Raises what starting the crew and `Patience.ask` raise."""
        self._patience.ask(self._check_broker)
        if self._feeder is None and not self._hire():
            self._tell()
            self._pause(REST_SECONDS)
            return
        assert self._worker is not None
        seconds_max = self._feed()
        if not self._worker.is_ready:
            self._worker.await_ready()
        self._worker.look()
        self._pause(seconds_max)

    def _feed(self) -> float:
        """Lets the feeder look, unless it just has; returns how long the rest may be."""
        assert self._feeder is not None
        now = self._clock.monotonic()
        if now < self._feed_at:
            return self._feed_at - now
        self._feed_at = now + FEED_SECONDS
        self._feeder.look(self._clock.now())
        return REST_SECONDS

    def _hire(self) -> bool:
        """Starts everything, unless somebody else feeds this catalog."""
        attempt = ExitStack()
        with attempt:
            if not attempt.enter_context(try_lock(self._folder.feeder_lock)):
                return False
            given = self._config.store.redis_url
            broker = open_broker(self._folder.path, None if given is None else given.get_secret_value(), self._clock)
            attempt.callback(broker.close)
            self._folder.logs.mkdir(mode=0o700, exist_ok=True)
            environment = dict(os.environ) if broker.embedded else {**os.environ, "REDIS_URL": broker.url}
            worker = Child(RoleSpec("worker", ("worker", *self._arguments), 120, DRAIN_SECONDS_MAX), self._folder, environment, self._clock)
            attempt.callback(_dismiss, worker)
            worker.start()
            feeder, _ = attempt.enter_context(open_feeder(self._catalog, self._config, broker.url, self._clock))
            self._listen(broker.url)
            self._feeder, self._worker = feeder, worker
            self._hired = attempt.pop_all()
        return True

    def _tell(self) -> None:
        """Wakes whoever feeds, once."""
        if self._told:
            return
        given = self._config.store.redis_url
        url = find_broker(self._folder.path, None if given is None else given.get_secret_value())
        bell = Bell(url, self._clock)
        bell.ring(Topic.LEDGER)
        bell.ring(Topic.COMMIT)
        bell.close()
        self._listen(url)
        self._told = True

    def _check_broker(self) -> None:
        if self._url is not None:
            check(self._url)

    def _listen(self, url: str | None) -> None:
        self._url = url
        if self._listener is not None:
            self._listener.close()
        self._listener = Bell(url, self._clock).listen(Topic.LEDGER, Topic.COMMIT)

    def _pause(self, seconds_max: float) -> None:
        if self._listener is not None:
            self._listener.wait(seconds_max)


def _dismiss(worker: Child) -> None:
    worker.ask_to_stop()
    worker.await_end()


@contextmanager
def hurried(worker: Child) -> Iterator[None]:
    """Told again to stop, the worker is ended without draining; what it was at is found pending by the next pass."""
    before = {number: signal.signal(number, lambda *_: worker.hurry()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
