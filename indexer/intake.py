"""The intake's working parts: watching, feeding and timers over one catalog, and what they can tell of themselves.

Feeding and timers run only while this process holds the data folder's feeder lock: one feeder a catalog.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import structlog

from indexer.bucket_polls import BucketPolls
from indexer.collections import Collections
from indexer.feeding import serve as serve_feeder
from indexer.load.registry import claims
from indexer.metrics import Gauges, IntakeMetrics
from indexer.queue import JobQueue, QueueCounts
from indexer.uploads import Uploads
from indexer.watching import Watching
from indexer.wiring import open_catalog, open_feeder, rules_of, warn_of_unused_roots
from store.bell import Bell, Topic
from store.errors import BrokerUnavailable, EvercurrentError
from store.folder import prepare_folder, try_lock
from store.model import DocumentState, Instant, SourceKind

if TYPE_CHECKING:
    from store.clock import Clock
    from store.config import Config
    from store.folder import DataFolder
    from store.model import Root
    from store.ports import Catalog

log = structlog.get_logger()

LOCK_LOOK_SECONDS = 0.5
TIMER_SECONDS = 1.0
SWEEP_SECONDS = 60.0
UPLOADS_SWEEP_SECONDS = 600.0
"""Every kept file is looked at: not as often."""
QUARANTINED_READ_MAX = 1000
DAY_SECONDS = 86_400
WATCHED_KINDS = frozenset({SourceKind.FOLDER, SourceKind.FILE})


class Intake:
    """Enter it, `start` it, `stop` it; leaving closes the catalog."""

    def __init__(
        self, folder: DataFolder, config: Config, redis_url: str, clock: Clock, consumer_lags: Callable[[Catalog], Mapping[str, int]]
    ) -> None:
        prepare_folder(folder)
        self._folder = folder
        self._config = config
        self._redis_url = redis_url
        self._clock = clock
        self._consumer_lags = consumer_lags
        self.catalog = open_catalog(folder, config, clock)
        self._bell = Bell(redis_url, clock)
        self.uploads = Uploads(self.catalog, folder, config, clock, self._ring)
        self.collections = Collections(self.catalog, clock, self.uploads.furnish, self._ring, self.uploads.fields)
        self._counting = threading.Lock()
        self._count_queue = JobQueue(redis_url, clock)
        self._stopping = threading.Event()
        self._feeding = threading.Event()
        """Set while this process holds the feeder lock."""
        self._threads = [
            threading.Thread(target=self._feed, name="feeder", daemon=True),
            threading.Thread(target=self._keep_time, name="timers", daemon=True),
        ]
        self._roots: tuple[Root, ...] = ()
        self._sweep_uploads_at = 0.0
        self._watching: Watching | None = None
        self._polls: BucketPolls | None = None
        self.metrics = IntakeMetrics(self.catalog.tallies, self._gauges)

    def __enter__(self) -> Intake:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        self._count_queue.close()
        self._bell.close()
        self.catalog.close()

    def start(self) -> None:
        self.look_for_roots()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends watching, then feeding and timers. Idempotent."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._stop_looking()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def look_for_roots(self) -> None:
        """Watches the roots that are registered now, and polls the buckets; those of before go on from a new comparison."""
        try:
            roots = tuple(root for root in self.catalog.roots() if root.kind is not SourceKind.UPLOADS)
        except EvercurrentError as error:
            log.warning("roots_unread", code=error.code, reason=error.message)
            return
        if roots == self._roots and (self._watching is None or self._watching.is_alive) and (self._polls is None or self._polls.is_alive):
            return
        self._stop_looking()
        self._roots = roots
        rules = rules_of(self._config, self._folder)
        table, watched = self._config.indexer, [root for root in roots if root.kind in WATCHED_KINDS]
        buckets = [root for root in roots if root.kind is SourceKind.BUCKET]
        self._watching = Watching(watched, self.catalog, table.watch, claims, self._ring, self._clock, rules)
        self._polls = BucketPolls(
            buckets, self.catalog, table.buckets, table.watch.reconcile_seconds, claims, self._ring, self._clock, rules
        )
        self._watching.start()
        self._polls.start()
        warn_of_unused_roots(self._config, [root.name for root in self.catalog.roots()])
        log.info("roots_watched", roots=[root.name for root in roots])

    def _stop_looking(self) -> None:
        if self._watching is not None:
            self._watching.stop()
        if self._polls is not None:
            self._polls.stop()

    def _ring(self) -> None:
        """Something is pending for the feeder; a deletion is visible to retrievers at once."""
        self._bell.ring(Topic.LEDGER)
        self._bell.ring(Topic.COMMIT)

    # --- threads ---

    def _feed(self) -> None:
        while not self._stopping.is_set():
            with try_lock(self._folder.feeder_lock) as mine:
                if mine:
                    self._feed_alone()
            self._stopping.wait(LOCK_LOOK_SECONDS)

    def _feed_alone(self) -> None:
        log.info("feeder_started")
        self._feeding.set()
        try:
            with open_feeder(self.catalog, self._config, self._redis_url, self._clock) as (feeder, _):
                listener = Bell(self._redis_url, self._clock).listen(Topic.LEDGER)
                serve_feeder(feeder, listener, self._clock, self._stopping)
                listener.close()
        except EvercurrentError as error:
            log.error("feeder_interrupted", code=error.code, reason=error.message)
        finally:
            self._feeding.clear()

    def _keep_time(self) -> None:
        sweep_at = self._clock.monotonic() + SWEEP_SECONDS
        while not self._stopping.wait(TIMER_SECONDS):
            if not self._feeding.is_set():
                continue
            try:
                self._switch_grown()
                if self._clock.monotonic() >= sweep_at:
                    sweep_at = self._clock.monotonic() + SWEEP_SECONDS
                    self._sweep()
            except EvercurrentError as error:
                log.warning("timer_interrupted", code=error.code, reason=error.message)

    def _switch_grown(self) -> None:
        for collection in self.catalog.collections():
            if collection.growing is not None and self.catalog.switch(collection.home, self._clock.now()):
                log.info("build_switched", namespace=collection.home.namespace, collection=collection.home.collection)
                self._bell.ring(Topic.COMMIT)

    def _sweep(self) -> None:
        retention_seconds = self._config.store.retention_days * DAY_SECONDS
        rows = self.catalog.sweep(self._clock.now(), retention_seconds, self._config.workers.lease_seconds)
        if rows:
            log.info("catalog_swept", rows=rows)
        if self._clock.monotonic() < self._sweep_uploads_at:
            return
        self._sweep_uploads_at = self._clock.monotonic() + UPLOADS_SWEEP_SECONDS
        files = self.uploads.sweep()
        if files:
            log.info("uploads_swept", files=files)

    # --- what it tells of itself; from other threads ---

    def unready(self) -> Sequence[str]:
        watching, polls = self._watching, self._polls
        if watching is None or not watching.ready.is_set() or polls is None or not polls.is_ready:
            return ("the first comparison is not in the ledger yet",)
        return ()

    def flush(self, seconds_max: float) -> None:
        watching, polls, deadline = self._watching, self._polls, self._clock.monotonic() + seconds_max
        if watching is not None:
            watching.settled(seconds_max)
        if polls is not None:
            polls.settled(max(0.0, deadline - self._clock.monotonic()))

    def unsettled(self) -> Sequence[str]:
        reasons = [f"{count} {what}" for count, what in ((self._noticed(), "noticed"), (self._pending()[0], "pending")) if count]
        reasons += [] if self._polls is None else self._polls.unlisted()
        return reasons + [f"{name} is {lag} commits behind" for name, lag in self._consumer_lags(self.catalog).items() if lag]

    def state(self) -> dict[str, Any]:
        watching, polls = self._watching, self._polls
        return {
            "unsettled": self._noticed(),
            "feeding": self._feeding.is_set(),
            "roots": [{"root": root.name, "path": root.path, "prefix": root.prefix} for root in self._roots],
            "watch": [*(() if watching is None else watching.health()), *(() if polls is None else polls.health())],
        }

    def _noticed(self) -> int:
        watching = self._watching
        return 0 if watching is None else watching.unsettled()

    def _pending(self) -> tuple[int, Instant | None]:
        """Pending documents of all collections, and the oldest notice among them."""
        pending, oldest = 0, None
        for collection in self.catalog.collections():
            counts = self.catalog.counts(collection.home)
            pending += counts.states.get(DocumentState.PENDING, 0)
            if counts.oldest_pending_at is not None:
                oldest = counts.oldest_pending_at if oldest is None else min(oldest, counts.oldest_pending_at)
        return pending, oldest

    def _gauges(self) -> Gauges:
        pending, oldest = self._pending()
        queue = self._queue_counts()
        return Gauges(
            pending_documents=pending + self._noticed(),
            oldest_pending_seconds=0.0 if oldest is None else max(0.0, self._clock.now() - oldest),
            quarantined=self._quarantined(),
            queue_jobs={} if queue is None else {"queued": queue.queued, "started": queue.started, "failed": queue.failed},
            consumer_lags=self._consumer_lags(self.catalog),
        )

    def _queue_counts(self) -> QueueCounts | None:
        try:
            with self._counting:
                return self._count_queue.counts()
        except BrokerUnavailable:
            return None

    def _quarantined(self) -> dict[str, int]:
        codes: Counter[str] = Counter()
        for collection in self.catalog.collections():
            page = self.catalog.documents(collection.home, None, QUARANTINED_READ_MAX, (DocumentState.QUARANTINED,))
            codes.update(status.code or "internal" for status in page.documents)
        return dict(codes)
