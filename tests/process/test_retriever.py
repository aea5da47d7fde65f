"""The retriever as a process: it answers what another process committed, beats, shares no files, and drains on SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from kit.retrieving import Library

from retriever.premises import beats
from store.catalog.sqlite import SqliteCatalog
from store.clock import SystemClock
from store.folder import DataFolder

pytestmark = pytest.mark.process

DEADLINE_SECONDS = 30
ROLE = """
import json, sys
from pathlib import Path
from retriever.serve import serve
from store.config import Config
from store.errors import Misuse
from store.telemetry import log_to_file
log_to_file(Path(sys.argv[1]) / "logs" / "retriever.log", "retriever")
try:
    code = serve(Path(sys.argv[1]), Config(), lambda told: print(json.dumps(told), flush=True))
except Misuse as error:
    print(json.dumps({"code": error.code, "message": error.message}), flush=True)
    code = 2
sys.exit(code)
"""


@dataclass
class Retriever:
    process: subprocess.Popen[str]
    told: dict[str, Any]

    def ask(self, **body: Any) -> httpx.Response:
        return httpx.post(f"{self.told['url']}/v1/collections/main/search", json=body, timeout=DEADLINE_SECONDS)

    def found(self, query: str, mode: str = "hybrid") -> list[str]:
        return [hit["document"] for hit in self.ask(query=query, mode=mode).json()["hits"]]

    def is_ready(self) -> bool:
        return httpx.get(f"{self.told['url']}/readyz").status_code == 200

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_SECONDS)


Start = Callable[..., Retriever]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    catalog = SqliteCatalog.open(tmp_path, SystemClock())
    yield Library(catalog)
    catalog.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start_one(port: int = 0, patience_seconds: float = 10) -> Retriever:
        settings = {
            "EVERCURRENT_RETRIEVER__HTTP__PORT": str(port),
            "EVERCURRENT_RETRIEVER__BEHIND_SECONDS_MAX": str(patience_seconds),
            "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing",
        }
        environment = {**os.environ, **settings}
        environment.pop("REDIS_URL", None)
        command = [sys.executable, "-c", ROLE, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        started.append(process)
        assert process.stdout is not None
        return Retriever(process, json.loads(process.stdout.readline()))

    yield start_one
    for process in started:
        process.kill()
        process.wait()


def until(state: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + DEADLINE_SECONDS
    while not state():
        assert time.monotonic() < give_up_at


def test_every_query_answers_what_another_process_committed_before_it(library: Library, start: Start) -> None:
    library.put("tides.md", "The tide turns at noon.")
    retriever = start()
    until(retriever.is_ready)
    for day in range(5):
        library.put(f"day-{day}.md", f"The tide of day {day} turns.")
        assert f"day-{day}.md" in retriever.found("tide turns", mode=("dense", "keyword", "hybrid")[day % 3])
    library.delete("tides.md")
    assert "tides.md" not in retriever.found("tide turns")


def test_it_beats_with_the_seq_it_has_applied_and_falls_silent_when_stopped(library: Library, start: Start, tmp_path: Path) -> None:
    library.put("tides.md", "The tide turns at noon.")
    retriever, folder = start(), DataFolder(tmp_path).retriever
    seq = library.put("moon.md", "The moon pulls the sea.")
    until(lambda: [beat.seq for beat in beats(folder)] == [seq])
    (beat,) = beats(folder)
    assert (beat.role, beat.pid, beat.port) == ("retriever", retriever.process.pid, retriever.told["port"])
    assert retriever.stop() == 0
    assert beats(folder) == []


def test_a_second_retriever_has_files_of_its_own_and_answers_the_same(library: Library, start: Start, tmp_path: Path) -> None:
    library.put("tides.md", "The tide turns at noon.")
    first, second = start(), start()
    assert first.found("tide") == second.found("tide") == ["tides.md"]
    assert (tmp_path / "retriever" / "2" / "keywords").is_dir()
    until(lambda: {beat.pid for beat in beats(tmp_path / "retriever")} == {first.process.pid, second.process.pid})


def test_a_killed_retriever_leaves_its_files_to_the_next(library: Library, start: Start, tmp_path: Path) -> None:
    library.put("tides.md", "The tide turns at noon.")
    first = start()
    assert first.found("tide", mode="keyword") == ["tides.md"]
    first.process.kill()
    first.process.wait()
    library.put("moon.md", "The tide follows the moon.")
    assert sorted(start().found("tide", mode="keyword")) == ["moon.md", "tides.md"]
    assert not (tmp_path / "retriever" / "2").exists()


def test_a_stopped_retriever_answers_what_it_has_in_hand_and_takes_nothing_new(library: Library, start: Start) -> None:
    library.put("tides.md", "The tide turns at noon.")
    retriever = start(patience_seconds=2)
    body = json.dumps({"query": "tide", "min_version": {"tides.md": 1_000_000}}).encode()
    with socket.create_connection(("127.0.0.1", retriever.told["port"]), DEADLINE_SECONDS) as line:
        head = f"POST /v1/collections/main/search HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
        line.sendall(head.encode())
        assert line.recv(4096).startswith(b"HTTP/1.1 100")
        line.sendall(body)
        retriever.process.send_signal(signal.SIGTERM)
        assert b" 504 " in line.recv(4096).split(b"\r\n", 1)[0]
    assert retriever.process.wait(DEADLINE_SECONDS) == 0
    with pytest.raises(httpx.ConnectError):
        retriever.ask(query="tide")


def test_a_port_in_use_is_one_sentence_before_anything_is_loaded(library: Library, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = start(taken.getsockname()[1])
    assert refused.told["code"] == "port_taken"
    assert "retriever.http.port" in refused.told["message"]
    assert refused.process.wait(DEADLINE_SECONDS) == 2
