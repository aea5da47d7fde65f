"""One event, one job: bursts of saves cost few indexings, end at the last content, and keep nobody else waiting."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from kit.product import Product, Up, await_state, get_json

SETTINGS = {
    "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing",
    "EVERCURRENT_EVERCURRENT__DASHBOARD__ENABLED": "false",
}
BURST = 5_000
JOB_DOCUMENTS_MAX = 64


def saved_every(path: Path, seconds: float, count: int) -> None:
    """Saves a file again and again at a steady pace: what an editor, an export or a log does."""
    pace = threading.Event()
    for number in range(count):
        path.write_text(f"save number {number} of the restless document\n", "utf-8")
        pace.wait(seconds)


def indexings(up: Up) -> float:
    return up.metric("evercurrent_documents_total")


@pytest.mark.process
def test_five_hundred_saves_in_ten_seconds_cost_two_indexings_after_the_last_at_most(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    product = Product(tmp_path / "data", SETTINGS)
    with product.up(str(docs)) as up:
        saved_every(docs / "restless.md", 0.02, 500)
        before = indexings(up)
        up.settle()
        assert indexings(up) - before <= 2
        assert indexings(up) <= 250
        (row,) = product.succeed("export").lines
        assert row["text"] == "save number 499 of the restless document"


@pytest.mark.process
@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_a_file_that_is_saved_without_end_is_indexed_on_the_way(tmp_path: Path, seconds: int) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    product = Product(tmp_path / "data", SETTINGS)
    with product.up(str(docs)) as up:
        writer = threading.Thread(target=saved_every, args=(docs / "restless.md", 0.1, seconds * 10))
        writer.start()
        await_state(lambda: indexings(up) > 0, "the document is indexed while it is being saved", seconds_max=seconds)
        assert writer.is_alive()
        assert up.found("restless document") == ["restless.md"]
        writer.join()
        up.settle()
        (row,) = product.succeed("export").lines
        assert row["text"] == f"save number {seconds * 10 - 1} of the restless document"


@pytest.mark.process
def test_five_thousand_files_at_once_arrive_in_batches_beside_an_intake_that_answers(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    product = Product(tmp_path / "data", SETTINGS)
    with product.up(str(docs)) as up:
        for number in range(BURST):
            if number % 500 == 0:
                (docs / f"{number}").mkdir()
            (docs / f"{number // 500 * 500}" / f"{number}.md").write_text(f"document {number} of the burst\n", "utf-8")
        written_at = time.monotonic()
        assert get_json(f"{up.url('intake')}/healthz", seconds_max=5) == {"status": "ok"}
        await_state(lambda: known(up) == BURST, "the ledger knows every document")
        print(f"the burst of {BURST} was in the ledger {time.monotonic() - written_at:.1f} s after the last write")
        (docs / "lone.md").write_text("a lone save beside the burst\n", "utf-8")
        await_state(lambda: up.found("lone save beside")[:1] == ["lone.md"], "a lone save is searchable beside the burst")
        up.settle()
        assert known(up, "indexed") == BURST + 1
        assert up.metric("evercurrent_jobs_total") <= 4 * BURST / JOB_DOCUMENTS_MAX
        assert up.metric("evercurrent_documents_total") == BURST + 1


def known(up: Up, *states: str) -> int:
    counted = up.product.succeed("status", "--json").json["documents"]
    return sum(counted[state] for state in states or ("indexed", "pending"))
