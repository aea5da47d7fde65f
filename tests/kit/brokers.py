"""Real queue servers and child processes for tests, and patience with a name for what is waited on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from store.broker import Broker, open_broker
from store.clock import SystemClock

Seen = TypeVar("Seen")


def until(state: str, look: Callable[[], Seen], seconds_max: float = 10.0) -> Seen:
    """The first truthy answer of `look`; fails, naming the state, when there is none in time."""
    clock, pause = SystemClock(), threading.Event()
    give_up_at = clock.monotonic() + seconds_max
    while not (seen := look()):
        assert clock.monotonic() < give_up_at, f"never: {state}"
        pause.wait(0.005)
    return seen


@contextmanager
def running_broker(data_folder: Path) -> Iterator[Broker]:
    with open_broker(data_folder, None, SystemClock()) as broker:
        yield broker


@contextmanager
def child(program: str | Path, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process running `program` (its text, or its file), with its output as a pipe of lines; killed at the end."""
    told = [program] if isinstance(program, Path) else ["-c", program]
    process = subprocess.Popen([sys.executable, "-P", *told, *map(os.fspath, arguments)], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def alive(pid: int) -> bool:
    """Runs, and is not a zombie that nobody has buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)
