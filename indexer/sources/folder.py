"""A folder (or one file) as a source: what is there (`scan`, `look`) and a document's bytes (`fetch`).

Names are byte-exact. Links to files are followed inside the root only, links to folders never; what is neither file nor folder is
never opened. Nothing here writes, and reading leaves access times alone where the system allows it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.guard import RootState
from indexer.ignore import IGNORE_FILE, Patterns, Rules, is_litter
from indexer.sources.names import path_of_uri, uri_of_path
from indexer.sources.spelling import spelling_of
from store.errors import DocumentTooLarge, DocumentUnreadable, SourceUnreachable, SourceUnstable, SourceVanished
from store.model import URI_BYTES_MAX, Root, Signature, SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from store.clock import Clock

PROOF_SECONDS = 2.0
"""A signature taken this soon after the last write proves nothing: a second write may leave the same time and length."""
FETCH_ATTEMPTS_MAX = 5
IGNORE_FILE_BYTES_MAX = 256 * 1024
_READ_BYTES = 1 << 20
_PASSING = frozenset({errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ETIMEDOUT, errno.EBUSY})
"""Trouble of the disk, the network or this process: it says nothing of the document."""
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENAMETOOLONG, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class ScanFault:
    """A place the scan could not look into. What the ledger knows at or below `uri` is not missing."""

    uri: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something with a document's name that is none: a link out of the root, a link to nothing, a name longer than a uri may be."""

    uri: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What stands in a root, or below the uri `scope` of it, at one moment."""

    scope: str
    found: Mapping[str, Signature]
    """By uri."""
    root_state: RootState
    device: int | None
    inode: int | None = None
    faults: tuple[ScanFault, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Uris of links to a file, by the uri of the file they show."""
    ignore_files: Mapping[str, Signature] = field(default_factory=dict)
    """The ignore files in force, by folder: another set of them is another set of documents."""
    devices: frozenset[int] = frozenset()
    """Of the folders that were looked into; empty: not known. One that is missing since is a volume that was unmounted."""


@dataclass(frozen=True, slots=True)
class Fetched:
    content: bytes
    signature: Signature
    """Taken before the first byte was read."""
    proven: bool


def scan(root: Root, rules: Rules | None = None, scope: str = "") -> Scan:
    """Looks at every file of `root`, or at the document or folder `scope` (a uri) of it. Never raises for what it finds."""
    return Folder(root, rules or Rules()).scan(scope)


def path_of(root: Root, uri: str) -> str:
    """Absolute path of the document `uri`, undecodable bytes as surrogate escapes."""
    if root.kind is SourceKind.FILE:
        return root.path
    return os.path.join(root.path, path_of_uri(uri.removeprefix(root.prefix)))


def uri_of(root: Root, path: str) -> str | None:
    """Uri of the absolute `path`, the root's own path being its prefix without the slash; None outside the root."""
    if root.kind is SourceKind.FILE:
        return root.prefix + uri_of_path(os.path.basename(path)) if path == root.path else None
    if path == root.path:
        return root.prefix.rstrip("/")
    inside = path.removeprefix(root.path.rstrip("/") + "/")
    return None if inside == path else root.prefix + uri_of_path(inside)


def root_state(root: Root) -> RootState:
    """Whether a file that is missing in `root` may be believed to be gone; `EMPTY` is only known to a scan."""
    try:
        seen = os.stat(_anchor(root))
    except OSError:
        return RootState.ABSENT
    if not stat.S_ISDIR(seen.st_mode):
        return RootState.ABSENT
    return RootState.ALIVE if root.device in (None, seen.st_dev) else RootState.OTHER_DEVICE


def root_alive(root: Root) -> bool:
    return root_state(root) is RootState.ALIVE


def anchor_identity(root: Root) -> tuple[int, int] | None:
    """Device and inode of what stands at the root's path now; None: nothing."""
    try:
        seen = os.stat(_anchor(root))
    except OSError:
        return None
    return seen.st_dev, seen.st_ino


