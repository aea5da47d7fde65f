"""`sync` with a real queue and real workers, from the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kit.commands import command, environment

from store.broker import find_broker

HEAVY = ("numpy", "rq", "redis", "fastapi", "uvicorn", "starlette", "openai", "tantivy")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of documents, indexed once for the module's tests. They run in order and leave it in order."""
    folder = tmp_path_factory.mktemp("sync")
    docs = folder / "docs"
    (docs / "guide").mkdir(parents=True)
    (docs / "guide" / "install.md").write_text("# Install\n\nTurn the key until it clicks.\n", "utf-8")
    (docs / "guide" / "use.md").write_text("# Use\n\nPress the button twice.\n", "utf-8")
    (docs / "zh.md").write_text("# 安装\n\n请先关闭电源，再打开盖子。\n", "utf-8")
    (docs / "empty.txt").write_text("")
    (docs / "noise.txt").write_bytes(bytes(range(128, 256)) * 20)
    (docs / "picture.png").write_bytes(b"\x89PNG")
    return folder


@pytest.mark.process
def test_a_first_pass_indexes_and_names_what_failed(home: Path) -> None:
    said = command("sync", home / "docs", data=home / "data")
    assert said.code == 1
    assert said.words["documents"] == {
        **{"added": 4, "updated": 0, "unchanged": 0, "moved": 0},
        **{"deleted": 0, "failed": 1, "empty": 1, "ignored": 1},
    }
    assert (said.words["embedded"], [failure["document"] for failure in said.words["failures"]]) == (3, ["noise.txt"])


@pytest.mark.process
def test_a_pass_with_nothing_to_do_embeds_nothing_and_starts_nothing(home: Path) -> None:
    (home / "docs" / "noise.txt").unlink()
    command("sync", home / "docs", data=home / "data")
    said = command("sync", home / "docs", data=home / "data")
    assert (said.code, said.words["documents"]["unchanged"], said.words["embedded"]) == (0, 4, 0)
    assert find_broker(home / "data", None) is None


@pytest.mark.process
@pytest.mark.parametrize("verb", ["sync", "plan"])
def test_finding_nothing_changed_imports_nothing_heavy(home: Path, verb: str) -> None:
    code = f"import sys; from evercurrent.cli import main; main(sys.argv[1:]); print([m for m in {HEAVY} if m in sys.modules])"
    line = [sys.executable, "-P", "-c", code, verb, "docs", "--data", "data"]
    done = subprocess.run(line, cwd=home, env=environment(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.process
def test_plan_foretells_what_sync_does(home: Path) -> None:
    docs = home / "docs"
    (docs / "guide" / "use.md").rename(docs / "guide" / "usage.md")
    (docs / "zh.md").unlink()
    (docs / "guide" / "install.md").write_text("# Install\n\nTurn the key until it clicks. Then let go.\n", "utf-8")
    planned = command("plan", docs, data=home / "data").words
    done = command("sync", docs, data=home / "data").words
    for part in ("documents", "chunks", "embedded", "reused"):
        assert planned[part] == done[part]
    assert done["documents"] == {
        **{"added": 0, "updated": 1, "unchanged": 1, "moved": 1},
        **{"deleted": 1, "failed": 0, "empty": 0, "ignored": 1},
    }
    assert (done["chunks"]["moved"], done["embedded"]) == (1, 1)


@pytest.mark.process
def test_a_pass_over_a_part_touches_only_that_part(home: Path) -> None:
    docs = home / "docs"
    (docs / "new.md").write_text("outside of the scope\n", "utf-8")
    (docs / "guide" / "more.md").write_text("inside of the scope\n", "utf-8")
    assert command("sync", docs / "guide", data=home / "data").words["documents"]["added"] == 1
    listed = command("documents", data=home / "data").words["documents"]
    assert "new.md" not in {row["document"] for row in listed}


@pytest.mark.process
def test_search_and_export_answer_from_the_catalog_when_nothing_runs(home: Path) -> None:
    hits = command("search", "turn the key", "--mode", "keyword", data=home / "data").words["hits"]
    assert hits[0]["document"] == "guide/install.md"
    exported = command("export", "--no-version", data=home / "data").words
    assert exported.count("\n") == 3
    assert command("check", data=home / "data").words == {"ok": True, "findings": []}
