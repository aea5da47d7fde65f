"""What a search sees of a keyword index: one commit and what is fresh over it. Never changed; a change makes another one.

A score is what one index of all these rows would give. Who may see what is for the caller to say, as the chunks allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from store.keywords.analysis import query_terms
from store.keywords.engine import Committed, Wanted, first_half, one_of_chunks, one_of_documents, stem, wanted
from store.keywords.fresh import (
    FIELDS,
    LENGTH_DRIFT_MAX,
    NOTHING_FRESH,
    Asked,
    FieldLength,
    Overlay,
    Pending,
    Row,
    Weighing,
    counts_of,
    weigh,
)
from store.model import ChunkId

QUERY_TERMS_MAX = 256
HITS_SPARE = 1.6
"""Times the hits that are expected to be needed are looked at first: to ask a second time costs as much again."""
CHUNK_NAME_HITS = 3
DOCUMENT_NAME_HITS = 5
"""Naming a chunk or a document in the query costs about what looking at so many hits does."""
HALVES_PER_HIT_MAX = 10
"""A larger filter is not made into numbers first: that costs more than it spares."""


@dataclass(slots=True)
class Allowed:
    """The only chunks that may be found, and the documents that they are of. Worth keeping for the next query: it remembers its
    names in the engine's terms."""

    chunks: Collection[ChunkId]
    """A set, or what is as quick to ask."""
    documents: Collection[str] | None = None
    """None: not known."""
    _named: Wanted | None = field(default=None, repr=False)
    _halves: frozenset[int] | None = field(default=None, repr=False)

    def way_in(self, k: int, rows: int) -> WayIn:
        """The quickest of three: naming the chunks, naming their documents, or looking at one hit after the other."""
        hits = HITS_SPARE * k * rows / max(1, len(self.chunks))
        if min(self._chunks_cost, self._documents_cost) <= hits:
            return WayIn([self._names()], k)
        return WayIn([], int(hits), self._first_halves() if len(self.chunks) <= HALVES_PER_HIT_MAX * hits else None)

    @property
    def _chunks_cost(self) -> int:
        return CHUNK_NAME_HITS * len(self.chunks)

    @property
    def _documents_cost(self) -> int:
        return DOCUMENT_NAME_HITS * len(self.documents if self.documents is not None else self.chunks)

    def _names(self) -> Wanted:
        if self._named is None:
            by_document = self.documents is not None and self._documents_cost < self._chunks_cost
            self._named = one_of_documents(self.documents or ()) if by_document else one_of_chunks(self.chunks)
        return self._named

    def _first_halves(self) -> frozenset[int]:
        if self._halves is None:
            self._halves = frozenset(map(first_half, self.chunks))
        return self._halves


@dataclass(frozen=True, slots=True)
class WayIn:
    """How the committed rows are searched."""

    only: Sequence[Wanted]
    looked_at_first: int
    first_halves: Collection[int] | None = None
    """Hits whose chunk id begins otherwise need no second look."""


