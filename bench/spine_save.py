"""From the close of a saved file to the moment a retriever process answers with it: by keyword, and by vector.

`up` runs with the `hashing` embedder and is idle. Beside it in the same run: a bare inotify watcher (floor), and Chroma read by a
reader that opens the store anew (peer; it has neither a watcher nor a queue to pay for).
"""

from __future__ import annotations

import http.client
import json
import random
import select
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from spine_parts import await_state, command, peer, quantiles, up, vocabulary, write_documents

BUDGET_P50_MILLISECONDS = 30
DOCUMENTS = 500
BYTES_EACH = 2_000
SAVED_FILES = 50
POLL_SECONDS = 0.001
PAUSE_SECONDS = (0.05, 0.15)
"""Between saves: idle again, and in no step with anything that ticks."""
GIVE_UP_SECONDS = 10.0
WATCHER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
inotify = libc.inotify_init1(0)
assert libc.inotify_add_watch(inotify, os.fsencode(sys.argv[1]), 0x80) >= 0  # IN_MOVED_TO
os.write(1, b"!")
while True:
    os.read(inotify, 4096)
    os.write(1, b".")
"""


def measure_saves(work: Path, saves: int) -> dict[str, Any]:
    tree, data = work / "saved", work / "data-saved"
    write_documents(tree, DOCUMENTS, BYTES_EACH)
    with up(tree, data) as told:
        command("status", "--wait", "120", data=data)
        saver = Saver(tree, data, told["urls"]["retriever"])
        saver.warm_up()
        figures: dict[str, Any] = {
            "budget_p50_ms": BUDGET_P50_MILLISECONDS,
            "saves": saves,
            "keyword": saver.series("keyword", saves),
            "dense": saver.series("dense", saves),
        }
    figures["floor_inotify_ms"] = measure_watcher(work, saves)
    figures["peer"] = peer("chroma_reader.py", work / "chroma", min(saves, 50))
    return figures


class Saver:
    def __init__(self, tree: Path, data: Path, url: str) -> None:
        self._draw = random.Random(11)
        self._words = vocabulary(self._draw)
        self._files = [tree / f"saved-{number}.md" for number in range(SAVED_FILES)]
        self._log = data / "logs" / "worker.log"
        self._catalog = sqlite3.connect(f"file:{data / 'catalog.sqlite3'}?mode=ro", uri=True, isolation_level=None)
        where = urlsplit(url)
        self._http = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
        self._pause = threading.Event()
        self._saves = 0

    def warm_up(self) -> None:
        for _ in range(SAVED_FILES):
            self.save("keyword")
        self.save("dense")

    def series(self, mode: str, saves: int) -> dict[str, Any]:
        rows = []
        for _ in range(saves):
            self._pause.wait(self._draw.uniform(*PAUSE_SECONDS))
            rows.append(self.save(mode))
        return {
            "searchable_ms": quantiles([row["searchable"] for row in rows]),
            "one_search_ms": quantiles([row["search"] for row in rows]),
            "stages_ms": {name: quantiles([row[name] for row in rows]) for name in ("noticed", "planned", "committed", "answered")},
        }

    def save(self, mode: str) -> dict[str, float]:
        """Milliseconds; the stages add up to `searchable`, less what clocks of several processes disagree on."""
        self._saves += 1
        word = f"unique{self._saves}x{self._draw.randrange(10**9)}"
        text = f"# Saved {word}\n\n" + " ".join(self._draw.choices(self._words, k=60)) + "\n"
        file = self._files[self._saves % SAVED_FILES]
        with file.open("w", encoding="utf-8") as output:
            output.write(text)
        closed_at, closed = time.time(), time.perf_counter()
        while True:
            asked = time.perf_counter()
            hits = self._search(mode, word if mode == "keyword" else text)
            answered = time.perf_counter()
            if any(hit["document"] == file.name and word in hit["text"] for hit in hits):
                break
            if answered - closed > GIVE_UP_SECONDS:
                raise SystemExit(f"{file.name} was not found by {mode} within {GIVE_UP_SECONDS} s")
            self._pause.wait(POLL_SECONDS)
        noticed_at, planned_at = self._ledger(file.name)
        committed_at = self._committed_at(file.name)
        searchable = (answered - closed) * 1e3
        return {
            "searchable": searchable,
            "search": (answered - asked) * 1e3,
            "noticed": (noticed_at - closed_at) * 1e3,
            "planned": (planned_at - noticed_at) * 1e3,
            "committed": (committed_at - planned_at) * 1e3,
            "answered": searchable - (committed_at - closed_at) * 1e3,
        }

    def _search(self, mode: str, query: str) -> list[dict[str, Any]]:
        body = json.dumps({"query": query, "mode": mode, "k": 3})
        self._http.request("POST", "/v1/collections/main/search", body, {"Content-Type": "application/json"})
        answer = self._http.getresponse()
        said = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(f"search answered {answer.status}: {said}")
        hits: list[dict[str, Any]] = said["hits"]
        return hits

    def _ledger(self, uri: str) -> tuple[float, float]:
        noticed_at, planned_at = self._catalog.execute(
            "SELECT d.noticed_at, c.at FROM documents d JOIN changes c USING (document_key) WHERE d.uri = ? ORDER BY c.seq DESC LIMIT 1",
            (uri,),
        ).fetchone()
        return noticed_at, planned_at

    def _committed_at(self, uri: str) -> float:
        """When the worker's log says that the transaction was durable."""
        found: list[float] = []

        def is_logged() -> bool:
            lines = self._log.read_bytes()[-4_000:].decode("utf-8", "replace").splitlines()[-8:]
            events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
            times = [event["timestamp"] for event in events if event.get("event") == "document_committed" and event["document"] == uri]
            found[:] = [datetime.fromisoformat(times[-1].replace("Z", "+00:00")).timestamp()] if times else []
            return bool(found)

        await_state(is_logged, f"the commit of {uri} is in the worker's log", 5)
        return found[0]


def measure_watcher(work: Path, saves: int) -> dict[str, float]:
    """os.replace to the wake-up of another process that does nothing but watch."""
    folder = work / "watched"
    folder.mkdir()
    taken = []
    with watcher(folder) as process:
        for number in range(saves):
            draft = work / "draft"
            draft.write_text(f"{number}\n")
            started = time.perf_counter()
            draft.replace(folder / f"file-{number % SAVED_FILES}.md")
            _hear(process)
            taken.append((time.perf_counter() - started) * 1e3)
    return quantiles(taken, 3)


@contextmanager
def watcher(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-I", "-c", WATCHER, str(folder)], stdout=subprocess.PIPE, bufsize=0)
    try:
        _hear(process)
        yield process
    finally:
        process.kill()
        process.wait()


def _hear(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], GIVE_UP_SECONDS)
    if not readable or not process.stdout.read(1):
        raise SystemExit("the bare watcher said nothing")
