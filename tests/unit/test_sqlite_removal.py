"""Removing roots and collections from SQLite: short transactions, and what a process leaves that dies between two of them goes later."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.builders import HOME, Worker, absent, document, furnish, present, root, texts

from store.catalog.sqlite import SqliteCatalog
from store.catalog.sqlite.database import Database
from store.catalog.sqlite.roots import DOCUMENTS_A_TRANSACTION_MAX
from store.clock import SimulatedClock
from store.errors import Misuse
from store.model import DocumentState, RootName
from store.ports import Catalog

SECOND = root("second", "second/", "/srv/second")
DOCUMENTS = 7


class Died(BaseException):
    """Stands for the end of the process."""


class MortalDatabase(Database):
    """Dies when `lives` write transactions are committed, and notes how many rows each changes."""

    lives: int | None = None
    changed: list[int]

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        if self.lives == 0:
            raise Died
        with super().write(durable=durable) as connection:
            before = connection.total_changes
            yield connection
            self.changed.append(connection.total_changes - before)
        if self.lives is not None:
            self.lives -= 1


class TickingClock(SimulatedClock):
    """Every look at it takes 20 ms: two steps fill a transaction."""

    def monotonic(self) -> float:
        self.advance(0.02)
        return super().monotonic()


@pytest.fixture
def clock() -> SimulatedClock:
    return TickingClock()


@pytest.fixture
def database(tmp_path: Path, clock: SimulatedClock) -> Iterator[MortalDatabase]:
    opened = MortalDatabase(tmp_path, clock, 5.0)
    opened.changed = []
    yield opened
    opened.close()


@pytest.fixture
def catalog(database: MortalDatabase, clock: SimulatedClock) -> Catalog:
    """Two roots with documents that share lines, a rename under way, a tombstone, and claims in both directions."""
    catalog = SqliteCatalog(database)
    furnish(catalog)
    catalog.ensure_root(SECOND)
    worker = Worker(catalog, clock)
    for number in range(DOCUMENTS):
        worker.index(f"{number}.md", f"shared\nof {number}")
        worker.index(f"second/{number}.md", f"shared\nof second {number}", root="second")
    catalog.record([present("0.md", root="second"), present("second/0.md"), absent("1.md"), present("9.md", moved_from="2.md")])
    return catalog


def rows_left(database: Database, table: str) -> int:
    with database.read() as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_a_removal_that_dies_after_any_transaction_is_ended_by_the_next_call(
    catalog: Catalog, database: MortalDatabase, clock: SimulatedClock
) -> None:
    database.lives, calls, removed = 1, 0, 0
    while True:
        calls += 1
        try:
            removed = catalog.remove_root(HOME, RootName("notes"), clock.now())
            break
        except Died:
            assert list(catalog.findings()) == []
            assert catalog.roots(HOME) == [SECOND]
            database.lives = 2
    database.lives = None
    assert (calls > 2, removed >= 1) == (True, True)
    assert sorted(texts(catalog)) == [f"second/{number}.md" for number in range(DOCUMENTS)]
    assert catalog.ensure_root(root()) == root()
    assert list(catalog.findings()) == []


def test_a_root_whose_removal_broke_off_takes_no_documents_and_keeps_its_name_until_the_sweep_has_ended_it(
    catalog: Catalog, database: MortalDatabase, clock: SimulatedClock
) -> None:
    database.lives = 2
    with pytest.raises(Died):
        catalog.remove_root(HOME, RootName("notes"), clock.now())
    database.lives = None
    left = {uri for uri in texts(catalog) if "/" not in uri}
    assert left
    assert catalog.record([present("late.md")]) == [None]
    for again in (root(), root(path="/srv/elsewhere"), root("other", prefix="other/")):
        with pytest.raises(Misuse):
            catalog.ensure_root(again)
    catalog.sweep(clock.now(), 1000.0, 1000.0)
    assert {uri for uri in texts(catalog) if "/" not in uri} == set()
    assert catalog.ensure_root(root()) == root()


def test_a_claim_on_a_document_of_a_removal_that_broke_off_waits_for_it(
    catalog: Catalog, database: MortalDatabase, clock: SimulatedClock
) -> None:
    database.lives = 2
    with pytest.raises(Died):
        catalog.remove_root(HOME, RootName("notes"), clock.now())
    database.lives = None
    assert catalog.record([present("6.md", root="second")]) == [None]
    catalog.remove_root(HOME, RootName("notes"), clock.now())
    status = catalog.status_of(document("6.md"))
    assert status is not None
    assert (status.root, status.state) == ("second", DocumentState.PENDING)


def test_a_claim_of_a_root_whose_removal_broke_off_takes_nothing_over(
    catalog: Catalog, database: MortalDatabase, clock: SimulatedClock
) -> None:
    database.lives = 1
    with pytest.raises(Died):
        catalog.remove_root(HOME, RootName("second"), clock.now())
    database.lives = None
    catalog.record([absent("0.md")])
    status = catalog.status_of(document("0.md"))
    assert status is not None
    assert status.state is DocumentState.DELETED


def test_removing_a_root_looks_at_the_clock_between_documents(catalog: Catalog, database: MortalDatabase, clock: SimulatedClock) -> None:
    database.changed.clear()
    assert catalog.remove_root(HOME, RootName("second"), clock.now()) == DOCUMENTS
    assert len(database.changed) > DOCUMENTS // 2


def test_removing_a_root_takes_a_bounded_number_of_documents_at_once(tmp_path: Path) -> None:
    clock = SimulatedClock()
    database = MortalDatabase(tmp_path / "still", clock, 5.0)
    database.changed = []
    catalog = SqliteCatalog(database)
    furnish(catalog)
    catalog.record([present(f"{number}.md") for number in range(3 * DOCUMENTS_A_TRANSACTION_MAX)])
    database.changed.clear()
    assert catalog.remove_root(HOME, RootName("notes"), clock.now()) == 3 * DOCUMENTS_A_TRANSACTION_MAX
    assert len(database.changed) == 5
    assert max(database.changed) <= 8 * DOCUMENTS_A_TRANSACTION_MAX
    catalog.close()


def test_a_drop_that_dies_after_any_transaction_is_unseen_and_ended_by_the_next_call(
    catalog: Catalog, database: MortalDatabase, clock: SimulatedClock
) -> None:
    database.lives = 1
    while True:
        try:
            catalog.drop_collection(HOME, clock.now())
            break
        except Died:
            assert (catalog.collections(), catalog.namespaces(), list(catalog.findings())) == ([], [], [])
            database.lives = 2
    for table in (
        "documents",
        "versions",
        "chunks",
        "texts",
        "vectors",
        "aliases",
        "roots",
        "claims",
        "builds",
        "collections",
        "namespaces",
        "dropped",
    ):
        assert (table, rows_left(database, table)) == (table, 0)
    assert rows_left(database, "changes") == 1


def test_the_rest_of_a_drop_is_not_the_collection_of_that_name_that_came_since(
    catalog: Catalog, database: MortalDatabase, clock: SimulatedClock
) -> None:
    database.lives = 2
    with pytest.raises(Died):
        catalog.drop_collection(HOME, clock.now())
    database.lives = None
    assert rows_left(database, "documents") > 0
    furnish(catalog)
    Worker(catalog, clock).index("0.md", "anew")
    assert (texts(catalog), list(catalog.findings())) == ({"0.md": "anew"}, [])
    catalog.sweep(clock.now(), 1000.0, 1000.0)
    assert (texts(catalog), list(catalog.findings())) == ({"0.md": "anew"}, [])
    assert (rows_left(database, "documents"), rows_left(database, "vectors"), rows_left(database, "dropped")) == (1, 1, 0)


def test_dropping_looks_at_the_clock_between_documents(catalog: Catalog, database: MortalDatabase, clock: SimulatedClock) -> None:
    database.changed.clear()
    catalog.drop_collection(HOME, clock.now())
    assert len(database.changed) > DOCUMENTS