@dataclass(frozen=True)
class Pinned:
    committed: Committed
    overlay: Overlay = NOTHING_FRESH

    def with_changes(self, changes: Mapping[str, Pending]) -> Pinned:
        return Pinned(self.committed, self.overlay.with_changes(changes, self.committed.live))

    def over(self, committed: Committed, written: Mapping[str, Pending]) -> Pinned:
        """The same rows, `written` being in `committed` by now."""
        return Pinned(committed, self.overlay.without(written, committed.live))

    def search(
        self, query: str, k: int, allowed: Allowed | Callable[[ChunkId], bool] | None, documents: Collection[str] | None
    ) -> list[tuple[ChunkId, float]]:
        asked = asked_of(query)
        if not asked or k < 1:
            return []
        admits = _predicate(allowed)
        if not self.overlay.rows:
            weights = [(each, float(each.times)) for each in asked]
            return self._committed_best(weights, k, allowed, admits, documents)
        asked = [each for each in asked if self._occurs(each)]
        weighing = weigh(asked, self._lengths(asked), self.committed.frequency, [pending.counts for pending in self.overlay.rows])
        best = self._committed_best(weighing.committed_boosts, k, allowed, admits, documents, weighing)
        best += self._fresh_hits(weighing, admits, documents)
        return sorted(best, key=lambda hit: (-hit[1], hit[0]))[:k]

    def _lengths(self, asked: Collection[Asked]) -> dict[str, FieldLength]:
        """Of the fields that are asked for."""
        return {of: self.committed.length(of, self._likely_terms(of, asked)) for of in {each.field for each in asked}}

    def _occurs(self, asked: Asked) -> bool:
        return self.committed.frequency(asked.field, asked.term) > 0 or any(
            asked.term in pending.counts.terms[asked.field] for pending in self.overlay.rows
        )

    def _likely_terms(self, of: str, asked: Collection[Asked]) -> Iterator[str]:
        yield from (each.term for each in asked if each.field == of)
        for pending in self.overlay.rows:
            yield from pending.counts.terms[of]

    def _committed_best(
        self,
        weights: Collection[tuple[Asked, float]],
        k: int,
        allowed: Allowed | Callable[[ChunkId], bool] | None,
        admits: Callable[[ChunkId], bool],
        documents: Collection[str] | None,
        weighing: Weighing | None = None,
    ) -> list[tuple[ChunkId, float]]:
        if not weights:
            return []
        way = allowed.way_in(k, self.committed.rows) if isinstance(allowed, Allowed) else WayIn([], k)
        named = [one_of_documents(documents)] if documents is not None else []
        masked = self.overlay.masked
        served = admits if not masked else lambda chunk_id: chunk_id.hex() not in masked and admits(chunk_id)
        drifted = weighing if weighing is not None and weighing.drift > LENGTH_DRIFT_MAX else None
        return self.committed.best(
            wanted(weights, [*named, *way.only]),
            k,
            served,
            looked_at_first=way.looked_at_first,
            first_halves=way.first_halves,
            rescore=(lambda row: drifted.score(counts_of(row, stem))) if drifted is not None else None,
            growth_max=drifted.growth_max if drifted is not None else 1.0,
        )

    def _fresh_hits(
        self, weighing: Weighing, admits: Callable[[ChunkId], bool], documents: Collection[str] | None
    ) -> Iterator[tuple[ChunkId, float]]:
        for pending in self.overlay.rows:
            row = pending.row
            if row is not None and (documents is None or row.document in documents):
                chunk_id, score = ChunkId(bytes.fromhex(row.chunk)), weighing.score(pending.counts)
                if score > 0.0 and admits(chunk_id):
                    yield chunk_id, score

    def count(self) -> int:
        return self.committed.rows - len(self.overlay.masked) + len(self.overlay.rows)

    def holds(self, chunks: Collection[str]) -> set[str]:
        latest = self.overlay.latest
        fresh = {chunk for chunk in chunks if chunk in latest and latest[chunk].row is not None}
        return fresh | self.committed.live([chunk for chunk in chunks if chunk not in latest])

    def chunks_of(self, documents: Collection[str]) -> dict[str, set[ChunkId]]:
        found: dict[str, set[ChunkId]] = {document: set() for document in documents}
        for row in self._rows_of(documents):
            found[row.document].add(ChunkId(bytes.fromhex(row.chunk)))
        return found

    def _rows_of(self, documents: Collection[str]) -> Iterator[Row]:
        if documents:
            yield from (row for row in self.committed.of_documents(documents) if row.chunk not in self.overlay.masked)
        fresh = (pending.row for pending in self.overlay.rows)
        wanted_ones = set(documents)
        yield from (row for row in fresh if row is not None and row.document in wanted_ones)

    def vocabulary(self) -> Iterator[str]:
        for each in FIELDS:
            fresh = {term for pending in self.overlay.rows for term in pending.counts.terms[each]}
            yield from sorted(fresh.union(self.committed.terms(each, self.overlay.masked)))


def asked_of(query: str) -> list[Asked]:
    """The terms of a query, a repeated one as often as it stands there."""
    terms = query_terms(query)
    counted = Counter([("words", term) for term in stem(" ".join(terms.words))] + [("singles", term) for term in terms.singles])
    return [Asked(each, term, times) for (each, term), times in list(counted.items())[:QUERY_TERMS_MAX]]


def _predicate(allowed: Allowed | Callable[[ChunkId], bool] | None) -> Callable[[ChunkId], bool]:
    if allowed is None:
        return lambda _: True
    return allowed.chunks.__contains__ if isinstance(allowed, Allowed) else allowed
