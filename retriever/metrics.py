"""What the retriever tells Prometheus: the room's one door to prometheus-client, with a registry of its own.

Nothing is counted at import, and nothing is kept beyond the process: a restart starts these at zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

EXPOSITION_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class SearchOutcome(StrEnum):
    OK = "ok"
    EMPTY = "empty"
    BELOW_THRESHOLD = "below_threshold"
    """Candidates there were, and `min_score` left none."""
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"
    """Answered 429, 503 or 504."""
    REJECTED = "rejected"
    """Answered with another 4xx: the request was wrong."""


class RetrieverMetrics:
    """Counters and gauges of one retriever process. Thread-safe."""

    def __init__(self, version: str) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "evercurrent_search_seconds",
            "Time from the request's arrival to its answer.",
            ["mode"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._searches = Counter("evercurrent_search_total", "Searches by mode and outcome.", ["mode", "outcome"], registry=self._registry)
        self._lag = Gauge(
            "evercurrent_consumer_lag", "Commits in the change log not applied yet by a consumer.", ["consumer"], registry=self._registry
        )
        Info("evercurrent_build", "What is running.", registry=self._registry).info({"version": version, "role": "retriever"})

    def count_search(self, mode: str, outcome: SearchOutcome, seconds: float) -> None:
        self._searches.labels(mode, outcome.value).inc()
        self._seconds.labels(mode).observe(seconds)

    def exposition(self, lags: Mapping[str, int]) -> bytes:
        """The metrics as Prometheus text; `lags`: commits behind the head, a consumer."""
        for consumer, commits in lags.items():
            self._lag.labels(consumer).set(commits)
        return generate_latest(self._registry)
