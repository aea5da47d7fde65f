"""Fusion: what wins, what is reported, and that order never depends on luck."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.fuse import Fused, fuse, fuse_by_rank
from store.model import ChunkId


def chunk(name: str) -> ChunkId:
    return ChunkId(name.encode().ljust(16, b"\0"))


A, B, C, D = (chunk(name) for name in "abcd")


def order(fused: list[Fused]) -> list[ChunkId]:
    return [hit.chunk_id for hit in fused]


def rankings(low: float, high: float) -> st.SearchStrategy[list[tuple[ChunkId, float]]]:
    names = st.sampled_from("abcdefgh").map(chunk)
    scores = st.floats(low, high, width=32, allow_subnormal=False)
    return st.dictionaries(names, scores, max_size=8).map(lambda found: sorted(found.items(), key=lambda hit: (-hit[1], hit[0])))


DENSE, KEYWORD, WEIGHT = rankings(-1, 1), rankings(0, 40), st.floats(0, 1)


def test_shares_are_measured_from_the_theoretical_minimum_to_the_best() -> None:
    fused = fuse([(A, 0.8), (B, 0.35)], [(B, 10.0), (A, 5.0)], dense_weight=0.6, k=2)
    assert fused == [
        Fused(B, pytest.approx(0.6 * 1.35 / 1.8 + 0.4), 0.35, 10.0),
        Fused(A, pytest.approx(0.6 + 0.4 * 0.5), 0.8, 5.0),
    ]


def test_a_dense_side_that_tells_nothing_apart_leaves_the_order_to_the_words() -> None:
    dense = [(A, 0.302), (B, 0.301), (C, 0.300)]
    assert order(fuse(dense, [(C, 9.0), (B, 4.0)], dense_weight=0.6, k=3)) == [C, B, A]


def test_a_chunk_that_the_dense_side_did_not_give_stands_at_its_last_score() -> None:
    by_floor = fuse([(A, 0.9), (B, 0.1)], [(C, 7.0)], dense_weight=0.5, k=3)
    scored = fuse([(A, 0.9), (B, 0.1), (C, 0.1)], [(C, 7.0)], dense_weight=0.5, k=3)
    assert [(hit.chunk_id, hit.score) for hit in by_floor] == [(hit.chunk_id, hit.score) for hit in scored]
    assert {hit.chunk_id: hit.dense for hit in by_floor}[C] is None


def test_a_chunk_that_the_keyword_side_did_not_give_has_no_keyword_share() -> None:
    assert fuse([(A, 1.0)], [], dense_weight=0.6, k=1) == [Fused(A, pytest.approx(0.6), 1.0, None)]


def test_equal_scores_go_by_chunk_id() -> None:
    assert order(fuse([(B, 0.5), (A, 0.5)], [(D, 1.0), (C, 1.0)], dense_weight=0.5, k=4)) == [C, D, A, B]


@pytest.mark.parametrize("dense", [[(A, 0.0), (B, 0.0)], [(A, -1.0), (B, -1.0)], [(A, 0.4)]])
def test_constant_and_single_lists_are_no_special_case(dense: list[tuple[ChunkId, float]]) -> None:
    assert order(fuse(dense, [(B, 3.0)], dense_weight=0.6, k=1)) == [B] if len(dense) == 2 else [A]


def test_keyword_scores_of_zero_count_nothing() -> None:
    assert fuse([], [(A, 0.0)], dense_weight=0.6, k=1) == [Fused(A, 0.0, None, 0.0)]


@pytest.mark.parametrize(("weight", "best"), [(0.0, B), (1.0, A)])
def test_the_extreme_weights_are_one_side_alone(weight: float, best: ChunkId) -> None:
    assert order(fuse([(A, 0.9), (B, 0.8)], [(B, 5.0), (A, 1.0)], dense_weight=weight, k=2))[0] == best


@given(DENSE, KEYWORD, WEIGHT, st.integers(0, 10))
def test_the_k_best_are_the_first_k_of_all_and_scores_stay_in_range(
    dense: list[tuple[ChunkId, float]], keyword: list[tuple[ChunkId, float]], weight: float, k: int
) -> None:
    everything = fuse(dense, keyword, dense_weight=weight, k=99)
    assert fuse(dense, keyword, dense_weight=weight, k=k) == everything[:k]
    assert {hit.chunk_id for hit in everything} == {found for found, _ in dense + keyword}
    assert [hit for hit in everything if not 0.0 <= hit.score <= 1.0 + 1e-9] == []


@given(DENSE, WEIGHT)
def test_without_keyword_hits_the_order_is_the_dense_one(dense: list[tuple[ChunkId, float]], weight: float) -> None:
    fused = fuse(dense, [], dense_weight=max(weight, 0.1), k=99)
    assert [hit.dense for hit in fused] == pytest.approx([score for _, score in dense], abs=1e-6)


def test_fusion_by_rank_looks_at_ranks_alone() -> None:
    fused = fuse_by_rank([(A, 0.9), (B, 0.1)], [(A, 3.0), (C, 2.9)], k=3)
    assert fused == [
        Fused(A, pytest.approx(1.0), 0.9, 3.0),
        Fused(B, pytest.approx(0.5 * 61 / 62), 0.1, None),
        Fused(C, pytest.approx(0.5 * 61 / 62), None, 2.9),
    ]
