"""The SQLite catalog's connections: whose errors are whose, and what is left of threads that came and went."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.catalog.sqlite.database import IDLE_CONNECTIONS_MAX, Database
from store.clock import SimulatedClock
from store.errors import CatalogCorrupt

THREADS = 4 * IDLE_CONNECTIONS_MAX


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path, SimulatedClock(), 5.0)
    yield opened
    opened.close()


def files_open() -> int:
    return len(os.listdir("/dev/fd"))


def test_what_a_reader_breaks_on_is_not_blamed_on_the_catalog(database: Database) -> None:
    with pytest.raises(BrokenPipeError), database.pinned():
        raise BrokenPipeError
    with pytest.raises(TimeoutError), database.read():
        raise TimeoutError


def test_an_error_of_sqlite_is_translated_while_reading(database: Database) -> None:
    with pytest.raises(CatalogCorrupt) as raised, database.pinned() as connection:
        connection.execute("SELECT nothing FROM nowhere")
    assert isinstance(raised.value.__cause__, sqlite3.OperationalError)


def read_by_threads(database: Database) -> None:
    """Every thread has a connection at the same moment, then ends."""
    together = threading.Barrier(THREADS)

    def read() -> None:
        with database.read() as connection:
            connection.execute("SELECT seq FROM meta").fetchone()
            together.wait(30)

    threads = [threading.Thread(target=read) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_that_came_and_went_leave_no_connections_behind(database: Database) -> None:
    read_by_threads(database)
    before = files_open()
    for _ in range(3):
        read_by_threads(database)
    assert files_open() <= before


def break_off(database: Database, kept: list[sqlite3.Cursor]) -> None:
    with database.read() as connection:
        kept.append(connection.execute("SELECT name FROM sqlite_master"))
        next(kept[0])
        raise KeyError


def test_a_reader_sees_the_newest_commit_after_another_broke_off(database: Database) -> None:
    kept: list[sqlite3.Cursor] = []
    with pytest.raises(KeyError):
        break_off(database, kept)
    with database.write() as connection:
        connection.execute("UPDATE meta SET seq = 7")
    with database.read() as connection:
        assert connection.execute("SELECT seq FROM meta").fetchone()[0] == 7
    with database.pinned() as connection:
        assert connection.execute("SELECT seq FROM meta").fetchone()[0] == 7
