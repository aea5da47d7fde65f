"""`sync` with a real queue and real workers, from the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kit.commands import Said, command, environment
from kit.embedding_server import EmbeddingServer

from store.broker import find_broker

HEAVY = ("numpy", "rq", "redis", "fastapi", "uvicorn", "starlette", "openai", "tantivy")


def folder_of_documents(folder: Path) -> Path:
    docs = folder / "docs"
    (docs / "guide").mkdir(parents=True)
    (docs / "guide" / "install.md").write_text("# Install\n\nTurn the key until it clicks.\n", "utf-8")
    (docs / "guide" / "use.md").write_text("# Use\n\nPress the button twice.\n", "utf-8")
    (docs / "zh.md").write_text("# 安装\n\n请先关闭电源，再打开盖子。\n", "utf-8")
    (docs / "empty.txt").write_text("")
    (docs / "picture.png").write_bytes(b"\x89PNG")
    return docs


def numbers(**some: int) -> dict[str, int]:
    return dict.fromkeys(("added", "updated", "unchanged", "moved", "deleted", "failed", "empty", "ignored"), 0) | some


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    """A folder indexed once, and what that pass said. The tests that share it only look."""
    folder = tmp_path_factory.mktemp("sync")
    docs = folder_of_documents(folder)
    (docs / "noise.txt").write_bytes(bytes(range(128, 256)) * 20)
    return folder, command("sync", docs, data=folder / "data")


@pytest.mark.process
def test_a_first_pass_indexes_and_names_what_failed(indexed: tuple[Path, Said]) -> None:
    said = indexed[1]
    assert (said.code, said.words["documents"]) == (1, numbers(added=4, failed=1, empty=1, ignored=1))
    assert (said.words["embedded"], [failure["document"] for failure in said.words["failures"]]) == (3, ["noise.txt"])


@pytest.mark.process
def test_a_pass_with_nothing_to_do_embeds_nothing_and_starts_nothing(indexed: tuple[Path, Said]) -> None:
    folder = indexed[0]
    said = command("sync", folder / "docs", data=folder / "data")
    assert (said.code, said.words["documents"], said.words["embedded"]) == (1, numbers(unchanged=4, failed=1, ignored=1), 0)
    assert find_broker(folder / "data", None) is None


@pytest.mark.process
@pytest.mark.parametrize("verb", ["sync", "plan"])
def test_finding_nothing_changed_imports_nothing_heavy(indexed: tuple[Path, Said], verb: str) -> None:
    code = f"import sys; from evercurrent.cli import main; main(sys.argv[1:]); print([m for m in {HEAVY} if m in sys.modules])"
    line = [sys.executable, "-P", "-c", code, verb, "docs", "--data", "data"]
    done = subprocess.run(line, cwd=indexed[0], env=environment(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.process
def test_search_and_export_answer_from_the_catalog_when_nothing_runs(indexed: tuple[Path, Said]) -> None:
    data = indexed[0] / "data"
    hits = command("search", "turn the key", "--mode", "keyword", data=data).words["hits"]
    assert hits[0]["document"] == "guide/install.md"
    assert command("export", "--no-version", data=data).words.count("\n") == 3
    assert command("check", data=data).words == {"ok": True, "findings": []}


@pytest.mark.process
def test_plan_foretells_what_sync_does_and_a_part_is_only_that_part(tmp_path: Path) -> None:
    docs, data = folder_of_documents(tmp_path), tmp_path / "data"
    command("sync", docs, data=data)
    (docs / "guide" / "use.md").rename(docs / "guide" / "usage.md")
    (docs / "zh.md").unlink()
    (docs / "guide" / "install.md").write_text("# Install\n\nTurn the key until it clicks. Then let go.\n", "utf-8")
    planned, done = command("plan", docs, data=data).words, command("sync", docs, data=data).words
    assert {part: planned[part] for part in ("documents", "chunks", "embedded", "reused")} == {
        part: done[part] for part in ("documents", "chunks", "embedded", "reused")
    }
    assert done["documents"] == numbers(updated=1, unchanged=1, moved=1, deleted=1, ignored=1)
    assert (done["chunks"]["moved"], done["embedded"]) == (1, 1)
    (docs / "new.md").write_text("outside of the scope\n", "utf-8")
    (docs / "guide" / "more.md").write_text("inside of the scope\n", "utf-8")
    assert command("sync", docs / "guide", data=data).words["documents"] == numbers(added=1, unchanged=2)
    assert "new.md" not in {row["document"] for row in command("documents", data=data).words["documents"]}


@pytest.mark.process
def test_plan_foretells_what_a_sync_does_after_another_recipe(tmp_path: Path) -> None:
    docs, data = folder_of_documents(tmp_path), tmp_path / "data"
    (docs / "noise.txt").write_bytes(bytes(range(128, 256)) * 20)
    command("sync", docs, data=data)
    (docs / "zh.md").write_text("# 安装\n\n请先关闭电源。\n", "utf-8")
    (docs / "new.md").write_text("# New\n\nAdded beside the new recipe.\n", "utf-8")
    finer = {"EVERCURRENT_INDEXER__SPLIT__CHUNK_CHARS_MAX": "500"}
    planned, done = command("plan", docs, data=data, **finer).words, command("sync", docs, data=data, **finer).words
    assert planned["documents"] == done["documents"] == numbers(added=1, updated=4, failed=1, empty=1, ignored=1)
    assert command("plan", docs, data=data, **finer).words["documents"] == numbers(unchanged=5, failed=1, ignored=1)


@pytest.mark.process
def test_plan_counts_what_an_interrupted_sync_left(tmp_path: Path) -> None:
    docs, data = folder_of_documents(tmp_path), tmp_path / "data"
    command("sync", docs, data=data)
    (docs / "guide" / "use.md").write_text("# Use\n\nPress the button thrice.\n", "utf-8")
    (docs / "more.md").write_text("# More\n\nNoticed, and not indexed.\n", "utf-8")
    record_only(docs, data)
    assert command("status", data=data).words["documents"]["pending"] == 2
    planned, done = command("plan", docs, data=data).words, command("sync", docs, data=data).words
    assert {part: planned[part] for part in ("documents", "chunks", "embedded")} == {
        part: done[part] for part in ("documents", "chunks", "embedded")
    }
    assert done["documents"] == numbers(added=1, updated=1, unchanged=3, ignored=1)


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sync_says_at_once_that_it_ends_and_hurries_when_told_again(tmp_path: Path, number: int) -> None:
    docs, data = folder_of_documents(tmp_path), tmp_path / "data"
    with EmbeddingServer() as server:
        server.behaviour.hang, server.behaviour.hang_only = True, ("button",)
        settings = {"PROVIDER": "openai", "BASE_URL": server.base_url, "MODEL": "m", "DIMENSIONS": "8", "API_KEY": "k"}
        own = environment(**{f"EVERCURRENT_INDEXER__EMBEDDING__{name}": value for name, value in settings.items()})
        line = [sys.executable, "-P", "-m", "evercurrent", "sync", str(docs), "--data", str(data)]
        with subprocess.Popen(line, env=own, stderr=subprocess.PIPE, text=True) as process:
            server.wait_hanging()
            process.send_signal(number)
            assert process.stderr is not None
            first = process.stderr.readline()
            assert first == "Stopping: running jobs finish first (at most 45 s; Ctrl-C again hurries).\n"
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 3
            assert process.stderr.read() == "evercurrent: Interrupted; the next `evercurrent sync` finishes the rest.\n"


def record_only(docs: Path, data: Path) -> None:
    """What a sync that was interrupted before any work was done leaves behind."""
    from evercurrent.passes import look, record
    from evercurrent.targets import targets_of
    from indexer.wiring import open_catalog, rules_of
    from store.clock import SystemClock
    from store.config import load_config
    from store.folder import DataFolder
    from store.model import CollectionId, CollectionName, Namespace

    config, clock, folder = load_config(None), SystemClock(), DataFolder(data)
    home = CollectionId(Namespace("default"), CollectionName("main"))
    catalog = open_catalog(folder, config, clock)
    targets = targets_of([str(docs)], catalog.roots(home), home)
    record(catalog, look(catalog, targets, rules_of(config, folder), clock))
    catalog.close()
