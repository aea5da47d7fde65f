"""One search from request to answer: apply what is committed, embed, rank, and read the hits as they are now.

The first step sees to it that whatever was committed before the query began is in its answer; the last step reads the hits in one
catalog snapshot, so that nothing deleted or forbidden by then is answered, and the next takes its place. Nothing is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from indexer.embedding.port import Embedder
from retriever.follow import CollectionReader, Replicas, covers
from retriever.query import Mode, SearchRequest, parse_search
from retriever.rank import Admission, Asked, Candidate, Ranking, admitted, rank
from store.clock import Clock
from store.errors import CursorLapsed, EmbedderRefused, InputRejected, QueryRejected, Transient, UnknownCollection
from store.model import (
    MAIN_COLLECTION,
    ChunkId,
    CollectionId,
    DocumentId,
    DocumentState,
    Position,
    Seq,
    Space,
    SpaceId,
    Version,
    VisibleChunk,
)
from store.ports import Snapshot

log = structlog.get_logger()

SPARE_HITS = 8
"""Candidates ranked beyond k, to take the places of those that the last step drops."""
DEPTH_MAX = 10_000
"""Candidates examined for one query, at most; reached, the answer says that it is not complete."""
ROUNDS_MAX = 4
"""Times that a query begins again because documents among its hits changed between ranking and reading."""
LOOK_SECONDS = 0.05
"""How often a query that waits for a version looks, when no bell rings."""


class VersionNotReached(Transient):
    code = "version_not_reached"
    sentence = "Version {version} of {document!r} was not committed in time."


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The part of the configuration that a search obeys."""

    acl: bool
    dense_weight: float
    fetch_k: int
    k_max: int
    patience_seconds: float


@dataclass(frozen=True, slots=True)
class Hit:
    chunk: VisibleChunk
    score: float
    dense: float | None
    keyword: float | None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    hits: tuple[Hit, ...]
    snapshot: Seq
    complete: bool
    degraded: tuple[str, ...]
    took_ms: float
    below_threshold: bool = False
    """There were candidates, and `min_score` left none."""
    explain: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    """A request with all that is settled before ranking. The vector is of `space_id` and of no other."""

    home: CollectionId
    request: SearchRequest
    admission: Admission
    asked: Asked
    space_id: SpaceId
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reading:
    """The last step's finding: the hits as they are now, or that documents among them changed since they were ranked."""

    hits: tuple[Hit, ...] = ()
    dropped: int = 0
    changed: bool = False


@dataclass(slots=True)
class _Effort:
    depth: int
    rounds: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def is_last_round(self) -> bool:
        return self.rounds >= ROUNDS_MAX


