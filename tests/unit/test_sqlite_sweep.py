"""The sweep over SQLite never keeps the write lock for long, however much there is to remove."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.catalog.sqlite.database import Database
from store.catalog.sqlite.sweeping import ROWS_A_TRANSACTION_MAX, sweep_catalog
from store.clock import SimulatedClock
from store.model import Instant

SUPERSEDED = 3 * ROWS_A_TRANSACTION_MAX


class CountingDatabase(Database):
    """Counts the rows that each write transaction changes."""

    changed: list[int]

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        with super().write(durable=durable) as connection:
            before = connection.total_changes
            yield connection
            self.changed.append(connection.total_changes - before)


def test_a_log_of_any_length_is_thinned_in_short_transactions(tmp_path: Path) -> None:
    database = CountingDatabase(tmp_path, SimulatedClock(), 5.0)
    rows = [(seq, 1, seq) for seq in range(1, SUPERSEDED + 2)]
    database.changed = []
    with database.write() as connection:
        connection.executemany(
            "INSERT INTO changes (seq, at, kind, collection_key, document_key, version) VALUES (?, 0, 'indexed', 1, ?, ?)", rows
        )
    database.changed.clear()
    assert sweep_catalog(database, Instant(1.0), 0.0, 10.0) == SUPERSEDED
    assert max(database.changed) <= ROWS_A_TRANSACTION_MAX + 1
    with database.read() as connection:
        assert [tuple(row) for row in connection.execute("SELECT changes.seq, log_floor FROM changes, meta")] == [
            (SUPERSEDED + 1, SUPERSEDED + 1)
        ]
    database.close()
