"""Search quality on the shared collections, cut as by default, beside the baselines measured with other engines.

Keyword search is held to them on all four sets with all questions. Hybrid costs an embedding a text, so here it is held to its parts
on the two XQuAD sets with every tenth question; `python bench/quality.py --check` does so on all four, whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from kit.shared import shared_path

from bench.quality import (
    BELOW_BASELINE_MAX,
    BELOW_BETTER_PART_MAX,
    KEYWORD_BASELINES,
    CutSet,
    Judged,
    Rankings,
    Vectors,
    cut_set,
    dense_rankings,
    hybrid_rankings,
    keyword_rankings,
    load_set,
    quality,
)
from indexer.embedding.wiring import embedder_for
from store.config import EmbeddingTable, RetrieverTable

pytestmark = pytest.mark.shared

QUESTIONS_EVERY = 10


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vectors]:
    opened = Vectors(tmp_path_factory.mktemp("vectors") / "vectors.db", embedder_for(EmbeddingTable(provider="local")))
    yield opened
    opened.close()


@cache
def loaded(name: str, queries_every: int = 1) -> tuple[Judged, CutSet]:
    judged = load_set(shared_path(f"data/{name}"), queries_every)
    return judged, cut_set(judged)


def by_keyword(name: str, folder: Path, queries_every: int = 1) -> tuple[Judged, CutSet, Rankings]:
    judged, documents = loaded(name, queries_every)
    return judged, documents, keyword_rankings(judged, documents, folder)


@pytest.mark.parametrize("name", KEYWORD_BASELINES)
def test_keyword_search_is_as_good_as_the_baseline(name: str, tmp_path: Path) -> None:
    judged, documents, keyword = by_keyword(name, tmp_path)
    found = quality(judged, documents, keyword)
    print(f"{name}: keyword nDCG@10 {found.ndcg:.4f} (baseline {KEYWORD_BASELINES[name]}), {found.queries} queries")
    assert found.ndcg >= KEYWORD_BASELINES[name] - BELOW_BASELINE_MAX


@pytest.mark.parametrize("name", ["xquad-en", "xquad-zh"])
def test_hybrid_search_is_not_worse_than_its_better_part(name: str, tmp_path: Path, vectors: Vectors) -> None:
    judged, documents, keyword = by_keyword(name, tmp_path, QUESTIONS_EVERY)
    dense = dense_rankings(judged, documents, vectors)
    hybrid = hybrid_rankings(dense, keyword, RetrieverTable().dense_weight)
    both, parts = quality(judged, documents, hybrid), [quality(judged, documents, rankings) for rankings in (dense, keyword)]
    print(f"{name}: dense, keyword {[round(part.ndcg, 4) for part in parts]}, hybrid {both.ndcg:.4f}, {both.queries} queries")
    assert both.ndcg >= max(part.ndcg for part in parts) - BELOW_BETTER_PART_MAX