class Searcher:
    """Answers searches over every collection of a catalog. Thread-safe."""

    def __init__(
        self,
        catalog: CollectionReader,
        replicas: Replicas,
        embedder_of: Callable[[Space], Embedder],
        limits: SearchLimits,
        clock: Clock,
        wait: Callable[[float], object],
    ) -> None:
        """`wait` returns after the given seconds, or sooner when something was committed."""
        self._catalog = catalog
        self._replicas = replicas
        self._embedder_of = embedder_of
        self._limits = limits
        self._clock = clock
        self._wait = wait

    def parsed(self, body: Mapping[str, Any]) -> SearchRequest:
        return parse_search(body, k_max=self._limits.k_max)

    def search(self, home: CollectionId, request: SearchRequest, principals: frozenset[str] = frozenset()) -> SearchAnswer:
        """The best chunks for `request` among those that `principals` may read.

        Raises UnknownCollection, QueryRejected (a vector of another dimension), ReplicaBehind, VersionNotReached, and in dense
        mode what the embedder raises when it is down.
        """
        started = self._clock.monotonic()
        is_there = self._is_there(home)
        self._wait_for_versions(home, request.min_version)
        if not is_there and not self._is_there(home):
            return SearchAnswer((), self._catalog.position().seq, True, (), self._took_ms(started))
        question = self._question(home, request, principals)
        effort = _Effort(request.k + SPARE_HITS)
        while True:
            answer = self._attempt(question, effort, started)
            if isinstance(answer, SearchAnswer):
                return answer
            question = answer

    def chunks(self, home: CollectionId, chunk_ids: Sequence[ChunkId], principals: frozenset[str] = frozenset()) -> list[VisibleChunk]:
        """Those of the chunks that are visible now and permitted, in the order asked. Raises UnknownCollection."""
        if not self._is_there(home):
            return []
        admission = self._admission({}, principals)
        with self._catalog.snapshot() as snapshot:
            found = snapshot.chunks(home, chunk_ids)
        return [chunk for chunk in found if chunk is not None and admission.permits(chunk.acl)]

    def _took_ms(self, started: float) -> float:
        return round((self._clock.monotonic() - started) * 1000, 3)

    # --- before ranking ------------------------------------------------------------------------------------------

    def _question(self, home: CollectionId, request: SearchRequest, principals: frozenset[str]) -> _Question:
        space = self._served_space(home)
        vector, degraded = self._query_vector(space, request)
        asked = Asked(
            mode=Mode.KEYWORD if degraded else request.mode,
            text=request.query,
            vector=vector,
            dense_weight=self._limits.dense_weight,
            fetch_k=self._limits.fetch_k,
            min_score=None if degraded else request.min_score,
        )
        return _Question(home, request, self._admission(request.filter, principals), asked, space.space_id, degraded)

    def _query_vector(self, space: Space, request: SearchRequest) -> tuple[bytes | None, tuple[str, ...]]:
        """The vector to rank by in `space`, and what of the search is degraded without it (a cosine threshold means nothing to BM25)."""
        if request.mode is Mode.KEYWORD:
            return None, ()
        if request.vector is not None:
            return _checked_dimensions(request.vector, space), ()
        try:
            return self._embedder_of(space).embed_query(request.query or ""), ()
        except InputRejected as error:
            raise QueryRejected(place="query", reason="cannot be embedded; make it shorter") from error
        except (Transient, EmbedderRefused) as error:
            if request.mode is Mode.DENSE:
                raise
            log.warning("search_degraded", part="dense", code=error.code, reason=error.message)
            return None, ("dense",) if request.min_score is None else ("dense", "min_score")

    def _admission(self, filter: Mapping[str, Any], principals: frozenset[str]) -> Admission:
        return Admission(filter, principals if self._limits.acl else None)

    def _is_there(self, home: CollectionId) -> bool:
        """False for a main collection before its first document: that is empty. Raises UnknownCollection for any other."""
        if self._catalog.collection(home) is not None:
            return True
        if home.collection == MAIN_COLLECTION:
            return False
        raise UnknownCollection(collection=home.collection, namespace=home.namespace)

    def _served_space(self, home: CollectionId) -> Space:
        collection = self._catalog.collection(home)
        if collection is None:
            raise UnknownCollection(collection=home.collection, namespace=home.namespace)
        return collection.served.space

    def _wait_for_versions(self, home: CollectionId, versions: Mapping[str, int]) -> None:
        give_up_at = self._clock.monotonic() + self._limits.patience_seconds
        for uri, version in versions.items():
            while not self._has_version(home.document(uri), version):
                seconds_left = give_up_at - self._clock.monotonic()
                if seconds_left <= 0:
                    raise VersionNotReached(document=uri, version=version)
                self._wait(min(seconds_left, LOOK_SECONDS))

    def _has_version(self, document: DocumentId, version: int) -> bool:
        status = self._catalog.status_of(document)
        if status is None:
            return False
        reached = status.wanted_version if status.state is DocumentState.DELETED else status.indexed_version
        return reached >= Version(version)

    # --- one attempt ---------------------------------------------------------------------------------------------

    def _attempt(self, question: _Question, effort: _Effort, started: float) -> SearchAnswer | _Question:
        """The answer, or the question to be asked once more: in another space, or of a newer view, or deeper."""
        effort.rounds += 1
        with self._replicas.reading(question.home) as view:
            if view.build.space.space_id != question.space_id:
                return self._question(question.home, question.request, question.admission.principals or frozenset())
            allowed = admitted(view, question.admission)
            ranking = rank(view, question.asked, allowed, effort.depth)
            owners = {candidate.chunk_id: view.documents[view.owners[candidate.chunk_id]].document for candidate in ranking.candidates}
            position = view.position
        reading = self._read(question, ranking.candidates, owners, position)
        if reading.changed and not effort.is_last_round:
            return question
        enough = len(reading.hits) == question.request.k or ranking.exhausted
        if not enough and effort.depth < DEPTH_MAX:
            effort.depth = min(DEPTH_MAX, effort.depth * 4)
            return question
        return SearchAnswer(
            hits=reading.hits,
            snapshot=position.seq,
            complete=enough and not reading.changed,
            degraded=question.degraded,
            took_ms=self._took_ms(started),
            below_threshold=ranking.below > 0 and not ranking.candidates,
            explain=_explained(ranking, reading, effort) if question.request.explain else None,
        )

    def _read(
        self, question: _Question, candidates: Sequence[Candidate], owners: Mapping[ChunkId, DocumentId], ranked_at: Position
    ) -> _Reading:
        """The last step: candidates as they are in one snapshot of now, k at most; what is gone or forbidden is left out."""
        matches, k = question.admission.predicate(), question.request.k
        hits: list[Hit] = []
        examined: set[DocumentId] = set()
        with self._catalog.snapshot() as snapshot:
            found = snapshot.chunks(question.home, [candidate.chunk_id for candidate in candidates])
            for candidate, chunk in zip(candidates, found, strict=True):
                if len(hits) == k:
                    break
                examined.add(owners[candidate.chunk_id])
                if chunk is not None and question.admission.permits(chunk.acl) and matches(chunk.metadata):
                    hits.append(Hit(chunk, candidate.score, candidate.dense, candidate.keyword))
            changed = not examined.isdisjoint(_changed_since(snapshot, ranked_at, question.home, examined))
        return _Reading(tuple(hits), len(examined) - len({hit.chunk.document for hit in hits}), changed)


