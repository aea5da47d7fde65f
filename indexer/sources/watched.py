"""One watched root: what its watcher noticed becomes events of documents, and changes that have settled become intents.

An intent is made from what stands in the source when it is made, so that a late, doubled or misleading event does no harm. What was
seen deleted in a live root is absent; while the root itself is in doubt nothing is, and a comparison asks the guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from indexer.coalesce import Change, Lately, State, coalesce, lately_told
from indexer.events import Event, EventKind
from indexer.guard import RootState
from indexer.ignore import IGNORE_FILE, Rules
from indexer.sources.folder import Folder, Scan, anchor_identity
from indexer.sources.polling import events_between, is_same_root
from indexer.sources.reconciling import Pass, reconcile_root
from indexer.sources.whereabouts import Whereabouts
from store.clock import Clock
from store.config import WatchTable
from store.model import Absent, Cause, Ignored, Instant, Intent, Present, Root, Signature, Urgency
from store.ports import Ledger

BULK_CHANGES_MIN = 64
"""From this many changes at once on they are bulk work and let a lone save pass."""
TOLD_IGNORED_MAX = 100_000


class WatchedRoot:
    """Not safe among threads: the loop alone calls it."""

    def __init__(self, root: Root, ledger: Ledger, rules: Rules, table: WatchTable, claims: Callable[[str], bool], clock: Clock) -> None:
        self.root = root
        self.needs_reconcile = True
        self.needs_arming = False
        """A volume was mounted inside of the root: the system sends no events of it until it is watched anew."""
        self.held_reason: str | None = None
        self.last_scan: Scan | None = None
        self._ledger = ledger
        self._rules = rules
        self._table = table
        self._claims = claims
        self._clock = clock
        self._folder = Folder(root, rules)
        self._state: State = {}
        self._lately: Lately = {}
        self._told_ignored: set[str] = set()
        self._whereabouts = Whereabouts()
        self.next_due_at: float | None = None

    @property
    def unsettled(self) -> int:
        return len(self._state)

    def is_settled_since(self, at: float) -> bool:
        """Whether everything that was noticed before `at` has been told."""
        return not self.needs_reconcile and all(entry.first_at > at for entry in self._state.values())

    def is_live(self) -> bool:
        """Whether the very folder that was scanned still stands at the root's path."""
        return self.last_scan is not None and anchor_identity(self.root) == (self.last_scan.device, self.last_scan.inode)

    def exists(self) -> bool:
        return anchor_identity(self.root) is not None

    # --- comparing with the source ---

    def reconcile(self) -> tuple[Intent, ...]:
        """Intents of a comparison. What has not settled is left out: it is told by itself, from what stands there then."""
        self._folder = Folder(self.root, self._rules)
        sightings = self._ledger.sightings(self.root)
        found: Pass = reconcile_root(self.root, sightings, self._clock, self._claims, self._rules, leave_out=self._state)
        if self.last_scan is not None and found.scan.devices - self.last_scan.devices:
            self.needs_arming = True
        self.last_scan = found.scan
        self._whereabouts = Whereabouts({uri: seen for uri, seen in found.scan.found.items() if uri not in self._state})
        self.held_reason = found.reconciled.held.reason if found.reconciled.held else None
        if found.scan.root_state in (RootState.ABSENT, RootState.OTHER_DEVICE):
            self.held_reason = self.held_reason or str(found.scan.root_state)
        self.needs_reconcile = False
        return found.reconciled.intents

    def poll(self) -> tuple[Event, ...]:
        """Events since the last scan; asks for a comparison when the root itself changed."""
        self._folder = Folder(self.root, self._rules)
        before, after = self.last_scan, self._folder.scan()
        self.last_scan = after
        if before is not None and before.ignore_files != after.ignore_files:
            self.needs_reconcile = True
        if before is not None and before.devices - after.devices:
            self.needs_reconcile = True
            return ()
        if before is not None and is_same_root(before, after):
            return tuple(events_between(before, after, self._clock.monotonic()))
        if before is None or (before.root_state, before.device, before.inode) != (after.root_state, after.device, after.inode):
            self.needs_reconcile = True
        return ()

    # --- from events to intents ---

    def take(self, events: Iterable[Event], now: float) -> tuple[Intent, ...]:
        """Takes events in and returns the intents that are due; `next_due_at` says when to come again."""
        expanded = list(self._expand(list(events)))
        settle, settle_max = self._table.settle_seconds, self._table.settle_seconds_max
        self._state, changes, self.next_due_at = coalesce(self._state, expanded, now, settle, settle_max, self._lately)
        self._lately = lately_told(self._lately, self._state, changes, now, settle)
        if not changes:
            return ()
        if not self.is_live():
            self.needs_reconcile = True
            return ()
        self.needs_reconcile |= self.held_reason is not None
        urgency = Urgency.BULK if len(changes) >= BULK_CHANGES_MIN else Urgency.FRESH
        return tuple(intent for change in changes for intent in self._intents(change, now, urgency))

    def _expand(self, events: list[Event]) -> Iterator[Event]:
        if any(_names_ignore_file(event) for event in events):
            self._folder = Folder(self.root, self._rules)
            self.needs_reconcile = True
        listed: set[str] = set()
        for event in events:
            if event.is_folder:
                yield from self._expand_folder(event, listed)
            else:
                yield from self._with_links(self._visible(event))

    def _visible(self, event: Event) -> Event | None:
        """The event as seen through the rules: a move with one end out of sight is a deletion, or a document put in place whole."""
        here = not self._folder.excludes(event.uri)
        if event.moved_to is None:
            return event if here else None
        there = not self._folder.excludes(event.moved_to)
        if here and there:
            return event
        if here:
            return Event(EventKind.DELETED, event.uri, event.at)
        return Event(EventKind.CLOSED, event.moved_to, event.at) if there else None

    def _with_links(self, event: Event | None) -> Iterator[Event]:
        if event is None:
            return
        yield event
        links = self.last_scan.links if self.last_scan is not None else {}
        for uri in (event.uri, event.moved_to):
            for link in links.get(uri, ()) if uri is not None else ():
                kind = EventKind.MODIFIED if event.kind is EventKind.MOVED else event.kind
                yield Event(kind, link, event.at)

    def _expand_folder(self, event: Event, listed: set[str]) -> Iterator[Event]:
        if event.uri == self.root.prefix.rstrip("/"):
            self.needs_reconcile = True
            return
        match event.kind:
            case EventKind.CREATED:
                yield from self._arrived(event.uri, event.at, listed)
            case EventKind.DELETED:
                yield from self._left(event.uri, event.at)
            case EventKind.MOVED if event.moved_to is not None:
                yield from self._moved(event.uri, event.moved_to, event.at, listed)
            case _:
                pass

    def _arrived(self, folder: str, at: float, listed: set[str]) -> Iterator[Event]:
        if any(folder == done or folder.startswith(done + "/") for done in listed):
            return
        listed.add(folder)
        for uri in self._folder.scan(folder).found:
            yield Event(EventKind.CREATED, uri, at)

    def _left(self, folder: str, at: float) -> Iterator[Event]:
        for uri in self._known_below(folder):
            yield Event(EventKind.DELETED, uri, at)

    def _moved(self, old: str, new: str, at: float, listed: set[str]) -> Iterator[Event]:
        if self._folder.excludes(new, is_folder=True):
            yield from self._left(old, at)
            return
        moved = {uri: new + uri[len(old) :] for uri in self._known_below(old)}
        for uri, target in moved.items():
            event = self._visible(Event(EventKind.MOVED, uri, at, moved_to=target))
            if event is not None:
                yield event
        arrived = set(moved.values())
        listed.discard(new)
        for event in self._arrived(new, at, listed):
            if event.uri not in arrived:
                yield event

    def _known_below(self, folder: str) -> list[str]:
        """Documents below `folder` that the ledger knows or an event named."""
        below = folder + "/"
        known = {str(sighting.uri) for sighting in self._ledger.sightings(self.root, below)}
        return sorted(known | {uri for uri, entry in self._state.items() if entry.present and uri.startswith(below)})

    def _intents(self, change: Change, now: float, urgency: Urgency) -> Iterator[Intent]:
        noticed_at = Instant(self._clock.now() - max(0.0, now - change.first_at))
        document, signature = self.root.home.document(change.uri), self._folder.look(change.uri)
        moved_from = self._moved_from(change, signature)
        if change.moved_from is not None and change.moved_from != moved_from:
            yield from self._intents(Change(change.moved_from, False, False, change.first_at), now, urgency)
        if signature is None:
            if not self._whereabouts.has_left(change.uri):
                yield Absent(document, Cause.DELETED, noticed_at, root=self.root.name)
            self._told_ignored.discard(change.uri)
        elif not self._claims(change.uri):
            yield from self._ignored(change.uri, signature, noticed_at)
        else:
            cause = Cause.MOVED if moved_from is not None else Cause.CREATED if change.created else Cause.MODIFIED
            source = self.root.home.document(moved_from) if moved_from is not None else None
            yield Present(document, self.root.name, cause, noticed_at, urgency, signature=signature, moved_from=source)
        self._whereabouts.note(change.uri, signature)
        if moved_from is not None:
            self._whereabouts.leave(moved_from)

    def _moved_from(self, change: Change, signature: Signature | None) -> str | None:
        """Where the document stood before: as events say, or the file itself; only if it was indexable and nothing is there now."""
        if signature is None or not self._claims(change.uri):
            return None
        old = change.moved_from or self._whereabouts.before(signature)
        if old is None or old == change.uri or not self._claims(old) or self._folder.look(old) is not None:
            return None
        return old

    def _ignored(self, uri: str, signature: Signature, noticed_at: Instant) -> Iterator[Intent]:
        """Told once: a log file that no loader claims may change for ever."""
        if uri in self._told_ignored:
            return
        if len(self._told_ignored) >= TOLD_IGNORED_MAX:
            self._told_ignored.clear()
        self._told_ignored.add(uri)
        yield Ignored(self.root.home.document(uri), self.root.name, noticed_at, signature)


def _names_ignore_file(event: Event) -> bool:
    return any(uri is not None and uri.rpartition("/")[2] == IGNORE_FILE for uri in (event.uri, event.moved_to))
