"""Events without a watcher: what differs between two scans of the same live root. Pure.

For file systems that send no events (network mounts), and for what the system's watch limit leaves unwatched.
"""

from __future__ import annotations

from collections.abc import Iterator

from indexer.events import Event, EventKind
from indexer.guard import RootState
from indexer.sources.folder import Scan


def is_same_root(before: Scan, after: Scan) -> bool:
    """Whether the very folder of `before` was scanned again, so that what is gone was deleted in it and not with it."""
    return after.root_state is not RootState.ABSENT and (before.device, before.inode) == (after.device, after.inode)


def events_between(before: Scan, after: Scan, at: float) -> Iterator[Event]:
    """What happened to the documents, renames first; what could not be looked into is not deleted."""
    gone = [uri for uri in before.found if uri not in after.found and not _is_unreadable(uri, after)]
    gone_by_file = {before.found[uri]: uri for uri in gone}
    moved: set[str] = set()
    changes: list[Event] = []
    for uri, signature in after.found.items():
        known = before.found.get(uri)
        if known == signature:
            continue
        old = gone_by_file.pop(signature, None)
        if old is not None:
            moved.add(old)
            yield Event(EventKind.MOVED, old, at, moved_to=uri)
        else:
            changes.append(Event(EventKind.CREATED if known is None else EventKind.MODIFIED, uri, at))
    yield from changes
    for uri in gone:
        if uri not in moved:
            yield Event(EventKind.DELETED, uri, at)


def _is_unreadable(uri: str, scan: Scan) -> bool:
    return any(not fault.uri or uri == fault.uri or uri.startswith(fault.uri + "/") for fault in scan.faults)
