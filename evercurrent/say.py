"""How answers look: one JSON object for programs, plain lines when piped, tables and colour at a terminal.

Answers go to stdout, everything else to stderr. rich is loaded only where a person looks.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


def say_json(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def say(line: str = "") -> None:
    _write(sys.stdout, line)


def note(line: str) -> None:
    """Something about the work, not the answer: stderr."""
    _write(sys.stderr, line)


def note_stopping(seconds_max: float) -> None:
    """Said at once, before anything is waited for; a terminal that has gone must not keep the work from ending in order."""
    with suppress(OSError):
        note(f"Stopping: running jobs finish first (at most {seconds_max:.0f} s; Ctrl-C again hurries).")


def complain(code: str, sentence: str, exit_code: int, as_json: bool) -> int:
    """Says what is wrong, in one sentence, and returns the exit code."""
    if as_json:
        say_json({"error": {"code": code, "message": sentence}})
    note(f"evercurrent: {sentence}")
    return exit_code


def for_people() -> bool:
    return sys.stdout.isatty()


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table at a terminal, tab-separated lines (no header) when piped."""
    if not for_people():
        for row in rows:
            say("\t".join(_cell(value) for value in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*[Text(_cell(value)) for value in row])
    Console().print(table)


def shown_path(path: Path) -> str:
    """The path as a person would type it: from the working directory when it is below it, quoted when it must be."""
    absolute = path.absolute()
    short = absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute
    return shlex.quote(str(short))


def counted(count: int, noun: str) -> str:
    """`1 text`, `2 texts`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("\t", " ").replace("\n", " ")


def _write(stream: Any, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()


def speak_utf8() -> None:
    """Whatever the locale: names of files may also hold bytes that are no UTF-8, which are shown escaped (as JSON does it, too)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
