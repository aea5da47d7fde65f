"""Connections and transactions of the SQLite catalog; foreign errors are translated here.

WAL, 16 KB pages. Writers pass the fair lock first, so SQLite's own busy handler never decides who waits. The ledger and
commits are synchronous=FULL, leases and cursors NORMAL. Reading needs no lock: every reader borrows a connection from a pool, so
that many snapshots may be open, and threads that come and go leave none behind.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.catalog.sqlite.migrations import STEPS, migrate
from store.catalog.write_lock import WriteLock
from store.clock import Clock
from store.errors import CatalogBusy, CatalogCorrupt, CatalogFull, CatalogNewer, CatalogUnwritable, EvercurrentError

SCHEMA_VERSION = 2
PAGE_BYTES = 16_384
CATALOG_FILE = "catalog.sqlite3"
IDLE_CONNECTIONS_MAX = 8
BUSY_MILLISECONDS = 5_000


class Database:
    """One catalog file, opened by this process."""

    def __init__(self, folder: Path, clock: Clock, write_lock_seconds_max: float) -> None:
        self.path = folder / CATALOG_FILE
        self.clock = clock
        self._idle: list[sqlite3.Connection] = []
        self._open: set[sqlite3.Connection] = set()
        self._mutex = threading.Lock()
        with translated(self.path):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = WriteLock(folder, write_lock_seconds_max)
            with self._lock.held():
                self._ensure_schema()
            self._durable = self._connect()
            self._relaxed = self._connect(synchronous="NORMAL")

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One write transaction under the fair lock; rolled back when the block raises. Contains no computing."""
        connection = self._durable if durable else self._relaxed
        with translated(self.path), self._lock.held():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            try:
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A reading connection outside a transaction: every statement sees the newest commit."""
        with sqlite_translated(self.path), self._borrowed() as connection:
            yield connection

    @contextmanager
    def pinned(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a read transaction: sees one state until the block ends."""
        with sqlite_translated(self.path), self._borrowed() as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT seq FROM meta").fetchone()
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        """Given back when the block ends; closed when it raises, as a statement may be half read then."""
        with self._mutex:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect(query_only=True)
        try:
            yield connection
        except BaseException:
            self._discard(connection)
            raise
        self._release(connection)

    def close(self) -> None:
        with self._mutex:
            for connection in self._open:
                connection.close()
            self._open.clear()
            self._idle.clear()
        self._lock.close()

    def _release(self, connection: sqlite3.Connection) -> None:
        with self._mutex:
            if len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
        self._discard(connection)

    def _discard(self, connection: sqlite3.Connection) -> None:
        with self._mutex:
            self._open.discard(connection)
        connection.close()

    def _connect(self, *, synchronous: str = "FULL", query_only: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, cached_statements=256)
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA cache_size = -32000")
        connection.execute("PRAGMA foreign_keys = OFF")
        if query_only:
            connection.execute("PRAGMA query_only = ON")
        with self._mutex:
            self._open.add(connection)
        return connection

    def _ensure_schema(self) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found > SCHEMA_VERSION:
                raise CatalogNewer(path=str(self.path.parent), found=found, known=SCHEMA_VERSION)
            if found:
                migrate(connection, found, SCHEMA_VERSION, STEPS)
                return
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            schema = (Path(__file__).parent / "schema.sql").read_text("utf-8")
            first_row = f"INSERT INTO meta VALUES (1, '{self.clock.new_id()}', 0, 0, 0, 0, 0);"
            connection.executescript(f"BEGIN IMMEDIATE; {schema} {first_row} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        finally:
            connection.close()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns sqlite's and the system's errors into ours. For blocks that touch nothing but the catalog."""
    try:
        with sqlite_translated(path):
            yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise CatalogFull(path=str(path.parent)) from error
        raise CatalogUnwritable(path=str(path.parent), reason=error.strerror or str(error)) from error


@contextmanager
def sqlite_translated(path: Path) -> Iterator[None]:
    """Turns sqlite's errors into ours. A reader's block does other things, too: a broken pipe is not the catalog's."""
    try:
        yield
    except sqlite3.Error as error:
        raise _named(error, path) from error


def _named(error: sqlite3.Error, path: Path) -> EvercurrentError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    match code:
        case sqlite3.SQLITE_FULL:
            return CatalogFull(path=str(path.parent))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return CatalogBusy(seconds=BUSY_MILLISECONDS / 1000)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
            return CatalogUnwritable(path=str(path.parent), reason=str(error))
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return CatalogCorrupt(path=str(path), reason=str(error))
        case _:
            return CatalogCorrupt(path=str(path), reason=f"{type(error).__name__}: {error}")
