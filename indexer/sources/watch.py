"""The door to watchdog: native file events of many folders, put into the inbox by the callback, which does nothing else.

Lost events, watches that could not be set and dead threads are said, never guessed around: the loop compares with the source then.
A barrier is a file made in a folder of our own that every watch also covers: the kernel keeps one order for all of them, so the
event of that file stands behind everything noticed before. Nothing is ever written into a watched folder.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING, Any

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver, ObservedWatch

from indexer.events import Event, EventKind
from indexer.ignore import IGNORE_FILE
from indexer.sources.folder import uri_of
from indexer.sources.inbox import Inbox
from store.clock import Clock
from store.model import Root, SourceKind

if sys.platform == "linux":
    from watchdog.observers.inotify import InotifyEmitter, InotifyWatchGroup
    from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, InotifyFD, Mask
else:  # pragma: no cover
    from watchdog.observers import Observer

if TYPE_CHECKING:
    from collections.abc import Callable

_LIMITS = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_KINDS: dict[type[FileSystemEvent], EventKind] = {
    FileCreatedEvent: EventKind.CREATED,
    FileModifiedEvent: EventKind.MODIFIED,
    FileAttribEvent: EventKind.MODIFIED,
    FileClosedEvent: EventKind.CLOSED,
    FileMovedEvent: EventKind.MOVED,
    FileDeletedEvent: EventKind.DELETED,
    DirCreatedEvent: EventKind.CREATED,
    DirMovedEvent: EventKind.MOVED,
    DirDeletedEvent: EventKind.DELETED,
}
"""All that is listened to. Opening and reading are not in it: reading never causes indexing."""


class WatchLimitReached(Exception):
    """The system gives no more watches; the folder must be polled. Never leaves the indexer."""


class NativeWatch:
    """One observer for any number of roots. `arm` and `disarm` may be called while it runs, from one thread."""

    def __init__(self, inbox: Inbox, clock: Clock) -> None:
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        self._inbox = inbox
        self._clock = clock
        self._armed: dict[int, ObservedWatch] = {}
        self._barrier_folder = tempfile.mkdtemp(prefix="evercurrent-watch-")
        try:
            self._observer: BaseObserver = _new_observer(inbox, self._barrier_folder)
            self._observer.start()
        except OSError as error:
            shutil.rmtree(self._barrier_folder, ignore_errors=True)
            raise WatchLimitReached(str(error)) from error

    def arm(self, number: int, root: Root) -> None:
        """Watches `root` under its number. Raises WatchLimitReached, or OSError when the root cannot be watched now."""
        self.disarm(number)
        folder = os.path.dirname(root.path) if root.kind is SourceKind.FILE else root.path
        before = limits_reached(self._observer)
        handler = _Handler(number, root, self._inbox, self._clock, self._barrier_folder)
        try:
            watch = self._observer.schedule(handler, folder, recursive=root.kind is SourceKind.FOLDER, event_filter=list(_KINDS))
        except OSError as error:
            if error.errno in _LIMITS:
                raise WatchLimitReached(str(error)) from error
            raise
        self._armed[number] = watch
        if limits_reached(self._observer) > before:
            self.disarm(number)
            raise WatchLimitReached("not every folder could be watched")

    def disarm(self, number: int) -> None:
        watch = self._armed.pop(number, None)
        if watch is not None and watch not in self._armed.values():
            self._observer.unschedule(watch)

    def limit_reached(self) -> bool:
        """Whether a folder that appeared since could not be watched. Asking forgets it."""
        return _forget_limits(self._observer)

    def is_alive(self, number: int) -> bool:
        """Whether the threads that bring this root's events run."""
        watch = self._armed.get(number)
        emitters = {emitter.watch: emitter for emitter in self._observer.emitters}
        return watch is not None and self._observer.is_alive() and watch in emitters and emitters[watch].is_alive()

    @property
    def has_barriers(self) -> bool:
        """Whether `send_barrier` works here (inotify)."""
        return sys.platform == "linux"

    def send_barrier(self, token: str) -> None:
        """Puts a barrier behind every event noticed so far; it arrives in the inbox once for each armed root."""
        path = os.path.join(self._barrier_folder, token)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.unlink(path)

    def stop(self) -> None:
        self._observer.stop()
        self._observer.join()
        shutil.rmtree(self._barrier_folder, ignore_errors=True)


