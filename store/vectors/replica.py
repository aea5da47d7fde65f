"""A reader's copy of a collection's vectors: exact top k by cosine over what is visible, while commits are applied.

Readers hold an immutable View and never wait; one writer at a time publishes the next. Which documents a query may see is the
caller's mask; what is visible is the catalog's to say. Reads no catalog, embeds nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from store.errors import Corrupt, QueryRejected, SpaceMismatch
from store.model import ChunkId, CollectionId
from store.vectors.kernel import VALUE_MAX, Floats, Query, exact_scores, interval, quantise, query_of, scan
from store.vectors.rows import SEGMENT_ROWS, Rows, gather_codes, gather_vectors
from store.vectors.select import Ids, Slots, best, contenders, first_ids

Mask = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.int64]
Row = tuple[ChunkId, int, bytes]
"""Chunk id, document key, vector (float32, little endian; empty for a chunk kept without one)."""
Hit = tuple[ChunkId, float]

LOAD_ROWS = 1024
GATHER_SHARE = 0.1
"""A mask narrower than this share of the slots is gathered before the scan; a wider one is applied after it."""
COMPACT_ROWS_MIN = 4096
"""A smaller block is not worth moving."""
EXACT_ROWS = 64
"""So few rows are scored at stored precision at once."""


class View:
    """What a reader sees: slots, some of them visible. It never changes; a mask is built on it and used on it alone."""

    __slots__ = (
        "__weakref__",
        "_alive",
        "_home",
        "_ids",
        "_norms",
        "_residuals",
        "_scales",
        "_segments",
        "dimensions",
        "document_keys",
        "visible",
    )

    def __init__(self, home: CollectionId, rows: Rows, alive: Mask, visible: int) -> None:
        slots = len(alive)
        self._home = home
        self._segments = rows.segments
        self._alive = alive
        self._scales = rows.scales[:slots]
        self._residuals = rows.residuals[:slots]
        self._norms = rows.norms[:slots]
        self._ids: Ids = rows.ids[:slots]
        self.dimensions = rows.dimensions
        self.document_keys: Keys = rows.document_keys[:slots]
        """The document key of each slot. That of a slot that is not visible means nothing and may change."""
        self.visible = visible
        """Chunks that can be found."""

    def mask_of(self, document_keys: Iterable[int]) -> Mask:
        """True for the slots of these documents."""
        mask: Mask = np.isin(self.document_keys, np.fromiter(document_keys, dtype=np.int64)) & self._alive
        return mask

    def chunks_of(self, document_key: int) -> list[ChunkId]:
        """The visible chunks of one document, by id."""
        slots = np.flatnonzero((self.document_keys == document_key) & self._alive)
        return sorted(self._chunk_ids(slots))

    def search(self, query: bytes, k: int, mask: Mask | None = None) -> list[Hit]:
        """The k visible chunks under `mask` with the highest cosine, ties by chunk id; exact at stored precision.

        `query`: float32, little endian, of any length above zero; a zero query scores 0 with every chunk. `mask`: a bool a slot
        of this very view. Raises SpaceMismatch (dimensions), QueryRejected (k below 1, a value that is not finite).
        """
        unit = self._query_of(query, k)
        eligible = self._alive if mask is None else self._alive & self._checked(mask)
        count = self.visible if mask is None else int(np.count_nonzero(eligible))
        if count == 0:
            return []
        if unit is None:
            return self._without_direction(np.flatnonzero(eligible), k)
        slots = self._contenders(unit, k, eligible, count)
        scores = exact_scores(gather_vectors(self._segments, slots), unit)
        order = best(scores, self._ids[slots], k)
        return list(zip(self._chunk_ids(slots[order]), scores[order].tolist(), strict=True))

    def _query_of(self, query: bytes, k: int) -> Query | None:
        if k < 1:
            raise QueryRejected(place="k", reason="it is at least 1")
        if len(query) != 4 * self.dimensions:
            raise SpaceMismatch(collection=self._home.collection, expected=self.dimensions, got=len(query) // 4)
        values = np.frombuffer(query, dtype="<f4").astype(np.float64)
        if not np.isfinite(values).all():
            raise QueryRejected(place="vector", reason="it has a value that is not finite")
        return query_of(values)

    def _checked(self, mask: Mask) -> Mask:
        if mask.dtype != np.bool_ or mask.shape != self._alive.shape:
            raise ValueError(f"a mask of {mask.shape} {mask.dtype} is not of this view of {len(self._alive)} slots")
        return mask

    def _without_direction(self, slots: Slots, k: int) -> list[Hit]:
        chosen = slots[first_ids(self._ids[slots], k)]
        return [(chunk_id, 0.0) for chunk_id in self._chunk_ids(chosen)]

    def _contenders(self, query: Query, k: int, eligible: Mask, count: int) -> Slots:
        """The slots that could be among the best k, ascending."""
        if count <= max(k, EXACT_ROWS):
            return np.flatnonzero(eligible)
        if count <= GATHER_SHARE * len(eligible):
            return self._contenders_gathered(query, k, np.flatnonzero(eligible))
        return self._contenders_scanned(query, k, eligible, count)

    def _contenders_gathered(self, query: Query, k: int, slots: Slots) -> Slots:
        dots = np.empty(len(slots), dtype=np.float32)
        scan(gather_codes(self._segments, slots), query, dots)
        lower, upper = interval(dots, self._scales[slots], self._residuals[slots], self._norms[slots], query)
        return slots[contenders(lower, upper, k)]

    def _contenders_scanned(self, query: Query, k: int, eligible: Mask, count: int) -> Slots:
        slots = len(eligible)
        dots = np.empty(slots, dtype=np.float32)
        for first, segment in zip(range(0, slots, SEGMENT_ROWS), self._segments, strict=False):
            scan(segment.codes[: slots - first], query, dots[first : first + SEGMENT_ROWS])
        with np.errstate(all="ignore"):  # a slot that is not visible may be half written
            lower, upper = interval(dots, self._scales, self._residuals, self._norms, query)
        if count < slots:
            hidden = ~eligible
            lower[hidden] = upper[hidden] = -np.inf
        return contenders(lower, upper, k)

    def _chunk_ids(self, slots: Slots) -> list[ChunkId]:
        joined = self._ids[slots].astype(">u8").tobytes()
        return [ChunkId(joined[at : at + 16]) for at in range(0, len(joined), 16)]


class Block:
    """The vectors of one collection. Any number of threads may search while one loads or applies."""

    def __init__(self, home: CollectionId, dimensions: int) -> None:
        self.home = home
        self.dimensions = dimensions
        self._writing = threading.Lock()
        self._start_empty()

    def view(self) -> View:
        """What is visible now. Hold it for one query: slots are not reused while an older view is held."""
        return self._view

    def search(self, query: bytes, k: int, mask: Mask | None = None) -> list[Hit]:
        """As View.search, on the view of now; with a mask, search the view that the mask was built on."""
        return self._view.search(query, k, mask)

    def __len__(self) -> int:
        return self._view.visible

    def __contains__(self, chunk_id: ChunkId) -> bool:
        return chunk_id in self._slots

    @property
    def memory_bytes(self) -> int:
        """About what this block occupies."""
        return self._used * (5 * self.dimensions + 40) + 160 * len(self._slots)

    def load(self, rows: Iterable[Row]) -> None:
        """Fills an empty block, and publishes when all is in: readers see nothing or everything. Fails as `apply`, staying empty."""
        with self._writing:
            if self._slots:
                raise ValueError("only an empty block is loaded")
            try:
                for batch in _batches(rows):
                    fresh = _Fresh(self.home, self.dimensions, batch)
                    self._rows.reserve(self._used + len(fresh.ids))
                    self._put(fresh, np.arange(self._used, self._used + len(fresh.ids)))
                    if len(self._slots) != self._used:
                        raise ValueError("a chunk id is loaded twice")
            except BaseException:
                self._start_empty()
                raise
            self._publish(np.ones(self._used, dtype=np.bool_))

    def apply(self, removed: Iterable[ChunkId], added: Sequence[Row]) -> None:
        """Takes out `removed` (unknown ids do no harm), then puts in `added`, a known id anew: readers see both or neither.

        Idempotent. Raises SpaceMismatch (a vector of other dimensions) or Corrupt (one that is not finite), changing nothing.
        """
        fresh = _Fresh(self.home, self.dimensions, list({row[0]: row for row in added}.values()))
        leaving = {*removed, *(row[0] for row in added)}
        with self._writing:
            gone = [self._slots[chunk_id] for chunk_id in leaving if chunk_id in self._slots]
            slots = self._slots_for(len(fresh.ids))
            for chunk_id in leaving:
                self._slots.pop(chunk_id, None)
            alive = np.zeros(self._used, dtype=np.bool_)
            alive[: len(self._view._alive)] = self._view._alive
            alive[gone] = False
            self._put(fresh, slots)
            alive[slots] = True
            self._leaving.append((weakref.ref(self._view), gone))
            self._publish(alive)
            if self._used > COMPACT_ROWS_MIN and self._view.visible < self._used // 2:
                self._compact()

    def _start_empty(self) -> None:
        self._rows = Rows(self.dimensions)
        self._rows.reserve(0)
        self._used = 0
        self._slots: dict[ChunkId, int] = {}
        self._free: list[int] = []
        self._leaving: deque[tuple[weakref.ref[View], list[int]]] = deque()
        """Slots that were visible in a view and in none after it: free when it and all before it are let go."""
        self._publish(np.empty(0, dtype=np.bool_))

    def _publish(self, alive: Mask) -> None:
        self._view = View(self.home, self._rows, alive, len(self._slots))

    def _slots_for(self, count: int) -> Slots:
        """Ascending slots that no view shows: reused ones, then new ones."""
        while self._leaving and self._leaving[0][0]() is None:
            self._free += self._leaving.popleft()[1]
        reused = min(count, len(self._free))
        self._rows.reserve(self._used + count - reused)
        taken = sorted(self._free[len(self._free) - reused :])
        del self._free[len(self._free) - reused :]
        fresh = range(self._used, self._used + count - reused)
        self._used = fresh.stop
        return np.array([*taken, *fresh], dtype=np.intp)

    def _put(self, fresh: _Fresh, slots: Slots) -> None:
        self._rows.put(slots, fresh.vectors, quantise(fresh.vectors), fresh.id_halves, fresh.document_keys)
        self._slots.update(zip(fresh.ids, slots.tolist(), strict=True))
        self._used = max(self._used, int(slots[-1]) + 1 if len(slots) else 0)

    def _compact(self) -> None:
        """Moves the visible rows into arrays of their own and lets the old ones go: more than half of the slots were empty."""
        view = self._view
        slots = np.flatnonzero(view._alive)
        rows = Rows(self.dimensions)
        rows.reserve(len(slots))
        for first in range(0, len(slots), LOAD_ROWS):
            part = slots[first : first + LOAD_ROWS]
            vectors = gather_vectors(view._segments, part)
            places = np.arange(first, first + len(part))
            rows.put(places, vectors, quantise(vectors), view._ids[part], view.document_keys[part])
        self._rows, self._used, self._free = rows, len(slots), []
        self._leaving.clear()
        self._slots = dict(zip(view._chunk_ids(slots), range(len(slots)), strict=True))
        self._publish(np.ones(len(slots), dtype=np.bool_))


class _Fresh:
    """Rows to be put in, checked, as arrays. Chunks without a vector are left out: dense search cannot find them."""

    def __init__(self, home: CollectionId, dimensions: int, rows: Sequence[Row]) -> None:
        kept = [row for row in rows if row[2]]
        for _, _, vector in kept:
            if len(vector) != 4 * dimensions:
                raise SpaceMismatch(
                    f"Collection {home.collection!r} holds vectors of {dimensions} dimensions, a stored one has {len(vector) // 4}.",
                    collection=home.collection,
                    expected=dimensions,
                    got=len(vector) // 4,
                )
        self.ids = [row[0] for row in kept]
        self.document_keys = np.fromiter((row[1] for row in kept), dtype=np.int64, count=len(kept))
        self.id_halves: Ids = np.frombuffer(b"".join(self.ids), dtype=">u8").reshape(-1, 2).astype(np.uint64)
        self.vectors: Floats = np.frombuffer(b"".join([row[2] for row in kept]), dtype="<f4").reshape(-1, dimensions)
        if not (np.abs(self.vectors) <= VALUE_MAX).all():
            raise Corrupt(
                f"A stored vector of collection {home.collection!r} is not finite; run `evercurrent check`.", collection=home.collection
            )


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, LOAD_ROWS)):
        yield batch
