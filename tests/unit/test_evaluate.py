"""The figures of retrieval quality, against values worked out by hand."""

from __future__ import annotations

from math import log2

import pytest

from retriever.evaluate import Quality, evaluate, ndcg, recall, reciprocal_rank

GRADES = {"a": 3, "b": 1, "c": 0, "d": 2}


def test_ndcg_has_linear_gain_and_logarithmic_discount() -> None:
    ideal = 3 + 2 / log2(3) + 1 / 2
    assert ndcg(["c", "a", "x", "b"], GRADES, 10) == pytest.approx((3 / log2(3) + 1 / log2(5)) / ideal)


def test_the_ideal_ranking_scores_one_at_any_depth() -> None:
    assert [ndcg(["a", "d", "b"], GRADES, k) for k in (1, 2, 3, 10)] == pytest.approx([1.0] * 4)


def test_what_comes_after_rank_k_does_not_count() -> None:
    assert (ndcg(["c", "a"], GRADES, 1), reciprocal_rank(["c", "a"], GRADES, 1), recall(["c", "a"], GRADES, 1)) == (0.0, 0.0, 0.0)


def test_reciprocal_rank_is_of_the_first_relevant_document() -> None:
    assert reciprocal_rank(["x", "c", "b", "a"], GRADES, 10) == pytest.approx(1 / 3)


def test_recall_is_the_share_of_the_relevant() -> None:
    assert recall(["a", "c", "b"], GRADES, 10) == pytest.approx(2 / 3)


def test_a_query_without_a_run_counts_as_nothing_and_one_without_relevant_documents_is_left_out() -> None:
    judged = evaluate({"1": ["a"], "3": ["z"]}, {"1": {"a": 1}, "2": {"b": 1}, "3": {"c": 0}}, 10)
    assert judged == Quality(ndcg=0.5, reciprocal_rank=0.5, recall=0.5, queries=2)


def test_no_judgements_are_no_quality() -> None:
    assert evaluate({"1": ["a"]}, {}) == Quality(0.0, 0.0, 0.0, 0)
