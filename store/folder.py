"""The layout of the data folder: every path under `--data` has its name here.

Only names, and the guard that keeps an older Evercurrent out of a newer folder; who owns a file opens it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from store.errors import CatalogNewer, CatalogUnwritable

LAYOUT = 1
"""Raised when files move or change meaning; the catalog numbers its own schema besides."""

LAYOUT_FILE = "LAYOUT"
LAYOUT_TEXT = """\
{layout}
This is the data folder of Evercurrent (layout {layout}): catalog, queue, the retriever's files, logs.
It must stand on a local disk. Copy it only while nothing runs, or use `evercurrent backup`.
"""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where things are. Building one touches nothing."""

    path: Path

    @property
    def catalog(self) -> Path:
        return self.path / "catalog.sqlite3"

    @property
    def broker(self) -> Path:
        """Folder of the embedded queue server: its socket, log and append-only file."""
        return self.path / "broker"

    @property
    def retriever(self) -> Path:
        """Folder of the retriever's own files, rebuilt from the catalog when missing."""
        return self.path / "retriever"

    @property
    def blobs(self) -> Path:
        """Uploaded bytes: the only copy, as long as a document wants them."""
        return self.path / "blobs"

    @property
    def up(self) -> Path:
        """What the running supervisor says of itself; absent when none runs."""
        return self.path / "up.json"

    @property
    def up_lock(self) -> Path:
        return self.path / "up.lock"

    @property
    def feeder_lock(self) -> Path:
        """Held by the one process that feeds the queue from this catalog."""
        return self.path / "feeder.lock"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log(self, role: str) -> Path:
        return self.logs / f"{role}.log"


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Holds an exclusive lock on `path` for the block, or yields False at once when another process has it. Ends with its holder."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def prepare_folder(folder: DataFolder) -> None:
    """Creates the folder (0700) with its layout mark, or checks the mark of the one that is there. Idempotent.

    Raises CatalogNewer when the folder is of a later layout, CatalogUnwritable when it cannot be made.
    """
    check_folder(folder)
    try:
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = folder.path / LAYOUT_FILE
        if not mark.exists():
            mark.write_text(LAYOUT_TEXT.format(layout=LAYOUT), "utf-8")
            (folder.path / ".gitignore").write_text("*\n", "utf-8")
    except OSError as error:
        raise CatalogUnwritable(path=str(folder.path), reason=error.strerror or str(error)) from error


def check_folder(folder: DataFolder) -> None:
    """Raises CatalogNewer when the folder is there and of a later layout; writes nothing."""
    try:
        first = (folder.path / LAYOUT_FILE).read_text("utf-8").split("\n", 1)[0].strip()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise CatalogUnwritable(path=str(folder.path), reason=error.strerror or str(error)) from error
    found = int(first) if first.isdecimal() else LAYOUT
    if found > LAYOUT:
        raise CatalogNewer(path=str(folder.path), found=found, known=LAYOUT)
