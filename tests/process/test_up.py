"""`up`: everything on one machine, from the outside."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from kit.commands import Up, command, is_running, up, wait_until


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# Alpha\n\nthe heron stands in the reeds\n", "utf-8")
    return folder


def hits(running: Up, query: str) -> list[str]:
    url = running.told["urls"]["retriever"] + "/v1/collections/main/search"
    body = json.dumps({"query": query, "mode": "keyword"}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=20) as answer:
        return [hit["document"] for hit in json.load(answer)["hits"]]


def get(url: str, body: bytes | None = None) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
        return answer.read().decode("utf-8")


@pytest.mark.process
def test_an_edit_a_rename_and_a_deletion_change_the_answers(docs: Path, tmp_path: Path) -> None:
    with up(docs, data=tmp_path / "data") as running:
        intake = running.told["urls"]["intake"]
        wait_until(lambda: "ready" in get(intake + "/healthz").replace("ok", "ready"), "the intake is healthy")
        assert json.loads(get(intake + "/v1/settle?timeout=60", b"")) == {"settled": True}
        assert hits(running, "heron") == ["a.md"]
        (docs / "b.md").write_text("# Beta\n\na kingfisher waits on the branch\n", "utf-8")
        wait_until(lambda: hits(running, "kingfisher") == ["b.md"], "the new document is found")
        (docs / "b.md").rename(docs / "c.md")
        wait_until(lambda: hits(running, "kingfisher") == ["c.md"], "it is found under its new name")
        (docs / "c.md").unlink()
        wait_until(lambda: hits(running, "kingfisher") == [], "it is found no more")
        attached = command("sync", docs, data=tmp_path / "data")
        assert (attached.code, attached.words["documents"]["unchanged"]) == (0, 1)
        assert command("status", "--wait", "30", data=tmp_path / "data").words["documents"]["pending"] == 0
        assert "<h2>" in get(intake + "/")
        assert "evercurrent_embedded_texts_total" in get(intake + "/metrics")
        assert "RQ dashboard" in get(running.told["urls"]["dashboard"] + "/")
        pids = [row["pid"] for row in running.told["processes"]]
        assert running.stop() == 0
        assert not (tmp_path / "data" / "up.json").exists()
        wait_until(lambda: not any(map(is_running, pids)), "every process has ended")


@pytest.mark.process
def test_a_second_up_on_the_data_folder_is_refused_and_a_taken_port_named(docs: Path, tmp_path: Path) -> None:
    with up(docs, data=tmp_path / "data", EVERCURRENT_EVERCURRENT__DASHBOARD__ENABLED="false") as running:
        second = command("up", docs, data=tmp_path / "data")
        assert (second.code, second.words["error"]["code"]) == (2, "already_up")
        port = running.told["urls"]["intake"].rpartition(":")[2]
        third = command("up", docs, data=tmp_path / "other", EVERCURRENT_INDEXER__HTTP__PORT=port)
        assert (third.code, third.words["error"]["code"]) == (2, "port_taken")


@pytest.mark.process
def test_a_role_that_ended_comes_back_on_its_port_and_all_die_with_the_supervisor(docs: Path, tmp_path: Path) -> None:
    with up(docs, data=tmp_path / "data", EVERCURRENT_EVERCURRENT__DASHBOARD__ENABLED="false") as running:
        before, url = running.pid_of("retriever"), running.told["urls"]["retriever"]
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: running.pid_of("retriever") != before, "the retriever was started again", 60)
        wait_until(lambda: answers(url + "/healthz"), "it answers on its old port", 60)
        pids = [row["pid"] for row in running.told["processes"]]
        running.stop(signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, pids)), "every process has ended with its supervisor")


def answers(url: str) -> bool:
    try:
        return bool(get(url))
    except OSError:
        return False
