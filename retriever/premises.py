"""The folder that one retriever process has for itself: its keyword files, and the beat that others read.

The first process takes DATA/retriever, a second one DATA/retriever/2, and so on; whose a folder is, its lock says.
The beat is told by rewriting one small file: readers see the old one or the new one, never half of one.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import IO

from store.beats import BEAT_FILE, LOCK_FILE, PROCESSES_MAX, RetrieverBeat, beats, premises_folders
from store.errors import CatalogUnwritable, Misuse

__all__ = ["PROCESSES_MAX", "Premises", "RetrieverBeat", "beats", "claim_premises"]

_KEYWORDS_FOLDER = "keywords"


class Premises:
    """A claimed folder. Only the process that claimed it writes below `keywords`."""

    def __init__(self, path: Path, lock: IO[bytes]) -> None:
        self.path = path
        self._lock = lock
        self._told: RetrieverBeat | None = None

    @property
    def keywords(self) -> Path:
        return self.path / _KEYWORDS_FOLDER

    def beat(self, beat: RetrieverBeat) -> bool:
        """Tells `beat` when it differs from the last one told; returns whether it was written. Raises CatalogUnwritable."""
        if beat == self._told:
            return False
        draft = self.path / f"{BEAT_FILE}.new"
        try:
            draft.write_text(json.dumps(asdict(beat)), "utf-8")
            os.replace(draft, self.path / BEAT_FILE)
        except OSError as error:
            raise CatalogUnwritable(path=str(self.path), reason=error.strerror or str(error)) from error
        self._told = beat
        return True

    def leave(self) -> None:
        """Takes the beat away and frees the folder. Idempotent."""
        if not self._lock.closed:
            (self.path / BEAT_FILE).unlink(missing_ok=True)
            self._lock.close()


def claim_premises(retriever_folder: Path) -> Premises:
    """The first folder that no living process holds: `retriever_folder` itself, then its `2`, `3`, …

    Raises CatalogUnwritable, or Misuse when `PROCESSES_MAX` processes are running already.
    """
    try:
        for path in premises_folders(retriever_folder):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (lock := _try_lock(path)) is not None:
                return Premises(path, lock)
    except OSError as error:
        raise CatalogUnwritable(path=str(retriever_folder), reason=error.strerror or str(error)) from error
    raise Misuse(f"{PROCESSES_MAX} retrievers already use this data folder; stop one first.")


def _try_lock(path: Path) -> IO[bytes] | None:
    lock = (path / LOCK_FILE).open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock
