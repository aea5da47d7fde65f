"""Which counters a commit adds to (CONTRACTS.md, section 7). Pure: the adapters add them inside the transaction they count."""

from __future__ import annotations

from collections.abc import Sequence

from store.ports import Tally

FRESHNESS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the freshness histogram's buckets, seconds."""


def outcome_tallies(outcome: str, *, embedded: int = 0, reused: int = 0, vector_rows: int = 0) -> list[Tally]:
    """Counters of one document's outcome; those that are 0 are not written."""
    return [
        Tally("evercurrent_documents_total", (("outcome", outcome),), 1),
        Tally("evercurrent_embedded_texts_total", (), embedded),
        Tally("evercurrent_reused_texts_total", (), reused),
        *vector_rows_tallies(vector_rows),
    ]


def vector_rows_tallies(rows: int) -> list[Tally]:
    """New vector rows, staged or committed."""
    return [Tally("evercurrent_vector_rows_written_total", (), rows)]


def freshness_tallies(seconds: float) -> list[Tally]:
    """One observation of `evercurrent_freshness_seconds`."""
    return histogram_tallies("evercurrent_freshness_seconds", seconds, FRESHNESS_SECONDS)


def histogram_tallies(name: str, seconds: float, bounds: Sequence[float], labels: tuple[tuple[str, str], ...] = ()) -> list[Tally]:
    """One observation of a histogram: the smallest bucket it fits (the reader adds them up), sum and count."""
    bound = next((bound for bound in bounds if seconds <= bound), None)
    bucket = tuple(sorted((*labels, ("le", "+Inf" if bound is None else f"{bound:g}"))))
    return [Tally(f"{name}_bucket", bucket, 1), Tally(f"{name}_sum", labels, seconds), Tally(f"{name}_count", labels, 1)]
