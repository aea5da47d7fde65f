"""How long a job's stages took: measured around each stage, tallied once a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from store.catalog.tallying import histogram_tallies
from store.clock import Clock
from store.ports import Tally

STAGE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets, seconds."""


class Stage(StrEnum):
    LEASE = "lease"
    FETCH = "fetch"
    DRAFT = "draft"
    """Load, cut, identify, plan."""
    EMBED = "embed"
    COMMIT = "commit"


class StageTimes:
    """Of one job: what its documents spent in each stage, added up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds: dict[Stage, float] = {}

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Counts a stage that raises, too."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + self._clock.monotonic() - began

    def tallies(self) -> list[Tally]:
        """One observation of `evercurrent_stage_seconds` a stage that ran."""
        return [
            tally
            for stage, seconds in self._seconds.items()
            for tally in histogram_tallies("evercurrent_stage_seconds", seconds, STAGE_SECONDS, (("stage", stage.value),))
        ]
