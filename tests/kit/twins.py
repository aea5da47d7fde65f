"""Both catalog adapters behind one port: every call goes to each, and whatever they answer has to be the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kit.builders import ADAPTERS, open_adapter

from store.clock import SimulatedClock
from store.errors import EvercurrentError
from store.model import DocumentState, DocumentStatus, Instant, VisibleChunk, VisibleDocument
from store.ports import Catalog, DocumentPage, RecordedVector

_OWN_WAYS = frozenset({"sweep", "missing", "stage", "findings"})
"""Calls whose answers may differ: how much a sweep finds, and when a vector that nobody needs goes, is an adapter's business."""


def open_catalog(adapter: str, folder: Path, clock: SimulatedClock) -> Catalog:
    """An adapter by its name, or `both`."""
    if adapter != "both":
        return open_adapter(adapter, folder, clock)
    return cast(Catalog, Twins([open_adapter(one, folder, TwinClock(clock)) for one in ADAPTERS]))


class TwinClock(SimulatedClock):
    """Another clock's time, with ids of its own: both catalogs have one incarnation."""

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__()
        self._clock = clock

    def now(self) -> Instant:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()


class Twins:
    """A catalog, or a snapshot of one."""

    def __init__(self, both: list[Any], catalogs: list[Any] | None = None) -> None:
        self._both, self._catalogs = both, catalogs

    def __getattr__(self, name: str) -> Any:
        if name == "position" and not callable(self._both[0].position):
            assert self._both[0].position == self._both[1].position
            return self._both[0].position
        if name == "close":
            return lambda: [one.close() for one in self._both]
        calls: list[Callable[..., Any]] = [getattr(one, name) for one in self._both]

        def call(*given: Any, **named: Any) -> Any:
            answers = [answered(call, *given, **named) for call in calls]
            if name not in _OWN_WAYS:
                one, other = (plain(answer, is_now=self._is_now()) for answer in answers)
                assert one == other, (name, answers)
            if isinstance(answers[1], EvercurrentError):
                raise answers[1]
            return answers[1]

        return call

    @contextmanager
    def snapshot(self) -> Iterator[Twins]:
        with ExitStack() as stack:
            yield Twins([stack.enter_context(one.snapshot()) for one in self._both], self._both)

    def _is_now(self) -> bool:
        return self._catalogs is None or self._both[0].position == self._catalogs[0].position()


def answered(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    try:
        answer = call(*given, **named)
        return list(answer) if isinstance(answer, Iterator) else answer
    except EvercurrentError as error:
        return error


def plain(answer: Any, *, is_now: bool = True) -> Any:
    """What is compared: an error by its kind, and of a ledger row what both promise.

    When a tombstone or a waiting document was indexed last, and since when one waits that nobody needs to look at, is an adapter's
    business. Vectors come in any order; permissions are those of now, as far as an old snapshot can know them.
    """
    match answer:
        case EvercurrentError():
            return type(answer)
        case DocumentStatus():
            is_level = answer.state in (DocumentState.INDEXED, DocumentState.EMPTY)
            waits = answer.state is DocumentState.PENDING
            return replace(answer, indexed_version=answer.indexed_version if is_level else 0, noticed_at=answer.noticed_at if waits else 0)
        case DocumentPage():
            return [plain(status) for status in answer.documents], answer.cursor
        case [VisibleDocument() | VisibleChunk() | None, *_] if not is_now:
            return [visible and replace(visible, acl=None) for visible in answer]
        case [RecordedVector(), *_]:
            return sorted(answer, key=lambda vector: (vector.document, vector.chunk_id))
        case _:
            return answer
