"""A keyword index as it is on disk, to be looked at: no lock for writing, nothing created, nothing emptied, also beside its writer.

It is as old as its `position` says at least: rows that the writer has only in memory are not here, later ones may be.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from store.keywords.engine import open_committed
from store.keywords.pinned import Allowed, Pinned
from store.keywords.position_file import generation_folder, read_recorded
from store.keywords.segments import is_intact
from store.model import ChunkId, Position

TRIES_MAX = 5
"""Times that a folder is opened anew because its writer moved on meanwhile."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """The files are not what was written: its writer will empty the index when it is opened."""

    reason: str


@dataclass(frozen=True)
class KeywordReader:
    """Made by `open`. Stands still at one commit; needs no closing."""

    position: Position
    _pinned: Pinned

    @classmethod
    def open(cls, folder: Path, must_match: str) -> KeywordReader | Damaged | None:
        """None when no index that was filled under `must_match` is there (or it is still being filled)."""
        damaged = None
        for _ in range(TRIES_MAX):
            recorded = read_recorded(folder, must_match)
            if recorded is None:
                return None
            generation = generation_folder(folder, recorded.generation)
            try:
                pinned = Pinned(open_committed(generation))
                if is_intact(generation):
                    return cls(recorded.position, pinned)
                damaged = Damaged("a file is missing or has another checksum")
            except (ValueError, OSError) as error:
                damaged = Damaged(str(error))
        return damaged

    def search(self, query: str, k: int, allowed: Collection[ChunkId] | None = None) -> list[tuple[ChunkId, float]]:
        return self._pinned.search(query, k, Allowed(frozenset(allowed)) if allowed is not None else None, None)

    def count(self) -> int:
        return self._pinned.count()

    def holds(self, chunk_ids: Sequence[ChunkId]) -> set[ChunkId]:
        return {ChunkId(bytes.fromhex(chunk)) for chunk in self._pinned.holds([chunk_id.hex() for chunk_id in chunk_ids])}

    def chunks_of(self, documents: Collection[str]) -> dict[str, set[ChunkId]]:
        return self._pinned.chunks_of(documents)
