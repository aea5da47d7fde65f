"""The intake's metrics, read afresh at each scrape: this room's door to prometheus-client. Counts nothing itself.

Counters live in the catalog, where they survive restarts and are added in the transaction they count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from store.ports import Tally

EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HELP = {
    "evercurrent_documents_total": "Document versions by what became of them.",
    "evercurrent_jobs_total": "Jobs by outcome.",
    "evercurrent_embedded_texts_total": "Texts sent to the embedder.",
    "evercurrent_embedding_calls_total": "Calls made to the embedder.",
    "evercurrent_reused_texts_total": "Chunks born with a vector that was there already.",
    "evercurrent_embedded_tokens_total": "Tokens the embedding provider counted.",
    "evercurrent_vector_rows_written_total": "Vector rows written.",
    "evercurrent_freshness_seconds": "From noticing a real change to its being searchable.",
    "evercurrent_stage_seconds": "Time spent in a stage.",
}
_ALWAYS = (
    "evercurrent_embedded_texts_total",
    "evercurrent_embedding_calls_total",
    "evercurrent_reused_texts_total",
    "evercurrent_vector_rows_written_total",
)
"""Counters without labels: shown as 0 before anything happened."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is so now."""

    pending_documents: int = 0
    oldest_pending_seconds: float = 0.0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """By code."""
    queue_jobs: Mapping[str, int] = field(default_factory=dict)
    """By state; empty while the broker does not answer."""
    consumer_lags: Mapping[str, int] = field(default_factory=dict)


class IntakeMetrics(Collector):
    def __init__(self, tallies: Callable[[], Sequence[Tally]], gauges: Callable[[], Gauges]) -> None:
        self._tallies = tallies
        self._gauges = gauges
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing in advance: registering must not read the catalog."""
        return []

    def collect(self) -> Iterator[Metric]:
        tallies = self._tallies()
        yield from counters_of(tallies)
        yield from histograms_of(tallies)
        yield from gauges_of(self._gauges())


def counters_of(tallies: Sequence[Tally]) -> Iterator[Metric]:
    by_name: defaultdict[str, list[Tally]] = defaultdict(list, {name: [] for name in _ALWAYS})
    for tally in tallies:
        if tally.name.endswith("_total"):
            by_name[tally.name].append(tally)
    for name, rows in sorted(by_name.items()):
        labels = sorted({label for row in rows for label, _ in row.labels})
        family = CounterMetricFamily(name, _HELP.get(name, name), labels=labels)
        for row in rows:
            values = dict(row.labels)
            family.add_metric([values.get(label, "") for label in labels], row.value)
        if not rows:
            family.add_metric([], 0.0)
        yield family


def histograms_of(tallies: Sequence[Tally]) -> Iterator[Metric]:
    """Histograms as the catalog tallies them: each bucket counts only its own observations, so they are added up here."""
    buckets: defaultdict[tuple[str, tuple[tuple[str, str], ...]], dict[float, float]] = defaultdict(dict)
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for tally in tallies:
        labels = tuple(pair for pair in tally.labels if pair[0] != "le")
        if tally.name.endswith("_bucket"):
            bound = float(dict(tally.labels)["le"].replace("+Inf", "inf"))
            buckets[tally.name.removesuffix("_bucket"), labels][bound] = tally.value
        elif tally.name.endswith("_sum"):
            sums[tally.name.removesuffix("_sum"), labels] = tally.value
    for name in sorted({name for name, _ in buckets}):
        of_name = {labels: rows for (other, labels), rows in buckets.items() if other == name}
        label_names = sorted({label for labels in of_name for label, _ in labels})
        family = HistogramMetricFamily(name, _HELP.get(name, name), labels=label_names)
        for labels, rows in of_name.items():
            values = dict(labels)
            family.add_metric([values.get(label, "") for label in label_names], added_up(rows), sums.get((name, labels), 0.0))
        yield family


def added_up(buckets: Mapping[float, float]) -> list[tuple[str, float]]:
    """Cumulative buckets, the infinite one last, as Prometheus has them."""
    total, rows = 0.0, []
    for bound in sorted({*buckets, float("inf")}):
        total += buckets.get(bound, 0.0)
        rows.append(("+Inf" if bound == float("inf") else f"{bound:g}", total))
    return rows


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """The bound of the bucket in which the quantile falls (the largest finite bound when it is beyond all); None without observations."""
    total = sum(buckets.values())
    if not total:
        return None
    reached, last = 0.0, 0.0
    for bound in sorted(buckets):
        reached += buckets[bound]
        if bound != float("inf"):
            last = bound
        if reached >= share * total:
            return last
    return last


def freshness_buckets(tallies: Sequence[Tally]) -> dict[float, float]:
    """Observations of `evercurrent_freshness_seconds` by upper bound."""
    buckets: defaultdict[float, float] = defaultdict(float)
    for tally in tallies:
        if tally.name == "evercurrent_freshness_seconds_bucket":
            buckets[float(dict(tally.labels)["le"].replace("+Inf", "inf"))] += tally.value
    return dict(buckets)


def gauges_of(gauges: Gauges) -> Iterator[Metric]:
    yield GaugeMetricFamily("evercurrent_pending_documents", "Documents that want work.", value=gauges.pending_documents)
    yield GaugeMetricFamily("evercurrent_oldest_pending_seconds", "Age of the oldest unserved notice.", value=gauges.oldest_pending_seconds)
    yield _labelled("evercurrent_queue_jobs", "Jobs in the queue.", "state", gauges.queue_jobs)
    yield _labelled("evercurrent_quarantined_documents", "Documents set aside.", "code", gauges.quarantined)
    yield _labelled("evercurrent_consumer_lag", "Commits in the change log not applied yet.", "consumer", gauges.consumer_lags)


def _labelled(name: str, help_text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=[label])
    for value, number in sorted(values.items()):
        family.add_metric([value], number)
    return family