def surely_gone(root: Root, uri: str) -> bool:
    """Whether a document that cannot be found was deleted, as far as its surroundings tell: the root is alive, and the document's
    own folder is there with something in it. (An unmounted folder inside a root is empty.)"""
    if not root_alive(root):
        return False
    try:
        with os.scandir(os.path.dirname(path_of(root, uri))) as listing:
            return root.kind is SourceKind.FILE or next(listing, None) is not None
    except OSError:
        return False


def _anchor(root: Root) -> str:
    """The folder whose presence says that the root is alive: a single file may be deleted, its folder tells."""
    return os.path.dirname(root.path) if root.kind is SourceKind.FILE else root.path


def _signature(seen: os.stat_result) -> Signature:
    return Signature(seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev)


class Folder:
    """A root with the rules that are in force in it. Remembers the ignore files it read: make a new one when one changed."""

    def __init__(self, root: Root, rules: Rules) -> None:
        self.root = root
        self._own = tuple(path.rstrip("/") for path in rules.own_paths)
        self._patterns = Patterns(rules.of_root(root.name))
        self._real = os.path.realpath(root.path)
        self._spelling = spelling_of(self._real)

    # --- all of it ---

    def scan(self, scope: str = "") -> Scan:
        state, anchor = root_state(self.root), anchor_identity(self.root)
        if state is RootState.ABSENT or anchor is None:
            return Scan(scope, {}, RootState.ABSENT, None)
        walk = _Walk(self, self.root.prefix)
        walk.run(scope)
        if state is RootState.ALIVE and not (scope or walk.found or walk.faults) and self.root.kind is SourceKind.FOLDER:
            state = RootState.EMPTY
        if any(fault.uri == "" for fault in walk.faults):
            state = RootState.ABSENT
        links = {uri: tuple(names) for uri, names in walk.links.items()}
        devices = frozenset(walk.devices | {anchor[0]}) if self.root.kind is SourceKind.FOLDER else frozenset[int]()
        return Scan(scope, walk.found, state, *anchor, tuple(walk.faults), tuple(walk.refusals), links, walk.ignore_files, devices)

    # --- one of it ---

    def look(self, uri: str) -> Signature | None:
        """Signature of the document `uri` as a scan would find it now; None when a scan would not."""
        path = path_of(self.root, uri)
        if self.root.kind is SourceKind.FILE:
            return self.follow(path)
        if self.excludes(uri) or not self._stands_in_place(path):
            return None
        found = self.follow(path)
        if found is None or not self._spelling.is_listed(self.root.path, path_of_uri(uri.removeprefix(self.root.prefix))):
            return None
        return found

    def excludes(self, uri: str, *, is_folder: bool = False) -> bool:
        """Whether rules, not absence, keep the document or folder `uri` out."""
        if self.root.kind is SourceKind.FILE:
            return False
        path = path_of_uri(uri.removeprefix(self.root.prefix))
        if uri == self.root.prefix.rstrip("/") and is_folder:
            return False
        if len(uri.encode("utf-8", "replace")) > URI_BYTES_MAX or any(not name or is_litter(name) for name in path.split("/")):
            return True
        if self._is_own(os.path.join(self.root.path, path)):
            return True
        parts = path.split("/")
        self.read_ignore_file("")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if self._patterns.refuse_folder(folder):
                return True
            self.read_ignore_file(folder)
        return self._patterns.refuse_folder(path) if is_folder else self._patterns.refuse_file(path)

    def follow(self, path: str) -> Signature | None:
        """Signature of the regular file at `path`, through a link that stays inside the root; None for all else."""
        try:
            seen = os.lstat(path)
            if stat.S_ISLNK(seen.st_mode):
                if not self.contains(os.path.realpath(path)) and self.root.kind is SourceKind.FOLDER:
                    return None
                seen = os.stat(path)
        except (OSError, ValueError):
            return None
        return _signature(seen) if stat.S_ISREG(seen.st_mode) else None

    def contains(self, real_path: str) -> bool:
        return real_path.startswith(self._real.rstrip("/") + "/")

    def read_ignore_file(self, folder: str) -> None:
        """Puts the ignore file of `folder` (relative) in force, once."""
        if self._patterns.knows(folder):
            return
        try:
            with open(os.path.join(self.root.path, folder, IGNORE_FILE), "rb") as file:
                lines = file.read(IGNORE_FILE_BYTES_MAX).decode("utf-8", "surrogateescape").removeprefix("\ufeff").splitlines()
        except OSError:
            self._patterns.add_folder(folder, None)
        else:
            self._patterns.add_folder(folder, lines)

    @property
    def patterns(self) -> Patterns:
        return self._patterns

    def _is_own(self, path: str) -> bool:
        return any(path == own or path.startswith(own + "/") for own in self._own)

    def is_own_folder(self, path: str) -> bool:
        return path in self._own

    def _stands_in_place(self, path: str) -> bool:
        """No folder on the way to `path` is a link (below the root): a link to a folder is not followed."""
        folder = os.path.dirname(path)
        inside = folder.removeprefix(self.root.path.rstrip("/"))
        return os.path.realpath(folder) == self._real.rstrip("/") + inside or folder == self.root.path


