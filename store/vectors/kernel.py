"""The arithmetic of an exact scan: int8 codes with a bounded error, their dot products, and scores at stored precision.

The only door to simsimd here; without it numpy scans, more slowly, with the same answers. Pure: keeps nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import simsimd
except ImportError:  # no wheel for this platform
    simsimd: Any = None  # type: ignore[no-redef]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]

VALUE_MAX = np.float32(1e18)
"""A stored value beyond it is damage: vectors have unit length."""

_CODE_MAX = 127
_PEAK_MIN = np.float32(1e-30)
"""A row smaller than this has zero codes, and all of it as residual."""
_SLACK = 1.001
_ROUNDING = 4e-6
"""Of float32 arithmetic, relative to the norms: dozens of roundings of 6e-8 each."""
_STEP_ROWS = 2048
_EXACT_DIMENSIONS_MAX = 1040
"""127 * 127 * 1040 < 2**24: up to here float32 sums of code products are whole numbers without rounding."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """Rows as int8: row = code * scale + error, |error| <= residual. `norms` are those of code * scale, rounded up."""

    codes: Codes
    scales: Floats
    residuals: Floats
    norms: Floats


def quantise(rows: Floats) -> Quantised:
    """Codes of `rows` (n, d), each row with a scale of its own, so that a row's outlier costs no other row precision.

    Values are finite and at most VALUE_MAX. Norms are taken in units of the scale, where no square overflows or vanishes.
    """
    peaks = np.abs(rows).max(axis=1, initial=0.0)
    tiny = peaks < _PEAK_MIN
    scales = np.where(tiny, np.float32(0), peaks / np.float32(_CODE_MAX))
    inverses = np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=~tiny)
    errors = rows * inverses[:, None]
    codes = np.rint(errors)
    errors -= codes
    norms = scales * _row_norms(codes) * np.float32(_SLACK)
    residuals = scales * _row_norms(errors) * np.float32(_SLACK) + norms * np.float32(_ROUNDING)
    residuals = np.where(tiny, peaks * np.float32(_SLACK * rows.shape[1] ** 0.5), residuals)
    return Quantised(codes.astype(np.int8), scales, residuals, norms)


def _row_norms(rows: Floats) -> Floats:
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


@dataclass(frozen=True, slots=True)
class Query:
    """A query of unit length, and its codes: unit = codes * scale + error, |error| = error_norm."""

    unit: Doubles
    codes: Codes
    scale: float
    error_norm: float


def query_of(values: Doubles) -> Query | None:
    """None for the zero vector, which has no direction."""
    peak = np.abs(values).max(initial=0.0)
    if peak == 0.0:
        return None
    scaled = values / peak
    unit = scaled / np.sqrt(np.einsum("i,i->", scaled, scaled))
    scale = float(np.abs(unit).max()) / _CODE_MAX
    codes = np.rint(unit / scale).astype(np.int8)
    error = unit - codes * scale
    return Query(unit, codes, scale, float(np.sqrt(np.einsum("i,i->", error, error))) * _SLACK)


def scan(codes: Codes, query: Query, dots: Floats) -> None:
    """Writes the dot product of each row of `codes` (n, d) with the query's codes into `dots` (n,)."""
    if len(codes) == 0:
        return
    if simsimd is None:
        scan_numpy(codes, query, dots)
    else:
        # Not out=dots: simsimd 6.5.16 then returns None without counting the reference, and the interpreter aborts in the end.
        dots[:] = np.asarray(simsimd.cdist(query.codes[None, :], codes, metric="dot", dtype="int8", out_dtype="float32", threads=1))[0]


def scan_numpy(codes: Codes, query: Query, dots: Floats) -> None:
    """The same without simsimd."""
    wide: npt.DTypeLike = np.float32 if codes.shape[1] <= _EXACT_DIMENSIONS_MAX else np.float64
    query_codes = query.codes.astype(wide)
    for first in range(0, len(codes), _STEP_ROWS):
        dots[first : first + _STEP_ROWS] = codes[first : first + _STEP_ROWS].astype(wide) @ query_codes


def interval(dots: Floats, scales: Floats, residuals: Floats, norms: Floats, query: Query) -> tuple[Floats, Floats]:
    """Lower and upper bounds of the rows' true scores.

    q.v - (q code).(v code) = q.(v - v code) + (q - q code).(v code), so that the score lies within
    |q| * residual + |q error| * norm of what the codes say (Cauchy and Schwarz).
    """
    middles = dots * scales
    middles *= np.float32(query.scale)
    bounds = norms * np.float32(query.error_norm)
    bounds += residuals
    return middles - bounds, np.add(middles, bounds, out=bounds)


def exact_scores(rows: Floats, query: Query) -> Doubles:
    """Dot products in float64, each row by itself: equal rows get equal scores wherever they stand (BLAS would not)."""
    scores = np.empty(len(rows), dtype=np.float64)
    for first in range(0, len(rows), _STEP_ROWS):
        step = rows[first : first + _STEP_ROWS].astype(np.float64)
        np.einsum("ij,j->i", step, query.unit, out=scores[first : first + _STEP_ROWS])
    return scores
