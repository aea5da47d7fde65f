"""Uploaded bytes in a folder of the data folder: a file a content, named by its hash, below a folder a namespace.

What is kept is durable before it has its name. A namespace never reads or replaces another one's bytes, whatever their hashes.
Nothing here knows documents: the ledger says which contents are wanted.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Collection as Several
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from xxhash import xxh3_128

from store.clock import Clock
from store.errors import Misuse, Transient
from store.model import ContentHash, Instant, Namespace

NAMESPACE_BYTES_MAX = 100
"""A namespace is its folder's name, spelled in hex: file systems end at 255 bytes."""
FLOOR_LOOK_BYTES = 16 << 20
"""How many bytes are written between two looks at the free space."""
WANTED_ASKED_MAX = 500
_DRAFTS = "drafts"
_LOCK = "lock"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

Wanted = Callable[[Namespace, Sequence[ContentHash]], Several[ContentHash]]
"""Those of the contents that a document of the namespace wants."""


class BlobTooLarge(Misuse):
    code = "upload_too_large"
    sentence = "The document is larger than {bytes_max} bytes. Split it, or raise indexer.document_bytes_max."


class DiskNearlyFull(Transient):
    """Refused before the catalog runs out of room, too."""

    code = "disk_nearly_full"
    sentence = "The data folder's disk is nearly full (indexer.uploads.free_bytes_min); free some space, nothing was kept of this document."


class BlobsUnwritable(Transient):
    code = "uploads_unwritable"
    sentence = "The uploads folder {path} cannot be used: {reason}."


class BlobFolder:
    """Safe for threads and for several processes. Creates its folders when the first bytes come."""

    def __init__(self, path: Path, clock: Clock, bytes_max: int, free_bytes_min: int = 0) -> None:
        self._path = path
        self._clock = clock
        self._bytes_max = bytes_max
        self._free_bytes_min = free_bytes_min

    def draft(self, namespace: Namespace, bytes_expected: int = 0) -> Draft:
        """A place for bytes that are still coming. Raises BlobTooLarge, DiskNearlyFull, BlobsUnwritable."""
        if bytes_expected > self._bytes_max:
            raise BlobTooLarge(bytes_max=self._bytes_max)
        home = self._home(namespace)
        with _translated(self._path):
            drafts = self._path / _DRAFTS
            _make(drafts)
            self._check_floor(bytes_expected)
            return Draft(self, home, drafts / self._clock.new_id(), self._bytes_max)

    def read(self, namespace: Namespace, content: ContentHash, bytes_max: int | None = None) -> bytes | None:
        """The bytes (the first `bytes_max` of them), or None when they are not here."""
        opened = self.open(namespace, content)
        if opened is None:
            return None
        with opened, _translated(self._path):
            return opened.read(-1 if bytes_max is None else bytes_max)

    def open(self, namespace: Namespace, content: ContentHash) -> BinaryIO | None:
        """The bytes to be read bit by bit: they stay whole for who has them open."""
        with _translated(self._path):
            try:
                return _place(self._home(namespace), content).open("rb")
            except FileNotFoundError:
                return None

    def sweep(self, wanted: Wanted, grace_seconds: float) -> int:
        """Removes what is older than the grace and wanted by no row; returns how many files. Running it twice is harmless.

        A content that is kept again meanwhile is young again: both happen under one lock.
        """
        removed = 0
        with _translated(self._path):
            if not self._path.is_dir():
                return 0
            old_before = self._clock.now() - grace_seconds
            removed += sum(self._remove(path, old_before) for path in _files(self._path / _DRAFTS))
            for namespace, home in self._homes():
                removed += self._sweep_home(namespace, home, wanted, old_before)
        return removed

    def _sweep_home(self, namespace: Namespace, home: Path, wanted: Wanted, old_before: float) -> int:
        removed = 0
        old = [(content, path) for content, path in _contents(home) if _written_at(path) < old_before]
        for start in range(0, len(old), WANTED_ASKED_MAX):
            asked = old[start : start + WANTED_ASKED_MAX]
            kept = wanted(namespace, [content for content, _ in asked])
            removed += sum(self._remove(path, old_before) for content, path in asked if content not in kept)
        return removed

    def _remove(self, path: Path, old_before: float) -> int:
        with self._locked(fcntl.LOCK_EX):
            try:
                if _written_at(path) >= old_before:
                    return 0
                path.unlink()
            except FileNotFoundError:
                return 0
        return 1

    def _home(self, namespace: Namespace) -> Path:
        name = namespace.encode("utf-8", "surrogatepass")
        if not 0 < len(name) <= NAMESPACE_BYTES_MAX:
            raise Misuse(f"A namespace has 1 to {NAMESPACE_BYTES_MAX} bytes.")
        return self._path / f"ns-{name.hex()}"

    def _homes(self) -> Iterator[tuple[Namespace, Path]]:
        for path in sorted(self._path.glob("ns-*")):
            with suppress(ValueError):
                yield Namespace(bytes.fromhex(path.name.removeprefix("ns-")).decode("utf-8", "surrogatepass")), path

    def _check_floor(self, bytes_expected: int = 0) -> None:
        if shutil.disk_usage(self._path).free - bytes_expected < self._free_bytes_min:
            raise DiskNearlyFull(retry_after_seconds=60.0)

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        descriptor = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)


