"""A search request as a frozen value, and its parser: what a body asks for is either served as asked or refused with the place.

Nothing is searched here, and nothing is silently ignored: an unknown key names its nearest neighbour.
"""

from __future__ import annotations

import difflib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeGuard

from retriever.filters import compile_filter
from store.errors import QueryRejected, UriRejected
from store.model import check_uri

K_DEFAULT = 10
K_MAX = 1_000
QUERY_CHARS_MAX = 16_384
MMR_FETCH_K = 20
MMR_LAMBDA = 0.5
VECTOR_VALUES_MAX = 65_536
MIN_VERSION_MAX = 1_000
"""Documents that one query may wait for."""
NOT_YET = ("mmr", "rerank", "parents", "as_of")
"""Keys whose place in the request is known and which no search serves so far."""


class Mode(StrEnum):
    HYBRID = "hybrid"
    DENSE = "dense"
    KEYWORD = "keyword"


@dataclass(frozen=True, slots=True)
class Mmr:
    fetch_k: int
    lambda_: float
    """1: relevance alone, 0: diversity alone."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    query: str | None
    vector: bytes | None = None
    """float32, little endian; finite, of any dimension."""
    k: int = K_DEFAULT
    mode: Mode = Mode.HYBRID
    filter: Mapping[str, Any] = field(default_factory=dict)
    """Known to compile."""
    min_score: float | None = None
    mmr: Mmr | None = None
    parents: bool = False
    as_of: int | str | None = None
    min_version: Mapping[str, int] = field(default_factory=dict)
    explain: bool = False


KEYS = ("query", "vector", "k", "mode", "filter", "min_score", "mmr", "rerank", "parents", "as_of", "min_version", "explain")
OTHER_WORDS = {
    **dict.fromkeys(("top_k", "topk", "top-k", "limit", "n", "size"), "k"),
    **dict.fromkeys(("text", "q"), "query"),
    **dict.fromkeys(("filters", "where"), "filter"),
}
"""What other searches call a key of ours."""


def parse_search(body: Mapping[str, Any], *, k_max: int = K_MAX) -> SearchRequest:
    """The request that a JSON body asks for. Raises QueryRejected, naming the place.

    A vector without a query is a dense search whatever the mode says but `keyword`, as there is no text for the other half.
    """
    _refuse_unknown_keys(body, KEYS, "")
    query = _query(body.get("query"))
    vector = _vector(body.get("vector"))
    k = _k(body.get("k", K_DEFAULT), k_max)
    request = SearchRequest(
        query=query,
        vector=vector,
        k=k,
        mode=_mode(body.get("mode", Mode.HYBRID), query, vector),
        filter=_filter(body.get("filter")),
        min_score=_min_score(body.get("min_score")),
        mmr=_mmr(body.get("mmr"), k),
        parents=_truth(body.get("parents", False), "parents"),
        as_of=_as_of(body.get("as_of")),
        min_version=_min_version(body.get("min_version")),
        explain=_truth(body.get("explain", False), "explain"),
    )
    _refuse_not_yet(body)
    return request


def _query(query: object) -> str | None:
    if query is None:
        return None
    if not isinstance(query, str):
        raise QueryRejected(place="query", reason="needs a text")
    if not query.strip():
        raise QueryRejected(place="query", reason="is empty")
    if len(query) > QUERY_CHARS_MAX:
        raise QueryRejected(place="query", reason=f"is longer than {QUERY_CHARS_MAX} characters")
    if any("\ud800" <= character <= "\udfff" for character in query):
        raise QueryRejected(place="query", reason="is not valid Unicode")
    return query


def _vector(vector: object) -> bytes | None:
    if vector is None:
        return None
    if not isinstance(vector, list | tuple) or not vector:
        raise QueryRejected(place="vector", reason="needs a list of numbers")
    if len(vector) > VECTOR_VALUES_MAX:
        raise QueryRejected(place="vector", reason=f"has more than {VECTOR_VALUES_MAX} values")
    for at, value in enumerate(vector):
        if not _is_number(value):
            raise QueryRejected(place=f"vector[{at}]", reason="needs a finite number")
    try:
        return struct.pack(f"<{len(vector)}f", *vector)
    except OverflowError as error:
        raise QueryRejected(place="vector", reason="has a value that is too large for 32 bits") from error


def _k(k: object, k_max: int) -> int:
    k = _whole(k)
    if not _is_whole(k) or not 1 <= k <= k_max:
        raise QueryRejected(place="k", reason=f"needs a whole number from 1 to {k_max}")
    return k


def _mode(mode: object, query: str | None, vector: bytes | None) -> Mode:
    if mode not in list(Mode):
        raise QueryRejected(place="mode", reason="is one of hybrid, dense, keyword")
    if query is None and vector is None:
        raise QueryRejected(place="query", reason="give a query or a vector")
    if mode == Mode.KEYWORD and (query is None or vector is not None):
        raise QueryRejected(place="vector", reason="keyword search takes a query and no vector")
    if mode == Mode.DENSE and query is not None and vector is not None:
        raise QueryRejected(place="vector", reason="dense search takes a query or a vector, not both")
    return Mode.DENSE if query is None else Mode(str(mode))


def _filter(filter: object) -> Mapping[str, Any]:
    if filter is None:
        return {}
    if not isinstance(filter, Mapping):
        raise QueryRejected(place="filter", reason='needs an object such as {"field": value}')
    compile_filter(filter)
    return filter


def _min_score(min_score: object) -> float | None:
    if min_score is None:
        return None
    if not _is_number(min_score):
        raise QueryRejected(place="min_score", reason="needs a finite number")
    return float(min_score)


def _mmr(mmr: object, k: int) -> Mmr | None:
    if mmr is None:
        return None
    if not isinstance(mmr, Mapping):
        raise QueryRejected(place="mmr", reason='needs an object such as {"fetch_k": 20, "lambda": 0.5}')
    _refuse_unknown_keys(mmr, ("fetch_k", "lambda"), "mmr.")
    fetch_k, lambda_ = _whole(mmr.get("fetch_k", max(k, MMR_FETCH_K))), mmr.get("lambda", MMR_LAMBDA)
    if not _is_whole(fetch_k) or fetch_k < k:
        raise QueryRejected(place="mmr.fetch_k", reason=f"needs a whole number of at least k ({k})")
    if not _is_number(lambda_) or not 0 <= lambda_ <= 1:
        raise QueryRejected(place="mmr.lambda", reason="needs a number from 0 to 1")
    return Mmr(fetch_k, float(lambda_))


def _truth(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise QueryRejected(place=place, reason="needs true or false")
    return value


def _as_of(as_of: object) -> int | str | None:
    if as_of is None:
        return None
    if isinstance(as_of, str) and as_of:
        return as_of
    as_of = _whole(as_of)
    if _is_whole(as_of) and as_of >= 0:
        return as_of
    raise QueryRejected(place="as_of", reason="needs a sequence number, an RFC 3339 time or a tag")


def _min_version(versions: object) -> Mapping[str, int]:
    if versions is None:
        return {}
    if not isinstance(versions, Mapping):
        raise QueryRejected(place="min_version", reason='needs an object such as {"guide.md": 7}')
    if len(versions) > MIN_VERSION_MAX:
        raise QueryRejected(place="min_version", reason=f"names more than {MIN_VERSION_MAX} documents")
    wanted: dict[str, int] = {}
    for uri, given in versions.items():
        version = _whole(given)
        try:
            check_uri(uri)
        except UriRejected as error:
            raise QueryRejected(place="min_version", reason=error.message) from error
        if not _is_whole(version) or version < 0:
            raise QueryRejected(place=f"min_version.{uri}", reason="needs a whole number of at least 0")
        wanted[uri] = version
    return wanted


def _nearest(key: str, known: tuple[str, ...]) -> str:
    """The key that was probably meant: by what other searches call it, else by its letters."""
    meant = OTHER_WORDS.get(key.lower())
    return meant if meant in known else difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]


def _refuse_unknown_keys(body: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in body:
        if key not in known:
            raise QueryRejected(place=f"{place}{key}", reason=f"is no part of a search; did you mean {place}{_nearest(str(key), known)}?")


def _refuse_not_yet(body: Mapping[str, Any]) -> None:
    for key in NOT_YET:
        value = body.get(key)
        if value is not None and value is not False:
            raise QueryRejected(place=key, reason="is not available yet; leave it out")


def _whole(value: object) -> object:
    """JSON has one kind of number: 10.0 is 10."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[int | float]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