def _checked_dimensions(vector: bytes, space: Space) -> bytes:
    dimensions = len(vector) // struct.calcsize("<f")
    if dimensions != space.dimensions:
        raise QueryRejected(place="vector", reason=f"has {dimensions} values; the collection's vectors have {space.dimensions}")
    return vector


def _changed_since(snapshot: Snapshot, position: Position, home: CollectionId, examined: set[DocumentId]) -> set[DocumentId]:
    """The documents that changed after they were ranked; all of `examined` when the log cannot tell."""
    if covers(position, snapshot.position):
        return set()
    try:
        changes = snapshot.changes(position, home)
    except CursorLapsed:
        return examined
    return examined if changes.rebuild else set(changes.documents)


def _explained(ranking: Ranking, reading: _Reading, effort: _Effort) -> Mapping[str, int]:
    return {**ranking.counts, "ranked": len(ranking.candidates), "dropped_documents": reading.dropped, "rounds": effort.rounds}


# --- as JSON -------------------------------------------------------------------------------------------------


def answer_json(answer: SearchAnswer) -> dict[str, Any]:
    """The answer as clients get it (HTTP, and `search --json`)."""
    body: dict[str, Any] = {
        "hits": [hit_json(hit) for hit in answer.hits],
        "snapshot": answer.snapshot,
        "complete": answer.complete,
        "degraded": list(answer.degraded),
        "cache": "miss",
        "took_ms": answer.took_ms,
    }
    return body if answer.explain is None else {**body, "explain": dict(answer.explain)}


def hit_json(hit: Hit) -> dict[str, Any]:
    return {"score": hit.score, "scores": {"dense": hit.dense, "keyword": hit.keyword}, **chunk_json(hit.chunk)}


def chunk_json(chunk: VisibleChunk) -> dict[str, Any]:
    return {
        "document": chunk.document.uri,
        "chunk_id": chunk.chunk_id.hex(),
        "text": chunk.text,
        "start": chunk.start,
        "end": chunk.end,
        "metadata": dict(chunk.metadata),
        "version": chunk.version,
        "indexed_at": chunk.metadata["indexed_at"],
        "stale": chunk.stale,
    }
