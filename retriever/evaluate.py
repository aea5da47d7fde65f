"""How good a ranking is, against judgements: nDCG, reciprocal rank, recall. Pure; the same figures as trec_eval and ir-measures.

A judgement is a grade: 0 not relevant, above 0 relevant. A query without a relevant document is left out of the means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

Grades = Mapping[str, int]
"""Document to grade, of one query."""


@dataclass(frozen=True, slots=True)
class Quality:
    ndcg: float
    reciprocal_rank: float
    recall: float
    queries: int


def evaluate(runs: Mapping[str, Sequence[str]], judgements: Mapping[str, Grades], k: int = 10) -> Quality:
    """Means at rank `k` over the judged queries; one without a run counts as nothing found."""
    judged = {query: grades for query, grades in judgements.items() if any(grade > 0 for grade in grades.values())}
    if not judged:
        return Quality(0.0, 0.0, 0.0, 0)
    pairs = [(runs.get(query, ()), grades) for query, grades in judged.items()]
    return Quality(
        ndcg=fmean(ndcg(run, grades, k) for run, grades in pairs),
        reciprocal_rank=fmean(reciprocal_rank(run, grades, k) for run, grades in pairs),
        recall=fmean(recall(run, grades, k) for run, grades in pairs),
        queries=len(pairs),
    )


def ndcg(run: Sequence[str], grades: Grades, k: int) -> float:
    """Normalised discounted cumulative gain: gain = grade, discount = log2(rank + 1) (Järvelin and Kekäläinen 2002, as trec_eval)."""
    ideal = _dcg(sorted(grades.values(), reverse=True)[:k])
    return _dcg([grades.get(document, 0) for document in run[:k]]) / ideal if ideal else 0.0


def reciprocal_rank(run: Sequence[str], grades: Grades, k: int) -> float:
    """1 / rank of the first relevant document, 0 when none is among the first k."""
    return next((1 / rank for rank, document in enumerate(run[:k], 1) if grades.get(document, 0) > 0), 0.0)


def recall(run: Sequence[str], grades: Grades, k: int) -> float:
    """Share of the relevant documents that are among the first k."""
    relevant = {document for document, grade in grades.items() if grade > 0}
    return len(relevant.intersection(run[:k])) / len(relevant) if relevant else 0.0


def _dcg(gains: Sequence[int]) -> float:
    return sum(max(gain, 0) / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
