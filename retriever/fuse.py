"""Two rankings become one. Pure: the same lists give the same order, ties by chunk id.

`fuse` is the default: a convex combination of both scores, each measured from its theoretical minimum (0 for BM25, -1 for cosine)
to the best of this query (Bruch, Gai, Ingber 2023, "An Analysis of Fusion Functions for Hybrid Retrieval", TM2C2). Unlike min-max over what
was fetched it does not stretch a dense side that can tell nothing apart into full marks for its first. `fuse_by_rank` looks at ranks alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from store.model import ChunkId

COSINE_MIN = -1.0
RANK_CONSTANT = 60
"""Of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009)."""

Ranking = Sequence[tuple[ChunkId, float]]
"""Best first."""


@dataclass(frozen=True, slots=True)
class Fused:
    chunk_id: ChunkId
    score: float
    """0 to 1, higher is better."""
    dense: float | None
    """The cosine as the dense side gave it; None when it did not give the chunk."""
    keyword: float | None


def fuse(dense: Ranking, keyword: Ranking, *, dense_weight: float, k: int) -> list[Fused]:
    """The k best by `dense_weight` x dense share + the rest x keyword share.

    A chunk that the dense side did not give stands at its last score, the most it can have; one that the keyword side did not
    give stands at 0. Who can score such chunks exactly appends them to the list first.
    """
    dense_scores, keyword_scores = dict(dense), dict(keyword)
    dense_shares = _dense_shares(dense_scores)
    shares = [(dense_weight, dense_shares), (1.0 - dense_weight, _keyword_shares(keyword_scores))]
    floors = [min(dense_shares.values(), default=0.0), 0.0]
    return _ranked(dense_scores, keyword_scores, shares, floors, k)


def fuse_by_rank(dense: Ranking, keyword: Ranking, *, dense_weight: float = 0.5, k: int) -> list[Fused]:
    """Reciprocal rank fusion: weight / (60 + rank), first in both is 1; a chunk that a side did not give gets nothing of it."""
    dense_scores, keyword_scores = dict(dense), dict(keyword)
    shares = [(dense_weight, _rank_shares(dense_scores)), (1.0 - dense_weight, _rank_shares(keyword_scores))]
    return _ranked(dense_scores, keyword_scores, shares, [0.0, 0.0], k)


def _ranked(
    dense: Mapping[ChunkId, float],
    keyword: Mapping[ChunkId, float],
    shares: Sequence[tuple[float, Mapping[ChunkId, float]]],
    floors: Sequence[float],
    k: int,
) -> list[Fused]:
    fused = [
        Fused(
            chunk_id,
            sum(weight * share.get(chunk_id, floor) for (weight, share), floor in zip(shares, floors, strict=True)),
            dense.get(chunk_id),
            keyword.get(chunk_id),
        )
        for chunk_id in {**dense, **keyword}
    ]
    return sorted(fused, key=lambda hit: (-hit.score, hit.chunk_id))[: max(k, 0)]


def _dense_shares(scores: Mapping[ChunkId, float]) -> dict[ChunkId, float]:
    span = max(scores.values(), default=0.0) - COSINE_MIN
    return {chunk_id: (score - COSINE_MIN) / span if span > 0 else 0.0 for chunk_id, score in scores.items()}


def _keyword_shares(scores: Mapping[ChunkId, float]) -> dict[ChunkId, float]:
    best = max(scores.values(), default=0.0)
    return {chunk_id: score / best if best > 0 else 0.0 for chunk_id, score in scores.items()}


def _rank_shares(scores: Mapping[ChunkId, float]) -> dict[ChunkId, float]:
    return {chunk_id: (RANK_CONSTANT + 1) / (RANK_CONSTANT + rank) for rank, chunk_id in enumerate(scores, 1)}
