"""Ranks the chunks of a view: who may be ranked at all is settled first, then each engine scores those alone, then hybrid fuses.

Works on one view at one position and reads no catalog; what of it is still true *now* is the searcher's last step.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from retriever.facts import DocumentFacts, permits
from retriever.filters import Predicate, compile_filter
from retriever.fuse import fuse
from retriever.query import Mode
from retriever.view import Admitted, View
from store.model import ChunkId, Uri

Allowed = Admitted | None
"""Chunks that may be ranked; None: all."""
ADMISSIONS_MAX = 16
"""Admissions kept for the next query at the same position; more begin anew."""
Scored = list[tuple[ChunkId, float]]
"""Best first."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Who and what may appear: the filter, and the principals where ACLs are in force (None: they are not)."""

    filter: Mapping[str, Any]
    principals: frozenset[str] | None

    @property
    def is_open(self) -> bool:
        return not self.filter and self.principals is None

    def permits(self, acl: Collection[str] | None) -> bool:
        return self.principals is None or permits(acl, self.principals)

    @property
    def key(self) -> object:
        return json.dumps(self.filter, sort_keys=True), self.principals

    def predicate(self) -> Predicate:
        return compile_filter(self.filter)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is ranked by: a text for keywords, a vector for dense; at least one of them."""

    mode: Mode
    text: str | None
    vector: bytes | None
    dense_weight: float
    fetch_k: int
    """Candidates that each side hands to the fusion."""
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    chunk_id: ChunkId
    score: float
    dense: float | None = None
    keyword: float | None = None

    def reaches(self, min_score: float | None, by: Mode) -> bool:
        """Whether the absolute score is high enough: the cosine in dense and hybrid, BM25 in keyword. Without one it is not."""
        absolute = self.keyword if by is Mode.KEYWORD else self.dense
        return min_score is None or (absolute is not None and absolute >= min_score)


@dataclass(frozen=True, slots=True)
class Ranking:
    candidates: tuple[Candidate, ...]
    """Best first."""
    exhausted: bool
    """There is nothing behind the last candidate."""
    below: int
    """Candidates that `min_score` left out."""
    counts: Mapping[str, int]
    """Stage by stage, for `explain`."""


def admitted(view: View, admission: Admission) -> Allowed:
    """The chunks that may be ranked."""
    if admission.is_open:
        return None
    known = view.admissions.get(admission.key)
    if known is None:
        chunks = admitted_chunks(view.documents, admission)
        if len(view.admissions) >= ADMISSIONS_MAX:
            view.admissions.clear()
        known = view.admissions[admission.key] = view.admitted(chunks)
    return known


def admitted_chunks(documents: Mapping[Uri, DocumentFacts], admission: Admission) -> frozenset[ChunkId]:
    matches, named = admission.predicate(), fields_named(admission.filter)
    chunks: set[ChunkId] = set()
    for facts in documents.values():
        if admission.permits(facts.acl):
            chunks.update(_matching(facts, matches, named))
    return frozenset(chunks)


def _matching(facts: DocumentFacts, matches: Predicate, named: frozenset[str]) -> Iterable[ChunkId]:
    if named.isdisjoint(facts.own_names):
        return facts.chunk_fields if matches(facts.fields) else ()
    return [chunk_id for chunk_id in facts.chunk_fields if matches(facts.fields_of(chunk_id))]


def fields_named(filter: Mapping[str, Any]) -> frozenset[str]:
    """Every top-level field that a filter could look at: dotted names whole and by their first part."""
    named: set[str] = set()
    for key, operand in filter.items():
        branches = operand if isinstance(operand, list) else [operand]
        if key in ("$and", "$or", "$not"):
            named.update(*(fields_named(branch) for branch in branches))
        else:
            named.update((key, key.split(".", 1)[0]))
    return frozenset(named)


def rank(view: View, asked: Asked, allowed: Allowed, depth: int) -> Ranking:
    """The best `depth` of the `allowed` chunks by the mode's own score, those below `min_score` left out."""
    match asked.mode:
        case Mode.KEYWORD:
            keyword = _by_keywords(view, asked, allowed, depth)
            return _by_one(asked, [Candidate(chunk_id, score, keyword=score) for chunk_id, score in keyword], depth)
        case Mode.DENSE:
            dense = _by_vector(view, asked, allowed, depth)
            return _by_one(asked, [Candidate(chunk_id, score, dense=score) for chunk_id, score in dense], depth)
        case Mode.HYBRID:
            return _by_both(view, asked, allowed, depth)
    assert_never(asked.mode)


def _by_one(asked: Asked, ranked: Sequence[Candidate], depth: int) -> Ranking:
    """Sorted by what `min_score` compares, so that one below it has only such behind it."""
    good = _reaching(asked, ranked)
    exhausted = len(ranked) < depth or len(good) < len(ranked)
    return Ranking(good, exhausted, len(ranked) - len(good), {f"{asked.mode}_candidates": len(ranked)})


def _by_both(view: View, asked: Asked, allowed: Allowed, depth: int) -> Ranking:
    """Each side hands over its best; what only one side found is scored by the other too, so that the fusion compares like with like."""
    fetch = max(asked.fetch_k, depth)
    dense, keyword = _by_vector(view, asked, allowed, fetch), _by_keywords(view, asked, allowed, fetch)
    counts = {"dense_candidates": len(dense), "keyword_candidates": len(keyword)}
    dense_is_whole, keyword_is_whole = len(dense) < fetch, len(keyword) < fetch
    rest_is_low = asked.min_score is not None and len(dense) == fetch and dense[-1][1] < asked.min_score
    if not dense_is_whole:
        dense = dense + _by_vector(view, asked, only_keyword := _missing(view, keyword, dense), len(only_keyword.chunks))
    if not keyword_is_whole:
        keyword = keyword + _by_keywords(view, asked, only_dense := _missing(view, dense, keyword), len(only_dense.chunks))
    fused = fuse(dense, keyword, dense_weight=asked.dense_weight, k=len(dense) + len(keyword))
    good = _reaching(asked, [Candidate(hit.chunk_id, hit.score, hit.dense, hit.keyword) for hit in fused])
    exhausted = (rest_is_low or (dense_is_whole and keyword_is_whole)) and len(good) <= depth
    return Ranking(good[:depth], exhausted, len(fused) - len(good), counts)


def _missing(view: View, found: Scored, elsewhere: Scored) -> Admitted:
    there = {chunk_id for chunk_id, _ in elsewhere}
    return view.admitted(frozenset(chunk_id for chunk_id, _ in found if chunk_id not in there))


def _reaching(asked: Asked, ranked: Sequence[Candidate]) -> tuple[Candidate, ...]:
    return tuple(candidate for candidate in ranked if candidate.reaches(asked.min_score, asked.mode))


def _by_keywords(view: View, asked: Asked, allowed: Allowed, k: int) -> Scored:
    if asked.text is None or k < 1 or (allowed is not None and not allowed.chunks):
        return []
    return view.keywords.search(asked.text, k, None if allowed is None else allowed.keywords)


def _by_vector(view: View, asked: Asked, allowed: Allowed, k: int) -> Scored:
    if asked.vector is None or k < 1 or (allowed is not None and not allowed.chunks):
        return []
    return view.vectors.search(asked.vector, k, None if allowed is None else allowed.mask)
