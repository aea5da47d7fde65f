"""What processes that stay say to the person who started them: on stderr, one line each."""

from __future__ import annotations

import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.commands import environment, up

pytestmark = pytest.mark.process

SILENT = "redis://127.0.0.1:1/0"


@contextmanager
def role(name: str, data: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, "-P", "-m", "evercurrent", name, "--data", str(data)]
    with subprocess.Popen(line, env=environment(**more), stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def next_line(process: subprocess.Popen[str], seconds_max: float = 60) -> str:
    assert process.stderr is not None
    assert select.select([process.stderr], [], [], seconds_max)[0], "nothing was said in time"
    return process.stderr.readline()


def test_up_says_at_once_that_it_stops(tmp_path: Path) -> None:
    with up(data=tmp_path / "data") as running:
        assert running.stop() == 0
        assert running.process.stderr is not None
        assert running.process.stderr.read() == "Stopping: running jobs finish first (at most 45 s; Ctrl-C again hurries).\n"


def test_a_retriever_by_hand_says_where_it_answers(tmp_path: Path) -> None:
    with role("retriever", tmp_path / "data") as process:
        assert re.fullmatch(r"The retriever is ready \(http://127\.0\.0\.1:\d+\); its log is \S+/retriever\.log\. .*\n", next_line(process))


def test_a_worker_says_that_the_queue_does_not_answer(tmp_path: Path) -> None:
    with role("worker", tmp_path / "data", REDIS_URL=SILENT) as process:
        assert next_line(process).startswith(f"The queue at {SILENT} does not answer: ")
        assert next_line(process).startswith("The worker is ready (1 process); its log is ")
