"""The running product under a failure sequence: `up` started when the sequence needs it, its roles stopped and started by their pids.

Faults that have no outside door are planted by `fault_wiring`, which then stands where the interpreter stood; a queue server that
shall go away and a provider that misbehaves are servers of the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit import fault_wiring
from kit.brokers import alive
from kit.embedding_server import EmbeddingServer
from kit.product import COMMAND, Product, Up, await_state

SETTLE_SECONDS = 0.3
QUEUE_SOCKET_SECONDS = 20.0
KERNEL_QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
PLANTED = frozenset({"watch_limit", "vector_upsert_fail"})
PROVIDER = frozenset({"slow_embed", "embed_429", "embed_short"})


def settings_of(mode: str) -> dict[str, str]:
    """What every sequence starts from: one paragraph is one chunk, one worker, a short settle time."""
    return {
        "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing",
        "EVERCURRENT_INDEXER__SPLIT__CHUNK_CHARS_MAX": "200",
        "EVERCURRENT_INDEXER__SPLIT__OVERLAP_CHARS": "0",
        "EVERCURRENT_INDEXER__WATCH__MODE": mode,
        "EVERCURRENT_INDEXER__WATCH__SETTLE_SECONDS": str(SETTLE_SECONDS),
        "EVERCURRENT_INDEXER__WATCH__SETTLE_SECONDS_MAX": "2",
        "EVERCURRENT_INDEXER__WATCH__POLL_SECONDS": "0.2",
        "EVERCURRENT_WORKERS__COUNT": "1",
        "EVERCURRENT_EVERCURRENT__DASHBOARD__ENABLED": "false",
    }


class Provider(EmbeddingServer):
    """An embedding server that is slow or wrong as a fault says, and remembers every text that was sent to it."""

    def __init__(self, fault: dict[str, Any]) -> None:
        self.sent: list[str] = []
        self._fault = fault
        self._batches = 0
        self._left = int(fault.get("times", 0))
        self._counting = threading.Lock()
        super().__init__(retry_after=str(fault.get("retry_after_s", 1)))

    def answer(self, asked: dict[str, Any], authorization: str | None, path: str) -> tuple[int, dict[str, str], bytes]:
        texts = [asked["input"]] if isinstance(asked["input"], str) else list(asked["input"])
        if not any("MARK-" in text for text in texts):
            return super().answer(asked, authorization, path)
        with self._counting:
            self._batches += 1
            self.sent += texts
            self._spoil()
            answered = super().answer(asked, authorization, path)
            self.behaviour.rate_limited, self.behaviour.one_too_few = 0, False
        tag = self._fault.get("tag", "")
        if self._fault["what"] == "slow_embed" and any(text.startswith(f"MARK-{tag}") for text in texts):
            threading.Event().wait(self._fault["s"])
        return answered

    def _spoil(self) -> None:
        if self._left > 0 and self._batches >= self._fault.get("batch", 1):
            self._left -= 1
            self.behaviour.rate_limited = int(self._fault["what"] == "embed_429")
            self.behaviour.one_too_few = self._fault["what"] == "embed_short"


@dataclass
class Queue:
    """A queue server of the test's own, that can go away and come back at its place."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def socket(self) -> Path:
        return self.folder / "queue.sock"

    def start(self) -> None:
        from store.broker.locate import Answer, find_server_binary, ping

        self.folder.mkdir(exist_ok=True)
        settings = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder), "--save", ""]
        self.process = subprocess.Popen([str(find_server_binary()), *settings], stdout=subprocess.DEVNULL)
        await_state(lambda: ping(self.socket) is Answer.READY, "the queue server answers", QUEUE_SOCKET_SECONDS)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Stage:
    """One data folder with everything that runs over it. Leaving it stops all."""

    folder: Path
    root: Path
    settings: dict[str, str]
    faults: list[dict[str, Any]] = field(default_factory=list)
    own_queue: bool = False
    up: Up | None = None
    provider: Provider | None = None
    queue: Queue | None = None
    reader_url: str | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _up_stack: ExitStack = field(default_factory=ExitStack)
    _frozen: bool = False
    _killed: int = 0
    _started_with: dict[str, str] = field(default_factory=dict)

    @property
    def product(self) -> Product:
        planted = [fault for fault in self.faults if fault["what"] in PLANTED]
        command = fault_wiring.command_with(planted, self.folder) if planted else COMMAND
        return Product(self.folder / "data", self.settings, command=command)

    @property
    def command(self) -> Product:
        """The same data folder, for commands that look: without faults."""
        return Product(self.folder / "data", self.settings)

    @property
    def running(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.folder / "data" / "up.json").read_text("utf-8"))
        return told

    @property
    def is_watcher_stopped(self) -> bool:
        return self._frozen

    def close(self) -> None:
        try:
            self._stop_up()
        finally:
            self._stack.close()

    # --- starting and stopping ---

    def start(self) -> None:
        """Starts everything; returns when it is ready."""
        for fault in self.faults:
            if fault["what"] in PROVIDER and self.provider is None:
                self._open_provider(fault)
            if fault["what"] == "event_queue_limit":
                self.settings["EVERCURRENT_INDEXER__WATCH__INBOX_EVENTS_MAX"] = str(fault["n"])
        if self.own_queue and self.queue is None:
            self.queue = Queue(self.folder / "queue")
            self.queue.start()
            self._stack.callback(self.queue.stop)
            self.settings["REDIS_URL"] = self.queue.url
        self.up = self._up_stack.enter_context(self.product.up(str(self.root)))
        self._started_with = dict(self.settings)

    def stop_watcher(self) -> None:
        """Ends the indexer while the supervisor cannot start it again; workers and retriever stay."""
        assert self.up is not None
        self.up.process.send_signal(signal.SIGSTOP)
        self._frozen = True
        pid = self.pid("indexer")
        os.kill(pid, signal.SIGTERM)
        await_state(lambda: not alive(pid), "the indexer has ended", 30)

    def start_watcher(self) -> None:
        """Everything for the first time, or anew when the settings changed; else the supervisor starts its indexer again."""
        if self.up is None or self.settings != self._started_with:
            self._stop_up()
            self.start()
            return
        self._thaw()
        await_state(lambda: self._is_ready("intake"), "the indexer is ready again", 60)

    def kill_worker(self, name: str) -> None:
        """Kills the whole fleet; the supervisor starts a new one."""
        self._killed = self.pid("worker")
        os.kill(self._killed, getattr(signal, f"SIG{name}"))

    def start_worker(self) -> None:
        await_state(lambda: self.pid("worker") != self._killed, "the supervisor has started a new fleet", 30)

    def start_reader(self) -> None:
        """One more retriever, in a process of its own, that opened before anything changed."""
        port = free_port()
        environment = self.command.environment() | {"EVERCURRENT_RETRIEVER__HTTP__PORT": str(port)}
        log = self._stack.enter_context((self.folder / "reader.log").open("wb"))
        process = subprocess.Popen([*COMMAND, "retriever"], env=environment, cwd=self.folder, stdout=log, stderr=log)
        self._stack.callback(_end, process)
        self.reader_url = f"http://127.0.0.1:{port}"
        await_state(lambda: answers(f"{self.reader_url}/readyz"), "the reader is ready", 60)

    def move_queue(self, action: str) -> None:
        """Lets the queue server go away (`stop`) or come back (`start`)."""
        assert self.queue is not None
        if action == "stop":
            self.queue.stop()
        else:
            self.queue.start()

    def overflow(self, touch: Callable[[], None]) -> None:
        """Makes the kernel drop events: the indexer stands still while its queue fills beyond the limit."""
        pid = self.pid("indexer")
        os.kill(pid, signal.SIGSTOP)
        try:
            touch()
        finally:
            os.kill(pid, signal.SIGCONT)

    def pid(self, role: str) -> int:
        return next(int(process["pid"]) for process in self.running["processes"] if process["role"] == role)

    def _is_ready(self, role: str) -> bool:
        return answers(self.running["urls"][role].rstrip("/") + "/readyz")

    def _open_provider(self, fault: dict[str, Any]) -> None:
        provider = self.provider = Provider(fault)
        self._stack.callback(provider.close)
        self.settings |= {
            "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "openai",
            "EVERCURRENT_INDEXER__EMBEDDING__BASE_URL": provider.base_url,
            "EVERCURRENT_INDEXER__EMBEDDING__MODEL": "counting",
            "EVERCURRENT_INDEXER__EMBEDDING__DIMENSIONS": "32",
        }

    def _thaw(self) -> None:
        if self._frozen and self.up is not None:
            self.up.process.send_signal(signal.SIGCONT)
            self._frozen = False

    def _stop_up(self) -> None:
        self._thaw()
        self._up_stack.close()
        self.up = None


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except (urllib.error.URLError, OSError):
        return False


def free_port() -> int:
    import socket

    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
