"""Vectors as the store keeps them: float32, little endian, unit length. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def unit_vector(values: npt.NDArray[np.floating]) -> bytes:
    """`values` scaled to length 1; `b""` when they are all zero or one of them is not finite."""
    wide = values.astype(np.float64)
    peak = np.abs(wide).max(initial=0.0)
    if not np.isfinite(peak) or peak == 0.0:
        return b""
    scaled = wide / peak
    unit = scaled / np.sqrt(np.einsum("i,i->", scaled, scaled))
    return bytes(unit.astype("<f4").tobytes())
