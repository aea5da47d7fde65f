"""A worker killed with -9 while it holds a lease: its documents go on under a higher fence, and nothing is embedded twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from kit.embedding_server import EmbeddingServer
from kit.pipeline import paragraphs
from kit.product import COMMAND, Product, await_state


def lease_of(data: Path) -> tuple[int, int] | None:
    """(fence, pid of the worker) of the one leased document."""
    with sqlite3.connect(data / "catalog.sqlite3") as catalog:
        row = catalog.execute("SELECT fence, pid FROM documents JOIN sessions USING (session_id)").fetchone()
    return None if row is None else (row[0], row[1])


@pytest.mark.process
def test_a_killed_workers_documents_are_finished_by_another_under_a_higher_fence(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(paragraphs("A", "B", "C"), "utf-8")
    with EmbeddingServer(hang=True, hang_only=("MARK-",)) as server:
        product = Product(
            tmp_path / "data",
            {
                "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "openai",
                "EVERCURRENT_INDEXER__EMBEDDING__BASE_URL": server.base_url,
                "EVERCURRENT_INDEXER__EMBEDDING__MODEL": "counting",
                "EVERCURRENT_INDEXER__EMBEDDING__DIMENSIONS": "32",
                "EVERCURRENT_INDEXER__SPLIT__CHUNK_CHARS_MAX": "200",
            },
        )
        sync = subprocess.Popen(
            [*COMMAND, "sync", str(docs), "--json"], env=product.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        server.wait_hanging(deadline_seconds=60)
        before = lease_of(product.data)
        assert before is not None
        os.kill(before[1], signal.SIGKILL)
        await_state(lambda: (lease_of(product.data) or before)[0] > before[0], "another worker holds the lease", 30)
        after = lease_of(product.data)
        server.release()
        _, stderr = sync.communicate(timeout=60)
    assert sync.returncode == 0, stderr.decode()
    assert after is not None
    print(f"fence before the kill {before[0]} (worker {before[1]}), after it {after[0]} (worker {after[1]})")
    assert (after[0] > before[0], after[1] != before[1]) == (True, True)
    exported = product.succeed("export").lines
    assert [row["text"][:6] for row in exported] == ["MARK-A", "MARK-B", "MARK-C"]
    assert product.succeed("check", "--json").json == {"ok": True, "findings": []}
