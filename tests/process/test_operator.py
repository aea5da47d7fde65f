"""What an operator meets: no disk left, a change of model with a wrong key, a key that must not show, a queue that is emptied."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.commands import command, is_running, up, wait_until
from kit.embedding_server import EmbeddingServer

pytestmark = pytest.mark.process

KEY = "sk-right-0123456789"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 6 MB; skips where nobody may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("mounting a small disk needs root")
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def endpoint(server: EmbeddingServer, key: str = KEY, **more: str) -> dict[str, str]:
    prefix = "EVERCURRENT_INDEXER__EMBEDDING__"
    given = {"PROVIDER": "openai", "BASE_URL": server.base_url, "MODEL": "small", "API_KEY": key, **more}
    return {prefix + name: value for name, value in given.items()}


def folder_of(tmp_path: Path, count: int, words: int = 3) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(count):
        (source / f"{number:04}.md").write_text(f"# Heading {number}\n\n" + " ".join(f"word{number}x{place}" for place in range(words)))
    return source


def test_a_disk_that_fills_ends_the_sync_and_once_there_is_room_the_rest_is_indexed(tmp_path: Path, small_disk: Path) -> None:
    source, data = folder_of(tmp_path, 300, 1_000), small_disk / "data"
    full = command("sync", source, data=data)
    assert (full.code, full.words["error"]["code"]) == (3, "catalog_full")
    assert "Traceback" not in full.stderr
    assert command("check", data=data).words == {"ok": True, "findings": []}
    before = command("status", data=data).words["documents"]
    assert (before["quarantined"], before["indexed"] + before["pending"]) == (0, 300)
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    rest = command("sync", source, data=data)
    assert (rest.code, rest.words["documents"]["added"], rest.words["documents"]["failed"]) == (0, 300 - before["indexed"], 0)
    assert command("check", data=data).words["ok"]


def test_a_wrong_key_is_wrong_use_and_shows_nowhere(tmp_path: Path) -> None:
    source, data, wrong = folder_of(tmp_path, 2), tmp_path / "data", "sk-wrong-MUSTNOTSHOW"
    with EmbeddingServer(key=KEY) as server:
        for verb in ("sync", "up"):
            said = command(verb, source, data=data, **endpoint(server, wrong))
            assert (said.code, said.words["error"]["code"]) == (2, "embedder_refused")
            assert wrong not in said.stderr + json.dumps(said.words)
        assert command("sync", source, data=data, **endpoint(server)).code == 0
        assert command("search", "Heading", data=data, **endpoint(server, wrong)).words["degraded"] == ["dense"]
    for file in (path for path in data.rglob("*") if path.is_file()):
        assert not any(key.encode() in file.read_bytes() for key in (KEY, wrong)), file


def test_a_change_of_model_with_a_wrong_key_takes_nothing_out_of_the_answers(tmp_path: Path) -> None:
    source, data = folder_of(tmp_path, 3), tmp_path / "data"
    with EmbeddingServer(key=KEY) as server:
        assert command("sync", source, data=data, **endpoint(server)).code == 0
        other = {"DIMENSIONS": "9"}
        said = command("sync", source, data=data, **endpoint(server, "sk-wrong", **other))
        assert (said.code, said.words["error"]["code"]) == (2, "embedder_refused")
        found = command("search", "Heading", "--mode", "dense", data=data, **endpoint(server)).words["hits"]
        assert len({hit["document"] for hit in found}) == 3
        assert command("sync", source, data=data, **endpoint(server, **other)).words["embedded"] == 3
        assert command("status", data=data).words["documents"]["pending"] == 0


def test_a_change_of_splitter_is_served_by_the_sync_that_made_it(tmp_path: Path) -> None:
    source, data = folder_of(tmp_path, 2, 300), tmp_path / "data"
    (source / "bad.txt").write_bytes(bytes(range(256)) * 8)
    assert command("sync", source, data=data).code == 1
    fine = {"EVERCURRENT_INDEXER__SPLIT__CHUNK_CHARS_MAX": "300"}
    assert command("sync", source, data=data, **fine).code == 1
    assert command("sync", source, data=tmp_path / "fresh", **fine).code == 1
    exported = [command("export", "--no-version", data=folder).words for folder in (data, tmp_path / "fresh")]
    assert exported[0] == exported[1]
    assert all(len(json.loads(line)["text"]) <= 300 for line in exported[0].splitlines())


def test_a_plan_writes_nothing_and_calls_nobody_and_a_stale_one_is_refused(tmp_path: Path) -> None:
    source, data, kept = folder_of(tmp_path, 2), tmp_path / "data", tmp_path / "plan.json"
    with EmbeddingServer(key=KEY) as server:
        sized = endpoint(server, DIMENSIONS="8")
        planned = command("plan", source, "--out", kept, data=data, **sized)
        assert (planned.code, planned.words["embedded"], server.counts.calls, data.exists()) == (0, 2, 0, False)
        (source / "0000.md").write_text("# Another heading")
        refused = command("sync", "--plan", kept, data=data, **sized)
        assert (refused.code, refused.words["error"]["code"]) == (2, "misuse")
        assert "run `evercurrent plan` again" in refused.words["error"]["message"]
        assert server.counts.texts == 0


def test_an_emptied_queue_and_killed_roles_lose_no_save(tmp_path: Path) -> None:
    import redis

    source, data = folder_of(tmp_path, 40), tmp_path / "data"
    with up(source, data=data) as running:
        for role in ("worker", "broker", "indexer", "retriever"):
            (source / f"{role}.md").write_text(f"# After {role}")
            redis.Redis.from_url(running.told["redis"]).flushall() if role == "worker" else None
            pid = running.pid_of(role)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda role=role, pid=pid: running.pid_of(role) != pid and is_running(running.pid_of(role)), f"{role} runs again")
        assert command("status", "--wait", 60, data=data).code == 0
        alive = command("status", data=data).words["processes"]
        assert all(is_running(row["pid"]) for row in alive)
        again = command("up", source, data=data)
        assert (again.code, again.words["error"]["code"]) == (2, "already_up")
        assert running.stop() == 0
    assert command("sync", source, data=tmp_path / "fresh").code == 0
    exported = [command("export", "--no-version", data=folder).words for folder in (data, tmp_path / "fresh")]
    assert exported[0] == exported[1]
