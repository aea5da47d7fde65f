"""What a search body becomes, and how a wrong one is refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from retriever.query import Mode, SearchRequest, parse_search
from store.errors import QueryRejected


def test_a_bare_query_has_the_defaults() -> None:
    assert parse_search({"query": "leave"}) == SearchRequest(query="leave", vector=None, k=10, mode=Mode.HYBRID, filter={}, min_score=None)


def test_the_contract_example_with_its_nulls_is_served() -> None:
    body = {"query": "q", "k": 3, "mode": "keyword", "filter": {}, "min_score": None, "mmr": None, "rerank": None, "parents": False}
    assert parse_search(body | {"as_of": None, "min_version": {"a.md": 7}, "explain": True}) == SearchRequest(
        query="q", k=3, mode=Mode.KEYWORD, min_version={"a.md": 7}, explain=True
    )


def test_a_vector_becomes_float32_and_alone_is_a_dense_search() -> None:
    request = parse_search({"vector": [1, 0.5, -2]})
    assert (request.vector, request.mode) == (struct.pack("<3f", 1, 0.5, -2), Mode.DENSE)


def test_a_hybrid_search_takes_a_query_and_a_vector() -> None:
    request = parse_search({"query": "q", "vector": [0.0]})
    assert (request.query, request.vector, request.mode) == ("q", bytes(4), Mode.HYBRID)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": " \n"}, "query"),
        ({"query": 7}, "query"),
        ({"query": "x" * 20_000}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"vector": []}, "vector"),
        ({"vector": "abc"}, "vector"),
        ({"vector": [1, float("nan")]}, "vector[1]"),
        ({"vector": [float("-inf")]}, "vector[0]"),
        ({"vector": [True]}, "vector[0]"),
        ({"vector": [1e300]}, "vector"),
        ({"vector": [10**400]}, "vector[0]"),
        ({"vector": [0.5] * 70_000}, "vector"),
        ({"vector": [1], "mode": "keyword"}, "vector"),
        ({"query": "q", "vector": [1], "mode": "keyword"}, "vector"),
        ({"query": "q", "vector": [1], "mode": "dense"}, "vector"),
        ({"query": "q", "k": 0}, "k"),
        ({"query": "q", "k": -1}, "k"),
        ({"query": "q", "k": 1001}, "k"),
        ({"query": "q", "k": 2.5}, "k"),
        ({"query": "q", "k": True}, "k"),
        ({"query": "q", "k": "3"}, "k"),
        ({"query": "q", "k": None}, "k"),
        ({"query": "q", "mode": "sparse"}, "mode"),
        ({"query": "q", "mode": None}, "mode"),
        ({"query": "q", "mode": ["hybrid"]}, "mode"),
        ({"query": "q", "filter": "a"}, "filter"),
        ({"query": "q", "filter": {"$and": [{}, {"price": {"$gt": []}}]}}, "filter.$and[1].price.$gt"),
        ({"query": "q", "min_score": float("nan")}, "min_score"),
        ({"query": "q", "min_score": True}, "min_score"),
        ({"query": "q", "mmr": True}, "mmr"),
        ({"query": "q", "mmr": {"fetch_k": 9}}, "mmr.fetch_k"),
        ({"query": "q", "mmr": {"fetch_k": None}}, "mmr.fetch_k"),
        ({"query": "q", "mmr": {"lambda": 1.1}}, "mmr.lambda"),
        ({"query": "q", "mmr": {"lambda": float("nan")}}, "mmr.lambda"),
        ({"query": "q", "mmr": {"lamda": 1}}, "mmr.lamda"),
        ({"query": "q", "parents": "yes"}, "parents"),
        ({"query": "q", "explain": 1}, "explain"),
        ({"query": "q", "as_of": -1}, "as_of"),
        ({"query": "q", "as_of": 1.5}, "as_of"),
        ({"query": "q", "min_version": []}, "min_version"),
        ({"query": "q", "min_version": {"a.md": "7"}}, "min_version.a.md"),
        ({"query": "q", "min_version": {str(at): 1 for at in range(1_001)}}, "min_version"),
        ({"query": "q", "top_k": 3}, "top_k"),
    ],
)
def test_a_wrong_part_is_refused_with_its_place(body: dict[str, Any], place: str) -> None:
    with pytest.raises(QueryRejected) as refused:
        parse_search(body)
    assert refused.value.context["place"] == place


@pytest.mark.parametrize(("key", "value"), [("mmr", {}), ("rerank", "local"), ("parents", True), ("as_of", 0), ("as_of", "2026-07")])
def test_what_is_not_served_yet_is_refused_and_never_ignored(key: str, value: Any) -> None:
    with pytest.raises(QueryRejected, match=f"^{key}: is not available yet"):
        parse_search({"query": "q", key: value})


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(QueryRejected, match="did you mean min_score"):
        parse_search({"query": "q", "minscore": 0.5})


def test_the_largest_k_is_the_configured_one() -> None:
    assert parse_search({"query": "q", "k": 50}, k_max=50).k == 50
    with pytest.raises(QueryRejected, match="from 1 to 50"):
        parse_search({"query": "q", "k": 51}, k_max=50)
