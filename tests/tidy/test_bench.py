"""Benches: each has a stored run, names what stands beside it, and its run tells of the machine but not whose it is."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
PARTS = re.compile(r"spine_\w+")
BENCHES = sorted(path.stem for path in BENCH.glob("*.py") if not PARTS.fullmatch(path.stem))
NEED_COLLECTIONS = {"keywords", "quality"}
"""Benches that read the shared collections."""
STORED = [name for name in BENCHES if name not in NEED_COLLECTIONS]
PATHS = re.compile(r"/(home|root|tmp|work|Users|var|opt)/")


def stored(name: str) -> Any:
    return json.loads((BENCH / "results" / f"{name}.json").read_text("utf-8"))


def row_of(name: str) -> list[str]:
    rows = [line for line in (BENCH / "README.md").read_text("utf-8").splitlines() if line.startswith(f"| `{name}.py` |")]
    assert len(rows) == 1, f"bench/README.md has one row for {name}.py"
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_says_what_it_measures_and_names_its_peer(name: str) -> None:
    _, measures, _, peer, result = row_of(name)
    assert measures
    assert peer
    assert result == ("with the shared collections" if name in NEED_COLLECTIONS else f"`results/{name}.json`")


@pytest.mark.parametrize("name", STORED)
def test_a_bench_that_runs_anywhere_has_a_stored_run(name: str) -> None:
    assert stored(name)


@pytest.mark.parametrize("name", STORED)
def test_a_stored_run_holds_no_path_and_no_host_name(name: str) -> None:
    text = (BENCH / "results" / f"{name}.json").read_text("utf-8")
    assert not PATHS.search(text)
    assert platform.node() not in text or not platform.node()


def test_every_stored_run_is_of_a_bench_that_is_there() -> None:
    assert {path.stem for path in (BENCH / "results").glob("*.json")} <= set(BENCHES)


def test_the_spines_run_holds_machine_load_budgets_floors_and_peers() -> None:
    run = stored("spine")
    passes, saves = run["passes"], run["saves"]
    assert {"cores", "python", "packages"} <= run["machine"].keys()
    assert len(run["load_before"]) == len(run["load_after"]) == 3
    assert passes["unchanged"].keys() >= {"budget_seconds", "whole_command_seconds", "floor_walk_and_stat_seconds"}
    assert passes["cold"].keys() >= {"budget_documents_a_second", "documents_a_second", "floor_read_and_hash_documents_a_second"}
    assert passes["catalog"].keys() >= {"budget_bytes_a_chunk", "bytes_a_chunk_beyond_text_and_vector"}
    assert saves.keys() >= {"budget_p50_ms", "keyword", "dense", "floor_inotify_ms"}
    assert all({"name", "versions"} <= peer.keys() or "absent" in peer for peer in (passes["cold"]["peer"], saves["peer"]))
