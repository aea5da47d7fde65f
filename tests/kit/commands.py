"""The real command in real processes: builders for tests that start them. Every wait has a deadline and a named state."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_SECONDS_MAX = 90.0
ANY_PORTS = {
    "EVERCURRENT_INDEXER__HTTP__PORT": "0",
    "EVERCURRENT_RETRIEVER__HTTP__PORT": "0",
    "EVERCURRENT_EVERCURRENT__DASHBOARD__PORT": "0",
    "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing",
    "EVERCURRENT_WORKERS__COUNT": "1",
}


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERCURRENT_") and name != "REDIS_URL"}
    return kept | ANY_PORTS | more


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    words: Any
    """The JSON object on stdout; of several lines (export) the text."""
    stderr: str


def command(*arguments: object, data: Path, **more: str) -> Said:
    """Runs `evercurrent ARGUMENTS --json --data DATA` to its end."""
    line = [sys.executable, "-P", "-m", "evercurrent", *map(str, arguments), "--json", "--data", str(data)]
    done = subprocess.run(line, env=environment(**more), cwd=data.parent, capture_output=True, text=True, timeout=180, check=False)
    return Said(done.returncode, json.loads(done.stdout) if done.stdout.count("\n") == 1 else done.stdout, done.stderr)


@dataclass(slots=True)
class Up:
    """A running `evercurrent up`."""

    process: subprocess.Popen[str]
    data: Path

    @property
    def told(self) -> dict[str, Any]:
        words: dict[str, Any] = json.loads((self.data / "up.json").read_text("utf-8"))
        return words

    def pid_of(self, role: str) -> int:
        return next(int(row["pid"]) for row in self.told["processes"] if row["role"] == role)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def up(*paths: Path, data: Path, **more: str) -> Iterator[Up]:
    """`evercurrent up`, ready when the block begins and gone when it ends."""
    line = [sys.executable, "-P", "-m", "evercurrent", "up", *map(str, paths), "--json", "--data", str(data)]
    process = subprocess.Popen(
        line, env=environment(**more), cwd=data.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], READY_SECONDS_MAX)
        assert readable, "up was not ready in time"
        assert process.stdout.readline().startswith("{"), process.stderr.read() if process.stderr else ""
        yield Up(process, data)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def wait_until(is_so: Callable[[], bool], what: str, seconds_max: float = 30.0) -> None:
    """Returns when `is_so`; fails naming the state that was not reached."""
    pause, waited = threading.Event(), 0.0
    while not is_so():
        assert waited < seconds_max, f"not reached within {seconds_max} s: {what}"
        pause.wait(0.05)
        waited += 0.05


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text("utf-8", "replace").rpartition(")")[2].split()[0] != "Z"
