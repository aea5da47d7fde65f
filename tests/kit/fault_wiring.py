"""Starts a process of the product with faults planted at its doors, and every process it starts in the same way.

Called where the interpreter is called: `fault_wiring.py FAULTS -P -m MODULE ARGUMENTS...`. It plants what concerns the module and
then runs it as it is; `sys.executable` becomes a script that leads back here, so that children get their faults too.
"""

from __future__ import annotations

import errno
import json
import os
import runpy
import sqlite3
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any


def command_with(faults: Sequence[dict[str, Any]], folder: Path) -> tuple[str, ...]:
    """The command `evercurrent` with `faults` planted. Writes its wiring into `folder`."""
    told = folder / "faults.json"
    told.write_text(json.dumps(list(faults)), "utf-8")
    interpreter = folder / "python-with-faults"
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{__file__}" "{told}" "$@"\n', "utf-8")
    interpreter.chmod(0o755)
    return (str(interpreter), "-P", "-m", "evercurrent")


def main(told: Path, arguments: list[str]) -> None:
    if arguments[:2] != ["-P", "-m"]:
        os.execv(sys.executable, [sys.executable, *arguments])
    module, *rest = arguments[2:]
    sys.executable = str(told.with_name("python-with-faults"))
    for number, fault in enumerate(json.loads(told.read_text("utf-8"))):
        room, plant = FAULTS[fault["what"]]
        if module == room:
            plant(fault, told.with_name(f"fault-{number}"))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def plant_watch_limit(fault: dict[str, Any], _spent: Path) -> None:
    """The kernel gives watches for `after_dirs` folders, and no more: as `inotify_add_watch` says it, at every further folder."""
    from watchdog.observers import inotify_c

    given: set[bytes] = set()
    add_watch = inotify_c.inotify_add_watch

    def add_watch_up_to_limit(fd: int, path: bytes, mask: int) -> int:
        if path not in given and b"evercurrent-watch-" not in path:
            if len(given) >= fault["after_dirs"]:
                raise OSError(errno.ENOSPC, "inotify watch limit reached")
            given.add(path)
        return int(add_watch(fd, path, mask))

    inotify_c.inotify_add_watch = add_watch_up_to_limit


def plant_vector_upsert_fail(fault: dict[str, Any], spent: Path) -> None:
    """Writing vectors fails `times` times, in whatever process: SQLite says that it is busy."""

    class FailingConnection(sqlite3.Connection):
        def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
            if "INTO vectors" in sql and _spend(spent, fault["times"]):
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return super().executemany(sql, parameters)

    setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FailingConnection))  # noqa: B010  (a stub's overloads)


def _spend(spent: Path, times: int) -> bool:
    """Whether one of `times` failures is left; takes it, among processes too."""
    for number in range(times):
        try:
            os.close(os.open(f"{spent}-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return True
    return False


FAULTS: dict[str, tuple[str, Callable[[dict[str, Any], Path], None]]] = {
    "watch_limit": ("evercurrent", plant_watch_limit),
    "vector_upsert_fail": ("workers.child", plant_vector_upsert_fail),
}
"""By name: the module whose processes get it, and how it is planted."""

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
