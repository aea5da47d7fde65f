"""A burst of events becomes one change a document. Pure: the state is a value, time is handed in.

What a writer closed waits for nothing, unless it is closed again and again. The rest settles: quiet for `settle_seconds`, but never
longer than `settle_seconds_max` after its first event, so that a file saved every 100 ms is still indexed. A rename is one change
with both ends, over any number of steps. Folder events are expanded to their documents before they come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never

from indexer.events import Event, EventKind


@dataclass(frozen=True, slots=True)
class Unsettled:
    """What the events so far say of one document."""

    present: bool
    first_at: float
    last_at: float
    closed: bool
    created: bool
    """It came into being by its first event, as far as events tell."""
    origin: str | None
    """Uri where this file stood before its first event; None when it is new."""


State = Mapping[str, Unsettled]

CLOSES_AT_ONCE_MAX = 2
"""Times in a row that a closed document is told of without waiting: a save, and the formatter's after it. More are a stream."""


@dataclass(frozen=True, slots=True)
class Told:
    """A document was told of, and this often in a row without a quiet settle time between."""

    at: float
    in_a_row: int


Lately = Mapping[str, Told]
"""Documents told of within the settle time, or unsettled since."""


@dataclass(frozen=True, slots=True)
class Change:
    """A document to look at: the events say it is there, or gone."""

    uri: str
    present: bool
    created: bool
    first_at: float
    moved_from: str | None = None
    """Where it stood before; that document is gone and has no change of its own."""


def coalesce(
    state: State,
    events: Iterable[Event],
    now: float,
    settle_seconds: float,
    settle_seconds_max: float,
    lately: Lately = MappingProxyType({}),
) -> tuple[State, tuple[Change, ...], float | None]:
    """Takes `events` in and returns the new state, the changes that are due, and when the next one will be (None: nothing waits)."""
    entries = dict(state)
    for event in events:
        _take(entries, event)
    due_at = {uri: _due_at(entry, settle_seconds, settle_seconds_max, lately.get(uri)) for uri, entry in entries.items()}
    moves = dict(_moves(entries))
    for uri, origin in moves.items():
        due_at[uri] = due_at[origin] = min(due_at[uri], due_at[origin])
    due = sorted((uri for uri, at in due_at.items() if at <= now), key=lambda uri: (entries[uri].first_at, uri))
    changes = tuple(_changes(entries, due, moves))
    rest = _without(entries, due)
    return rest, changes, min((due_at[uri] for uri in rest), default=None)


def lately_told(lately: Lately, state: State, changes: Iterable[Change], now: float, settle_seconds: float) -> Lately:
    """What the next `coalesce` shall know of: `changes` were told at `now`, and `state` has not settled."""
    kept = {uri: told for uri, told in lately.items() if now - told.at < settle_seconds or uri in state}
    for change in changes:
        before = lately.get(change.uri)
        in_a_row = before.in_a_row if before is not None and change.first_at - before.at < settle_seconds else 0
        kept[change.uri] = Told(now, in_a_row + 1)
    return kept


def _take(entries: dict[str, Unsettled], event: Event) -> None:
    match event.kind:
        case EventKind.CREATED | EventKind.MODIFIED | EventKind.CLOSED:
            entries[event.uri] = _touched(entries.get(event.uri), event)
        case EventKind.DELETED:
            entries[event.uri] = _gone(entries.get(event.uri), event.at)
        case EventKind.MOVED:
            _move(entries, event, event.moved_to or event.uri)
        case _:
            assert_never(event.kind)


def _touched(before: Unsettled | None, event: Event) -> Unsettled:
    closed, created = event.kind is EventKind.CLOSED, event.kind is EventKind.CREATED
    if before is None:
        return Unsettled(True, event.at, event.at, closed, created, origin=None if created else event.uri)
    if before.present:
        return replace(before, last_at=event.at, closed=closed)
    return Unsettled(True, before.first_at, event.at, closed, created=False, origin=None)


def _gone(before: Unsettled | None, at: float) -> Unsettled:
    return Unsettled(False, before.first_at if before else at, at, closed=False, created=False, origin=None)


def _move(entries: dict[str, Unsettled], event: Event, target: str) -> None:
    if target == event.uri:
        return
    source, replaced = entries.get(event.uri), entries.get(target)
    if source is not None and not source.present:
        entries[target] = _touched(replaced, Event(EventKind.MODIFIED, target, event.at))
        return
    first_at = min([event.at] + [entry.first_at for entry in (source, replaced) if entry is not None])
    origin = source.origin if source is not None else event.uri
    put_in_place = source is not None and source.origin is None
    entries[target] = Unsettled(True, first_at, event.at, closed=put_in_place, created=False, origin=origin)
    entries[event.uri] = _gone(source, event.at)


def _due_at(entry: Unsettled, settle_seconds: float, settle_seconds_max: float, told: Told | None) -> float:
    streams = told is not None and told.in_a_row >= CLOSES_AT_ONCE_MAX and entry.first_at - told.at < settle_seconds
    if entry.present and entry.closed and not streams:
        return entry.last_at
    return min(entry.last_at + settle_seconds, entry.first_at + settle_seconds_max)


def _moves(entries: Mapping[str, Unsettled]) -> Iterator[tuple[str, str]]:
    for uri, entry in entries.items():
        if entry.present and entry.origin is not None and entry.origin != uri:
            origin = entries.get(entry.origin)
            if origin is not None and not origin.present:
                yield uri, entry.origin


def _changes(entries: Mapping[str, Unsettled], due: list[str], moves: Mapping[str, str]) -> Iterator[Change]:
    left = {moves[uri] for uri in due if uri in moves}
    for uri in due:
        if uri not in left:
            entry = entries[uri]
            yield Change(uri, entry.present, entry.created, entry.first_at, moves.get(uri))


def _without(entries: Mapping[str, Unsettled], due: list[str]) -> dict[str, Unsettled]:
    """What still waits. A file whose old place was told of already is no rename of it any more."""
    told = set(due)
    return {uri: replace(entry, origin=None) if entry.origin in told else entry for uri, entry in entries.items() if uri not in told}
