"""Logs: one JSON object a line, a constant event name and fields; never a document's text, never a secret.

A room asks `structlog.get_logger()`; where the lines go is decided once, by the process that starts (`log_to_file`,
`log_nowhere`). A log file is bounded: at its limit it becomes `<name>.1` and begins anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog

LOG_BYTES_MAX = 8 * 1024 * 1024
FIELD_CHARS_MAX = 2_000
TRACE_CHARS_MAX = 16_000
LIST_VALUES_MAX = 50

_NEVER_LOGGED = frozenset({"text", "texts", "content", "body", "api_key", "password", "authorization", "vector", "vectors", "query"})
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")


def without_password(url: str) -> str:
    """The url with what stands before its `@` taken out: for people, logs and `up.json`."""
    return _URL_PASSWORD.sub("***@", url)


def log_to_file(path: Path, role: str) -> None:
    """Sends this process's log to `path`, bounded; several processes may write the same file. Idempotent."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _configure(_BoundedFile(path), role)


def log_nowhere() -> None:
    """Until the process knows where its log belongs: what a command has to say, it says itself."""
    _configure(_Nowhere(), "command")


def is_logging() -> bool:
    """Whether this process has a log of its own."""
    return _logs_to_file


def clean_event(event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The event without fields that may hold a text or a secret, and with long values cut."""
    return {
        key: _clean_trace(value) if key == "exception" else _clean_value(value) for key, value in event.items() if key not in _NEVER_LOGGED
    }


def _clean_trace(trace: Any) -> str:
    """The end of a traceback says most."""
    text = without_password(str(trace))
    return text if len(text) <= TRACE_CHARS_MAX else "…" + text[-TRACE_CHARS_MAX:]


def _clean_value(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_clean_value(one) for one in value[:LIST_VALUES_MAX]]
    text = without_password(value if isinstance(value, str) else str(value))
    return text if len(text) <= FIELD_CHARS_MAX else text[:FIELD_CHARS_MAX] + "…"


_logs_to_file = False


def _configure(out: _BoundedFile | _Nowhere, role: str) -> None:
    global _logs_to_file  # noqa: PLW0603 (structlog's own configuration is one a process, too)
    _logs_to_file = isinstance(out, _BoundedFile)

    def clean(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return clean_event(event)

    def identify(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["role"] = role
        event["pid"] = os.getpid()
        return event

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            identify,
            clean,
            structlog.processors.JSONRenderer(serializer=_one_line),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.WriteLoggerFactory(file=out),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )


def _one_line(event: Any, **_unused: Any) -> str:
    return json.dumps(event, ensure_ascii=False, default=str)


class _Nowhere:
    def write(self, line: str) -> int:
        return len(line)

    def flush(self) -> None:
        """Nothing is held."""


class _BoundedFile:
    """Appends whole lines; at the limit one writer renames the file, the others notice and open the new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = self._open()

    def write(self, line: str) -> int:
        try:
            self._follow_rotation()
            return os.write(self._fd, line.encode("utf-8", "backslashreplace"))
        except OSError:
            with contextlib.suppress(OSError, ValueError):  # a full disk, of stderr's file too, must not stop the work
                sys.stderr.write(line)
            return len(line)

    def flush(self) -> None:
        """Every write is one system call: nothing is held back."""

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _follow_rotation(self) -> None:
        mine = os.fstat(self._fd)
        if mine.st_size >= LOG_BYTES_MAX:
            self._rotate(mine.st_ino)
        elif mine.st_nlink == 0 or not self._is_current(mine.st_ino):
            self._reopen()

    def _rotate(self, inode: int) -> None:
        with open(self._path.with_suffix(".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._is_current(inode):
                os.replace(self._path, self._path.with_name(self._path.name + ".1"))
        self._reopen()

    def _is_current(self, inode: int) -> bool:
        try:
            return os.stat(self._path).st_ino == inode
        except FileNotFoundError:
            return False

    def _reopen(self) -> None:
        fresh = self._open()
        os.close(self._fd)
        self._fd = fresh
