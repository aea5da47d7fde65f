"""What runs on a data folder: `up.json`, written by the supervisor, believed only while its writer lives.

Also the small HTTP client of the command: JSON in, JSON out, over the standard library, so that asking costs no import.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from store.errors import EvercurrentError, Misuse, Transient
from store.folder import DataFolder

LOOK_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class RunningProcess:
    role: str
    pid: int
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The supervisor and its processes, ready to be written as `up.json`."""

    pid: int
    processes: tuple[RunningProcess, ...] = ()
    urls: dict[str, str] = field(default_factory=dict)
    """Of `intake`, `retriever`, `dashboard`: those that run."""
    redis: str | None = None
    """The queue's url, without a password."""


class AnswerRefused(EvercurrentError):
    """A server answered with a problem; code and sentence are its own."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(message, status=status)
        self.code = code  # type: ignore[misc]
        self.status = status


class ServerSilent(Transient):
    code = "server_silent"
    sentence = "{url} does not answer: {reason}. Is `evercurrent up` still running?"


def write_running(folder: DataFolder, running: Running) -> None:
    """Replaces `up.json` in one step: a reader sees the old or the new one."""
    fresh = folder.up.with_suffix(".new")
    words = {
        "pid": running.pid,
        "processes": [{"role": process.role, "pid": process.pid, "port": process.port} for process in running.processes],
        "urls": running.urls,
        "redis": running.redis,
    }
    fresh.write_text(json.dumps(words, indent=1) + "\n", "utf-8")
    fresh.replace(folder.up)


def find_running(folder: DataFolder) -> Running | None:
    """The supervisor of this data folder, or None. A file left by one that was killed counts as none."""
    try:
        words = json.loads(folder.up.read_text("utf-8"))
        running = Running(
            pid=int(words["pid"]),
            processes=tuple(RunningProcess(row["role"], row["pid"], row["port"]) for row in words["processes"]),
            urls=dict(words["urls"]),
            redis=words["redis"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    from store.broker.owner import is_alive

    return running if is_alive(str(running.pid)) else None


def ask(url: str, body: dict[str, Any] | None = None, seconds_max: float = 30.0, headers: dict[str, str] | None = None) -> Any:
    """The JSON answer of a GET, or (with a body) of a POST.

    Raises AnswerRefused with the server's own code and sentence, QueryWrong for what it blames on the request, ServerSilent.
    """
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers=headers or {})
    request.add_header("Content-Type", "application/json")
    try:
        with _OPENER.open(request, timeout=seconds_max) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise _refusal(error) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ServerSilent(url=url, reason=_reason_of(error)) from error


class QueryWrong(Misuse):
    """A server blames the request: code and sentence are its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Local servers are never asked through a proxy."""


def _reason_of(error: Exception) -> str:
    """In plain words, without a full stop."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    words = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return words.rstrip(".") or type(error).__name__


def _refusal(error: urllib.error.HTTPError) -> EvercurrentError:
    try:
        problem = json.load(error)
    except ValueError:
        problem = {}
    code = str(problem.get("code", "internal"))
    message = str(problem.get("detail") or problem.get("title") or f"The server answered {error.code}.")
    if 400 <= error.code < 500 and error.code != 429:
        return QueryWrong(code, message)
    return AnswerRefused(code, message, error.code)