class _Handler(FileSystemEventHandler):  # type: ignore[misc]
    """What watchdog calls, in its thread: a path becomes a uri, and the event goes into the inbox."""

    def __init__(self, number: int, root: Root, inbox: Inbox, clock: Clock, barrier_folder: str) -> None:
        self._number = number
        self._root = root
        self._inbox = inbox
        self._clock = clock
        self._barrier_folder = barrier_folder
        self._hidden = root.path.rstrip("/") + "/", len(root.path.rstrip("/"))

    def dispatch(self, event: FileSystemEvent) -> None:
        kind = _KINDS.get(type(event))
        if kind is None or event.is_synthetic:
            return
        path = os.fsdecode(event.src_path)
        if os.path.dirname(path) == self._barrier_folder:
            if kind is EventKind.CREATED:
                self._inbox.put_barrier(self._number, os.path.basename(path))
            return
        target = os.fsdecode(event.dest_path) if kind is EventKind.MOVED else None
        if self._is_hidden(path) and (target is None or self._is_hidden(target)):
            return
        self._put(kind, uri_of(self._root, path), uri_of(self._root, target) if target is not None else None, event.is_directory)

    def _put(self, kind: EventKind, uri: str | None, target: str | None, is_folder: bool) -> None:
        at = self._clock.monotonic()
        if kind is not EventKind.MOVED:
            if uri is not None:
                self._inbox.put(self._number, Event(kind, uri, at, is_folder=is_folder))
        elif uri is not None and target is not None:
            self._inbox.put(self._number, Event(kind, uri, at, target, is_folder))
        elif uri is not None:
            self._inbox.put(self._number, Event(EventKind.DELETED, uri, at, is_folder=is_folder))
        elif target is not None:
            arrived = EventKind.CREATED if is_folder else EventKind.CLOSED
            self._inbox.put(self._number, Event(arrived, target, at, is_folder=is_folder))

    def _is_hidden(self, path: str) -> bool:
        """Below the root and behind a dot: the busy insides of `.git` and its like shall not fill the inbox."""
        base, start = self._hidden
        return path.startswith(base) and "/." in path[start:] and not path.endswith("/" + IGNORE_FILE)


if sys.platform == "linux":

    class _Inotify(InotifyFD):  # type: ignore[misc]
        """Reports what watchdog passes over: watches refused below a root, events the kernel dropped, a volume that was unmounted."""

        def __init__(self, on_overflow: Callable[[], None]) -> None:
            super().__init__()
            self.limits = 0
            self._on_overflow = on_overflow

        def add_callback(self, path: bytes, mask: Mask, callback: Any, id_: Any) -> Any:
            try:
                return super().add_callback(path, mask, callback, id_)
            except OSError as error:
                if error.errno in _LIMITS:
                    self.limits += 1
                raise

        def handle_event(self, event: InotifyEvent) -> None:
            super().handle_event(event)
            if event.is_queue_overflow or event.mask & InotifyConstants.IN_UNMOUNT:
                self._on_overflow()

    class WatchGroup(InotifyWatchGroup):  # type: ignore[misc]
        """A root's watches. A folder that was moved over another leaves two watches of one path for a moment: watchdog, which
        expects one, would break off in the middle of letting them go."""

        def _remove_watch_internally(self, wd: Any) -> None:
            path = self._active_callbacks_by_watch.pop(wd, None)
            if self._active_callbacks_by_path.get(path) == wd:
                del self._active_callbacks_by_path[path]

    class _Emitter(InotifyEmitter):  # type: ignore[misc]
        """A root's emitter whose watch covers the barrier folder too, in the one order that the kernel keeps."""

        def __init__(self, *arguments: Any, barrier_folder: str, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._barrier_folder = os.fsencode(barrier_folder)

        def on_thread_start(self) -> None:
            """As watchdog's, with a group of ours."""
            self._inotify = WatchGroup(
                self._inotify_fd,
                os.fsencode(self.watch.path),
                is_recursive=self.watch.is_recursive,
                event_mask=self.get_event_mask_from_filter(),
                follow_symlink=self.watch.follow_symlink,
            )
            self.cover_barriers()

        def cover_barriers(self) -> None:
            group = self._inotify
            if group is not None:
                group._add_callback(self._barrier_folder)

    class _LinuxObserver(BaseObserver):  # type: ignore[misc]
        def __init__(self, inbox: Inbox, barrier_folder: str) -> None:
            self.inotify = _Inotify(self._overflow)
            self._inbox = inbox
            super().__init__(_Emitter, inotify_fd=self.inotify, barrier_folder=barrier_folder)
            self.inotify.start()

        def _overflow(self) -> None:
            for emitter in self.emitters.copy():
                emitter.cover_barriers()
            self._inbox.overflow()

        def on_thread_stop(self) -> None:
            super().on_thread_stop()
            self.inotify.stop()
            self.inotify.join()


def _new_observer(inbox: Inbox, barrier_folder: str) -> BaseObserver:
    if sys.platform == "linux":
        return _LinuxObserver(inbox, barrier_folder)
    else:  # noqa: RET505  (a type checker follows the platform)
        return Observer()


def limits_reached(observer: BaseObserver) -> int:
    """Watches refused so far."""
    return observer.inotify.limits if sys.platform == "linux" else 0


def _forget_limits(observer: BaseObserver) -> bool:
    reached = limits_reached(observer) > 0
    if reached:
        observer.inotify.limits = 0
    return reached
