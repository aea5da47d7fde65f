"""The catalog on SQLite: the default, one file, many processes on one machine.

Local disks only: WAL needs shared memory, which network file systems do not give.
"""

from __future__ import annotations

from pathlib import Path

from store.catalog.sqlite.audit import SqliteAudit
from store.catalog.sqlite.builds import SqliteBuilds
from store.catalog.sqlite.commits import SqliteCommits
from store.catalog.sqlite.database import CATALOG_FILE, SCHEMA_VERSION, Database
from store.catalog.sqlite.leases import SqliteLeases
from store.catalog.sqlite.ledger import SqliteLedger
from store.catalog.sqlite.roots import SqliteRoots
from store.catalog.sqlite.snapshots import DecodedVersions, SqliteReader
from store.catalog.sqlite.uploads import SqliteUploads
from store.clock import Clock

__all__ = ["CATALOG_FILE", "SCHEMA_VERSION", "SqliteCatalog"]


class SqliteCatalog(SqliteLedger, SqliteRoots, SqliteUploads, SqliteLeases, SqliteCommits, SqliteBuilds, SqliteReader, SqliteAudit):
    """Implements ports.Catalog. Safe for threads; not to be carried over a fork."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._decoded = DecodedVersions()

    @classmethod
    def open(cls, folder: Path, clock: Clock, write_lock_seconds_max: float = 30.0) -> SqliteCatalog:
        """Opens the catalog in `folder`, creating both when they are missing.

        Raises CatalogNewer, CatalogUnwritable, CatalogFull, CatalogCorrupt.
        """
        return cls(Database(folder, clock, write_lock_seconds_max))

    def close(self) -> None:
        self._database.close()
