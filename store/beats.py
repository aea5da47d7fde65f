"""The beats of the retrievers: what each process says of itself, and which of them are alive.

A beat is believed only while its process holds the lock beside it. Nothing is written here: a retriever tells its own.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROCESSES_MAX = 64
LOCK_FILE = "lock"
BEAT_FILE = "beat.json"


@dataclass(frozen=True, slots=True)
class RetrieverBeat:
    """What a retriever says of itself: where it listens, and the seq up to which every loaded collection is applied."""

    role: str
    pid: int
    port: int
    incarnation: str
    seq: int


def beats(retriever_folder: Path) -> list[RetrieverBeat]:
    """The beats of the retrievers that are alive: a folder whose lock is free is nobody's, whatever its beat says."""
    return [beat for path in premises_folders(retriever_folder) if path.is_dir() and (beat := _beat_of(path)) is not None]


def premises_folders(retriever_folder: Path) -> Iterator[Path]:
    """The folders that retriever processes may claim, in the order in which they do."""
    yield retriever_folder
    for number in range(2, PROCESSES_MAX + 1):
        yield retriever_folder / str(number)


def _beat_of(path: Path) -> RetrieverBeat | None:
    try:
        beat = RetrieverBeat(**json.loads((path / BEAT_FILE).read_text("utf-8")))
        with (path / LOCK_FILE).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, ValueError, TypeError):  # none, or what a power cut or another version left
        return None
    except BlockingIOError:
        return beat
    return None
