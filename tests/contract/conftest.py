"""Every catalog adapter passes the same suite: `catalog` is each in turn, furnished with one collection and its first root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.builders import ADAPTERS, Worker, furnish, open_adapter

from store.clock import SimulatedClock
from store.ports import Catalog


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture(params=ADAPTERS)
def catalog(request: pytest.FixtureRequest, tmp_path: Path, clock: SimulatedClock) -> Iterator[Catalog]:
    opened = open_adapter(request.param, tmp_path, clock)
    furnish(opened)
    yield opened
    opened.close()


@pytest.fixture
def worker(catalog: Catalog, clock: SimulatedClock) -> Worker:
    return Worker(catalog, clock)


@pytest.fixture
def other(catalog: Catalog, clock: SimulatedClock) -> Worker:
    """A second session."""
    return Worker(catalog, clock)
