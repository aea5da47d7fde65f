"""A pass that waits ends by name when waiting is no use."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evercurrent.stuck import BROKER_SECONDS_MAX, LOOK_SECONDS, Patience
from store.errors import BrokerUnavailable, CatalogFull
from store.model import CollectionId, CollectionName, DocumentState, DocumentStatus, Instant, Namespace, RootName, Version

HOME = CollectionId(Namespace("default"), CollectionName("main"))


@dataclass
class Hands:
    """A clock that is moved by hand."""

    seconds: float = 0.0
    rows: list[DocumentStatus] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> Instant:
        return Instant(self.seconds)

    def new_id(self) -> str:
        return "0" * 32


def row(attempts: int, code: str | None) -> DocumentStatus:
    return DocumentStatus(
        HOME.document("a.md"),
        DocumentState.PENDING,
        Version(1),
        Version(0),
        0,
        RootName("main"),
        Instant(0),
        attempts=attempts,
        code=code,
        message="No space is left.",
    )


def patience(clock: Hands, folder: Path) -> Patience:
    return Patience(folder, lambda: clock.rows, clock)


def test_an_attempt_that_found_no_room_ends_the_wait(tmp_path: Path) -> None:
    clock = Hands()
    waits = patience(clock, tmp_path)
    clock.rows, clock.seconds = [row(1, CatalogFull.code)], LOOK_SECONDS
    with pytest.raises(CatalogFull, match="No space is left"):
        waits.ask()


def test_what_found_no_room_before_the_pass_began_is_tried_again(tmp_path: Path) -> None:
    clock = Hands(rows=[row(3, CatalogFull.code)])
    waits = patience(clock, tmp_path)
    clock.seconds = LOOK_SECONDS
    waits.ask()


def test_an_embedder_that_is_away_is_waited_for(tmp_path: Path) -> None:
    clock = Hands()
    waits = patience(clock, tmp_path)
    clock.rows, clock.seconds = [row(2, "embedder_unavailable")], LOOK_SECONDS
    waits.ask()


def test_a_queue_that_stays_silent_ends_the_wait_and_one_that_comes_back_does_not(tmp_path: Path) -> None:
    clock = Hands()
    waits = patience(clock, tmp_path)

    def silent() -> None:
        raise BrokerUnavailable(url="unix://broker", reason="it is gone")

    for clock.seconds in (LOOK_SECONDS, BROKER_SECONDS_MAX):
        waits.ask(silent)
    clock.seconds += LOOK_SECONDS
    waits.ask()
    for clock.seconds in (100.0, 100.0 + BROKER_SECONDS_MAX):
        waits.ask(silent)
    clock.seconds += LOOK_SECONDS
    with pytest.raises(BrokerUnavailable):
        waits.ask(silent)
