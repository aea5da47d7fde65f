"""The catalog in memory: exact in everything but durability. It passes the contract suite of the others, so tests may stand on it."""

from __future__ import annotations

from store.catalog.memory.audit import MemoryAudit
from store.catalog.memory.builds import MemoryBuilds
from store.catalog.memory.commits import MemoryCommits
from store.catalog.memory.leases import MemoryLeases
from store.catalog.memory.ledger import MemoryLedger
from store.catalog.memory.roots import MemoryRoots
from store.catalog.memory.snapshots import MemoryReader
from store.catalog.memory.tables import Tables
from store.catalog.memory.uploads import MemoryUploads
from store.clock import Clock

__all__ = ["MemoryCatalog"]


class MemoryCatalog(MemoryLedger, MemoryRoots, MemoryUploads, MemoryLeases, MemoryCommits, MemoryBuilds, MemoryReader, MemoryAudit):
    """Implements ports.Catalog. Safe for threads, by one lock; nothing outlives the process."""

    def __init__(self, clock: Clock) -> None:
        self._tables = Tables(clock)

    def close(self) -> None:
        """Nothing to let go of."""