class _Walk:
    """One scan in progress."""

    def __init__(self, folder: Folder, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._base = folder.root.path.rstrip("/") + "/"
        self.found: dict[str, Signature] = {}
        self.faults: list[ScanFault] = []
        self.refusals: list[Refusal] = []
        self.links: dict[str, list[str]] = {}
        self.ignore_files: dict[str, Signature] = {}
        self.devices: set[int] = set()

    def run(self, scope: str) -> None:
        root = self._folder.root
        if root.kind is SourceKind.FILE:
            seen = self._folder.follow(root.path)
            if seen is not None:
                self.found[uri_of(root, root.path) or ""] = seen
        elif not scope:
            self._walk("")
        elif not self._folder.excludes(scope) or not self._folder.excludes(scope, is_folder=True):
            self._run_scope(scope)

    def _run_scope(self, scope: str) -> None:
        seen = self._folder.look(scope)
        path = path_of_uri(scope.removeprefix(self._prefix))
        self._note_devices_above(path)
        if seen is not None:
            self.found[scope] = seen
        elif os.path.isdir(self._base + path) and not os.path.islink(self._base + path):
            self._walk(path)

    def _note_devices_above(self, path: str) -> None:
        """Of the folders on the way to `path`, as far as they are there."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            try:
                self.devices.add(os.lstat(self._base + "/".join(parts[:depth])).st_dev)
            except OSError:
                return

    def _walk(self, start: str) -> None:
        folders = [start]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(self._base + folder) as listing:
                    entries = list(listing)
            except OSError as error:
                if error.errno not in _GONE or not folder:
                    self.faults.append(ScanFault(self._uri(folder) if folder else "", error.strerror or "it cannot be read"))
                continue
            self._take(f"{folder}/" if folder else "", entries, folders)

    def _take(self, folder: str, entries: list[os.DirEntry[str]], folders: list[str]) -> None:
        if any(entry.name == IGNORE_FILE for entry in entries):
            self._take_ignore_file(folder)
        patterns = self._folder.patterns if self._folder.patterns.decide_anything else None
        found, uri_folder = self.found, self._uri(folder) if folder else self._prefix
        for entry in entries:
            name = entry.name
            if is_litter(name):
                continue
            try:
                if entry.is_file(follow_symlinks=False):
                    if patterns is not None and patterns.refuse_file(folder + name):
                        continue
                    uri = uri_folder + (name if name.isascii() and "%" not in name else uri_of_path(name))
                    seen = entry.stat(follow_symlinks=False)
                    found[uri] = Signature(seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev)
                    if len(uri) * 4 > URI_BYTES_MAX:
                        self._refuse_long(uri)
                elif entry.is_dir(follow_symlinks=False):
                    if not (patterns is not None and patterns.refuse_folder(folder + name)) and not self._folder.is_own_folder(entry.path):
                        self.devices.add(entry.stat(follow_symlinks=False).st_dev)
                        folders.append(folder + name)
                elif entry.is_symlink() and not (patterns is not None and patterns.refuse_file(folder + name)):
                    self._take_link(uri_folder + uri_of_path(name), entry.path)
            except OSError as error:
                if error.errno not in _GONE:
                    self.faults.append(ScanFault(uri_folder + uri_of_path(name), error.strerror or "it cannot be read"))

    def _take_ignore_file(self, folder: str) -> None:
        seen = self._folder.follow(self._base + folder + IGNORE_FILE)
        if seen is not None:
            self.ignore_files[folder] = seen
            self._folder.read_ignore_file(folder[:-1])

    def _take_link(self, uri: str, path: str) -> None:
        target = os.path.realpath(path)
        if os.path.isdir(target):
            self.refusals.append(Refusal(uri, "a link to a folder is not followed"))
        elif not os.path.exists(target):
            self.refusals.append(Refusal(uri, "the link leads nowhere"))
        elif not self._folder.contains(target):
            self.refusals.append(Refusal(uri, "the link leads out of the root"))
        elif (seen := self._folder.follow(path)) is not None:
            self.found[uri] = seen
            inside = target.removeprefix(os.path.realpath(self._base).rstrip("/") + "/")
            self.links.setdefault(self._uri(inside), []).append(uri)

    def _refuse_long(self, uri: str) -> None:
        if len(uri.encode()) > URI_BYTES_MAX:
            del self.found[uri]
            self.refusals.append(Refusal(uri, f"its name is longer than {URI_BYTES_MAX} bytes"))

    def _uri(self, path: str) -> str:
        return self._prefix + uri_of_path(path)


# --- a document's bytes -------------------------------------------------------------------------------------


def fetch(root: Root, uri: str, bytes_max: int, clock: Clock) -> Fetched:
    """Reads the document's bytes as they stood at one moment, and never more than `bytes_max` of them.

    Raises SourceVanished (a scan would not find it either: gone, a folder, a device, a link out of the root), DocumentUnreadable,
    DocumentTooLarge, SourceUnstable (it changed during every attempt).
    """
    with _opened(root, path_of(root, uri)) as descriptor:
        for _ in range(FETCH_ATTEMPTS_MAX):
            read_at = clock.now()
            before = _signature(os.fstat(descriptor))
            if before.bytes > bytes_max:
                raise DocumentTooLarge(bytes=before.bytes, bytes_max=bytes_max, uri=uri)
            content = _read(descriptor, bytes_max)
            if _signature(os.fstat(descriptor)) == before and len(content) == before.bytes:
                return Fetched(content, before, proves(before, read_at))
    raise SourceUnstable(uri=uri)


def proves(signature: Signature, read_at: float) -> bool:
    """Whether bytes read at `read_at` (seconds) are proven to be those of `signature`: its last write was long enough before."""
    return signature.mtime_ns + int(PROOF_SECONDS * 1e9) < int(read_at * 1e9)


@contextmanager
def _opened(root: Root, path: str) -> Iterator[int]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SourceVanished(path=path)
        descriptor = _open(path)
    except OSError as error:
        raise _translated(error, path) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not _stands_inside(root, descriptor, path):
            raise SourceVanished(path=path)
        yield descriptor
    except OSError as error:
        raise _translated(error, path) from error
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:
        return os.open(path, flags)


def _stands_inside(root: Root, descriptor: int, path: str) -> bool:
    if root.kind is SourceKind.FILE:
        return True
    try:
        real = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        real = os.path.realpath(path)
    return real.startswith(os.path.realpath(root.path).rstrip("/") + "/")


def _read(descriptor: int, bytes_max: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts: list[bytes] = []
    left = bytes_max + 1
    while left > 0 and (part := os.read(descriptor, min(left, _READ_BYTES))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _translated(error: OSError, path: str) -> DocumentUnreadable | SourceVanished | SourceUnreachable:
    if error.errno in _GONE:
        return SourceVanished(path=path)
    if error.errno in _PASSING:
        return SourceUnreachable(reason=error.strerror or "the system refuses", path=path)
    return DocumentUnreadable(reason=error.strerror or "the system refuses", path=path)