class Draft:
    """Bytes on their way in, under a temporary name; what is not kept is gone when the block ends. For one thread at a time."""

    def __init__(self, folder: BlobFolder, home: Path, path: Path, bytes_max: int) -> None:
        self._folder = folder
        self._home = home
        self._path = path
        self._bytes_max = bytes_max
        self._hash = xxh3_128()
        self._file: BinaryIO | None = path.open("xb", buffering=0)
        self._looked_at = 0
        self.bytes = 0

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._path.unlink(missing_ok=True)

    def write(self, part: bytes) -> None:
        """Raises BlobTooLarge, DiskNearlyFull, BlobsUnwritable."""
        assert self._file is not None, "a draft that was kept takes no more bytes"
        self.bytes += len(part)
        if self.bytes > self._bytes_max:
            raise BlobTooLarge(bytes_max=self._bytes_max)
        with _translated(self._path.parent):
            if self.bytes - self._looked_at >= FLOOR_LOOK_BYTES:
                self._looked_at = self.bytes
                self._folder._check_floor()
            view = memoryview(part)
            while view:
                view = view[self._file.write(view) :]
        self._hash.update(part)

    def keep(self) -> ContentHash:
        """Makes the bytes durable under the hash of their content, and young; returns it. The same content twice is one file."""
        assert self._file is not None, "a draft is kept once"
        content = ContentHash(self._hash.digest())
        place = _place(self._home, content)
        with _translated(self._path.parent):
            os.fsync(self._file.fileno())
            _make(place.parent)
            with self._folder._locked(fcntl.LOCK_SH):
                now = self._folder._clock.now()
                os.utime(self._file.fileno(), (now, now))
                os.replace(self._path, place)
            _sync_folder(place.parent)
            self._file.close()
        self._file = None
        return content


def _place(home: Path, content: ContentHash) -> Path:
    name = content.hex()
    return home / name[:2] / name


def _contents(home: Path) -> Iterator[tuple[ContentHash, Path]]:
    for folder in sorted(home.iterdir()):
        for path in _files(folder):
            with suppress(ValueError):
                yield ContentHash(bytes.fromhex(path.name)), path


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _written_at(path: Path) -> Instant:
    try:
        return Instant(path.stat().st_mtime)
    except FileNotFoundError:
        return Instant(float("inf"))


def _make(folder: Path) -> None:
    """Makes the folder and those above it; each new name is durable."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskNearlyFull(retry_after_seconds=60.0) from error
        raise BlobsUnwritable(path=str(path), reason=error.strerror or str(error)) from error
