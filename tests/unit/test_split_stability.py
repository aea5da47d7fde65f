"""What an edit costs, measured with a seed on every kind of text that the benchmark makes: the bound is a law, not an average."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from indexer.split.cut import SplitSettings


def bench() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "bench/split_stability.py"
    spec = importlib.util.spec_from_file_location("split_stability", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BENCH = bench()


@pytest.mark.parametrize("kind", list(BENCH.KINDS))
def test_a_random_edit_costs_two_chunks_on_average_and_four_in_nearly_all_cases(kind: str) -> None:
    row = BENCH.measure_stability(kind, edits=100, seed=11, settings=SplitSettings(), sizes=(20_000,))
    assert row["mean"] <= 2
    assert row["p99"] <= 4
    assert row["max"] <= 7


@pytest.mark.parametrize("kind", list(BENCH.KINDS))
def test_the_median_chunk_is_at_least_half_of_the_maximum(kind: str) -> None:
    row = BENCH.measure_stability(kind, edits=0, seed=12, settings=SplitSettings(), sizes=(60_000,))
    assert row["median_length"] >= 0.5
    assert row["shorter_than_min"] <= 0.02
