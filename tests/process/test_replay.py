"""Years of documentation changes replayed into a watched folder: the index ends equal to one built from scratch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.product import Product, Up
from kit.shared import shared_path
from kit.streams import STREAMS, replay

HASHING = {"EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing", "EVERCURRENT_EVERCURRENT__DASHBOARD__ENABLED": "false"}
WATCH_ONLY = {"EVERCURRENT_INDEXER__WATCH__RECONCILE_SECONDS": "0"}
LOST = frozenset({"inbox_overflow", "watch_degraded", "watch_died", "watching_failed"})
SETTLE_SECONDS = 300.0
MEASURED_MAX = 12
EVERY = 4
"""Every fourth stretch of pure renames is settled before and after, to count what it embeds: up to twelve a stream."""


@pytest.mark.shared
@pytest.mark.process
@pytest.mark.parametrize("stream", STREAMS)
def test_a_replayed_history_equals_a_fresh_index(stream: str, tmp_path: Path) -> None:
    events = shared_path(f"data/events/{stream}.jsonl.xz")
    docs = tmp_path / "docs"
    docs.mkdir()
    live = Product(tmp_path / "live", HASHING | WATCH_ONLY)
    with live.up(str(docs)) as up:
        measure = RenameMeasure(up)
        counts = replay(events, docs, measure)
        up.settle(SETTLE_SECONDS)
    replayed = live.export()
    fresh = Product(tmp_path / "fresh", HASHING)
    fresh.succeed("sync", str(docs), "--json", seconds_max=600)
    print(f"{stream}: comparisons that lost events forced: {forced_comparisons(live)}")
    print(f"{stream}: {dict(counts)}; {measure.measured} stretches of pure renames embedded {measure.embedded:.0f} texts")
    assert min(counts["write"], counts["rename"], counts["delete"], measure.measured) > 0
    assert measure.embedded == 0
    assert replayed.splitlines() == fresh.export().splitlines()


def forced_comparisons(product: Product) -> int:
    """How often the watch lost events and said so: what was replayed then reached the ledger by a comparison, not by its event."""
    log = (product.data / "logs" / "indexer.log").read_text("utf-8")
    return sum(json.loads(line)["event"] in LOST for line in log.splitlines())


class RenameMeasure:
    """Settles around stretches of pure renames, and counts the texts embedded in between."""

    def __init__(self, up: Up) -> None:
        self._up = up
        self._before = 0.0
        self.measured = 0
        self.embedded = 0.0

    def before_renames(self, run: int) -> None:
        if self._chosen(run):
            self._up.settle(SETTLE_SECONDS)
            self._before = self._texts()

    def after_renames(self, run: int) -> None:
        if self._chosen(run):
            self._up.settle(SETTLE_SECONDS)
            self.embedded += self._texts() - self._before
            self.measured += 1

    def _chosen(self, run: int) -> bool:
        return run % EVERY == 1 and self.measured < MEASURED_MAX

    def _texts(self) -> float:
        return self._up.metric("evercurrent_embedded_texts_total")
