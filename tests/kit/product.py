"""The product as a user has it: the command in its own process, a running `up`, HTTP. Nothing is imported from the rooms."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-P", "-m", "evercurrent")
PATIENCE_SECONDS = 120.0
ANY_PORT = {
    "EVERCURRENT_INDEXER__HTTP__PORT": "0",
    "EVERCURRENT_RETRIEVER__HTTP__PORT": "0",
    "EVERCURRENT_EVERCURRENT__DASHBOARD__PORT": "0",
}


@dataclass(frozen=True)
class Answer:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


@dataclass
class Product:
    """One data folder, driven by the command. `settings` are environment variables of every process."""

    data: Path
    settings: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    command: tuple[str, ...] = COMMAND
    """What starts it; another one than COMMAND plants faults."""

    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("EVERCURRENT_")}
        return inherited | {"EVERCURRENT_DATA": str(self.data)} | ANY_PORT | self.settings

    def run(self, *arguments: str, seconds_max: float = PATIENCE_SECONDS) -> Answer:
        done = subprocess.run(
            [*self.command, *arguments],
            env=self.environment(),
            cwd=self.cwd or self.data.parent,
            capture_output=True,
            timeout=seconds_max,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def succeed(self, *arguments: str, seconds_max: float = PATIENCE_SECONDS) -> Answer:
        answer = self.run(*arguments, seconds_max=seconds_max)
        assert answer.code == 0, f"{arguments} ended with {answer.code}: {answer.stderr[-2000:]} {answer.stdout[-2000:]}"
        return answer

    def export(self, *arguments: str) -> str:
        return self.succeed("export", "--no-version", *arguments).stdout

    @contextmanager
    def up(self, *paths: str) -> Iterator[Up]:
        """A running `up`, ready; stopped by SIGTERM at the end, and killed if that does not help."""
        log = self.data.parent / f"{self.data.name}-up.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self.command, "up", *paths], env=self.environment(), cwd=self.cwd or self.data.parent, stdout=output, stderr=output
            )
        try:
            await_state(lambda: self._ready(process, log), "up is ready")
            yield Up(self, process, json.loads((self.data / "up.json").read_text("utf-8")))
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def _ready(self, process: subprocess.Popen[bytes], log: Path) -> bool:
        assert process.poll() is None, f"up ended with {process.returncode}: {log.read_text('utf-8')[-3000:]}"
        return (self.data / "up.json").exists()


@dataclass
class Up:
    product: Product
    process: subprocess.Popen[bytes]
    running: dict[str, Any]

    def url(self, role: str) -> str:
        return str(self.running["urls"][role]).rstrip("/")

    def pid(self, role: str) -> int:
        return next(int(process["pid"]) for process in self.running["processes"] if process["role"] == role)

    def search(self, query: str, mode: str = "hybrid", k: int = 10, **more: Any) -> dict[str, Any]:
        body = {"query": query, "mode": mode, "k": k, **more}
        return post_json(f"{self.url('retriever')}/v1/collections/main/search", body)

    def found(self, query: str, mode: str = "keyword", k: int = 10) -> list[str]:
        return [hit["document"] for hit in self.search(query, mode, k)["hits"]]

    def settle(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Returns when every source event before this call is indexed and served."""
        answer = self.product.run("status", "--wait", str(seconds), "--json", seconds_max=seconds + 30)
        assert answer.code == 0, f"not settled within {seconds} s: {answer.stdout} {answer.stderr}"

    def metric(self, name: str, role: str = "intake") -> float:
        """Sum over all label sets of a counter or gauge."""
        with urllib.request.urlopen(f"{self.url(role)}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        values = [line.rsplit(" ", 1) for line in lines if line.startswith((name + " ", name + "{"))]
        return sum(float(value) for _, value in values)


def post_json(url: str, body: dict[str, Any], headers: dict[str, str] | None = None, seconds_max: float = 30) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})}, method="POST")
    with urllib.request.urlopen(request, timeout=seconds_max) as response:
        answered: dict[str, Any] = json.load(response)
        return answered


def get_json(url: str, seconds_max: float = 30) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=seconds_max) as response:
        answered: dict[str, Any] = json.load(response)
        return answered


def await_state(holds: Callable[[], bool], what: str, seconds_max: float = PATIENCE_SECONDS) -> None:
    """Waits until the named state holds; fails, naming it, when it does not within `seconds_max`."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds_max} s: {what}"
        pause.wait(0.02)
