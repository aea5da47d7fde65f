"""Where a replica's rows lie: the wide arrays in segments that never move once full, a few narrow arrays beside them.

A slot is a row's place; who may write into which slot is decided in `replica`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from store.vectors.kernel import Codes, Floats, Quantised
from store.vectors.select import Ids, Slots

_Number = TypeVar("_Number", bound=np.generic)

SEGMENT_ROWS = 65_536
"""A call into the kernel costs some 20 us whatever it scans: 16 calls a million rows."""
FIRST_ROWS = 256


@dataclass(frozen=True, slots=True)
class Segment:
    codes: Codes
    vectors: Floats


class Rows:
    """Arrays with room for more rows than are used. Growing leaves the arrays that were handed out as they are."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.segments: tuple[Segment, ...] = ()
        self.scales = np.empty(0, dtype=np.float32)
        self.residuals = np.empty(0, dtype=np.float32)
        self.norms = np.empty(0, dtype=np.float32)
        self.document_keys = np.empty(0, dtype=np.int64)
        self.ids: Ids = np.empty((0, 2), dtype=np.uint64)

    def reserve(self, rows: int) -> None:
        """Makes room for `rows` in all: a last segment that is not full size doubles, further ones are added."""
        while (capacity := _capacity(self.segments)) < rows:
            *full, last = self.segments or (self._segment(0),)
            if len(last.codes) == SEGMENT_ROWS:
                self.segments = (*full, last, self._segment(SEGMENT_ROWS))
            else:
                wanted = max(FIRST_ROWS, 2 * len(last.codes), rows - capacity + len(last.codes))
                self.segments = (*full, self._grown(last, min(SEGMENT_ROWS, wanted)))
        if len(self.scales) < rows:
            room = max(FIRST_ROWS, rows + rows // 2)
            self.scales = _longer(self.scales, room)
            self.residuals = _longer(self.residuals, room)
            self.norms = _longer(self.norms, room)
            self.document_keys = _longer(self.document_keys, room)
            self.ids = _longer(self.ids, room)

    def put(self, slots: Slots, vectors: Floats, quantised: Quantised, ids: Ids, document_keys: npt.NDArray[np.int64]) -> None:
        """Writes rows into `slots`, ascending and within what is reserved."""
        for number, part in by_segment(slots):
            segment, places = self.segments[number], slots[part] - number * SEGMENT_ROWS
            segment.codes[places] = quantised.codes[part]
            segment.vectors[places] = vectors[part]
        self.scales[slots] = quantised.scales
        self.residuals[slots] = quantised.residuals
        self.norms[slots] = quantised.norms
        self.document_keys[slots] = document_keys
        self.ids[slots] = ids

    def _segment(self, rows: int) -> Segment:
        return Segment(np.empty((rows, self.dimensions), dtype=np.int8), np.empty((rows, self.dimensions), dtype=np.float32))

    def _grown(self, segment: Segment, rows: int) -> Segment:
        grown = self._segment(rows)
        grown.codes[: len(segment.codes)] = segment.codes
        grown.vectors[: len(segment.vectors)] = segment.vectors
        return grown


def by_segment(slots: Slots) -> Iterator[tuple[int, slice]]:
    """The parts of ascending `slots` that lie in one segment each."""
    if len(slots) == 0:
        return
    first, last = int(slots[0]) // SEGMENT_ROWS, int(slots[-1]) // SEGMENT_ROWS
    ends = np.searchsorted(slots, np.arange(first + 1, last + 2) * SEGMENT_ROWS).tolist()
    start = 0
    for number, end in zip(range(first, last + 1), ends, strict=True):
        if end > start:
            yield number, slice(start, end)
        start = end


def gather_codes(segments: tuple[Segment, ...], slots: Slots) -> Codes:
    """Copies of the codes in ascending `slots`."""
    gathered = np.empty((len(slots), segments[0].codes.shape[1]), dtype=np.int8)
    for number, part in by_segment(slots):
        segments[number].codes.take(slots[part] - number * SEGMENT_ROWS, axis=0, out=gathered[part], mode="clip")
    return gathered


def gather_vectors(segments: tuple[Segment, ...], slots: Slots) -> Floats:
    """Copies of the vectors in ascending `slots`."""
    gathered = np.empty((len(slots), segments[0].vectors.shape[1]), dtype=np.float32)
    for number, part in by_segment(slots):
        segments[number].vectors.take(slots[part] - number * SEGMENT_ROWS, axis=0, out=gathered[part], mode="clip")
    return gathered


def _capacity(segments: tuple[Segment, ...]) -> int:
    return sum(len(segment.codes) for segment in segments)


def _longer(narrow: npt.NDArray[_Number], rows: int) -> npt.NDArray[_Number]:
    longer = np.empty((rows, *narrow.shape[1:]), dtype=narrow.dtype)
    longer[: len(narrow)] = narrow
    return longer
