"""The filter language: what matches, what does not, and where a mistake is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.filters import FILTER_DEPTH_MAX, FILTER_PARTS_MAX, compile_filter
from store.errors import QueryRejected

HANDBOOK = {
    "source": "guide/install.md",
    "page": 3,
    "price": 2.5,
    "draft": True,
    "reviewer": None,
    "tags": ["red", "green", 7],
    "none_yet": [],
    "author": {"name": "Ada", "teams": ["core", "docs"]},
    "parts": [{"kind": "a", "n": 1}, {"kind": "b", "n": 9}],
    "dotted.key": "literal",
}


@pytest.mark.parametrize(
    "filter",
    [
        {},
        {"source": "guide/install.md"},
        {"source": "guide/install.md", "page": 3},
        {"page": 3.0},
        {"page": {"$eq": 3}},
        {"page": {"$ne": 4}},
        {"page": {"$gt": 2, "$lt": 4}},
        {"page": {"$gte": 3, "$lte": 3}},
        {"price": {"$gt": 2}},
        {"source": {"$gt": "guide", "$lt": "guidf"}},
        {"page": {"$in": [1, 3]}},
        {"page": {"$nin": [1, 2]}},
        {"page": {"$nin": []}},
        {"draft": True},
        {"reviewer": None},
        {"reviewer": {"$in": [None]}},
        {"tags": "red"},
        {"tags": 7},
        {"tags": {"$in": ["blue", "green"]}},
        {"tags": {"$gt": 6}},
        {"tags": {"$contains": "red"}},
        {"tags": {"$ne": "blue"}},
        {"none_yet": {"$exists": True}},
        {"none_yet": {"$ne": 1}},
        {"reviewer": {"$exists": True}},
        {"source": {"$contains": "install"}},
        {"author.name": "Ada"},
        {"author.teams": "docs"},
        {"author": {"$exists": True}},
        {"parts.kind": "b"},
        {"parts.n": {"$gt": 8}},
        {"dotted.key": "literal"},
        {"missing": {"$exists": False}},
        {"missing": {"$ne": 1}},
        {"missing": {"$nin": [1]}},
        {"author.missing": {"$exists": False}},
        {"$and": [{"page": 3}, {"draft": True}]},
        {"$or": [{"page": 4}, {"draft": True}]},
        {"$not": {"page": 4}},
        {"$not": {"$or": [{"page": 4}, {"draft": False}]}},
        {"page": 3, "$or": [{"tags": "red"}]},
    ],
)
def test_it_matches(filter: dict[str, Any]) -> None:
    assert compile_filter(filter)(HANDBOOK)


@pytest.mark.parametrize(
    "filter",
    [
        {"page": "3"},
        {"page": True},
        {"draft": 1},
        {"draft": {"$in": [1, "true"]}},
        {"source": "guide/install.MD"},
        {"source": "guide/install.md", "page": 4},
        {"page": {"$gt": 3}},
        {"page": {"$lt": 3}},
        {"page": {"$gt": "2"}},
        {"source": {"$gt": 0}},
        {"draft": {"$gte": 0}},
        {"reviewer": {"$lt": 1}},
        {"page": {"$in": []}},
        {"page": {"$in": ["3", True]}},
        {"page": {"$ne": 3}},
        {"page": {"$nin": [3]}},
        {"tags": "re"},
        {"tags": {"$contains": "re"}},
        {"tags": {"$ne": "red"}},
        {"tags": {"$nin": ["red", "blue"]}},
        {"page": {"$contains": "3"}},
        {"reviewer": False},
        {"missing": None},
        {"missing": {"$eq": None}},
        {"missing": {"$in": [None]}},
        {"missing": {"$gt": 0}},
        {"missing": {"$lt": 0}},
        {"missing": {"$contains": ""}},
        {"missing": {"$exists": True}},
        {"source": {"$exists": False}},
        {"none_yet": 1},
        {"none_yet": {"$exists": False}},
        {"author": "Ada"},
        {"author.name.first": "Ada"},
        {"source.name": "x"},
        {"page": {"$gt": 2, "$lt": 3}},
        {"$and": [{"page": 3}, {"draft": False}]},
        {"$or": [{"page": 4}, {"draft": False}]},
        {"$not": {"page": 3}},
    ],
)
def test_it_does_not_match(filter: dict[str, Any]) -> None:
    assert not compile_filter(filter)(HANDBOOK)


@pytest.mark.parametrize(
    ("filter", "place"),
    [
        ([], "filter"),
        ("page", "filter"),
        ({"": 1}, "filter."),
        ({"$nor": [{"a": 1}]}, "filter.$nor"),
        ({"$eq": 1}, "filter.$eq"),
        ({"page": {}}, "filter.page"),
        ({"page": {"$gtt": 1}}, "filter.page.$gtt"),
        ({"page": {"name": 1}}, "filter.page.name"),
        ({"page": [1, 2]}, "filter.page"),
        ({"page": {"$eq": [1]}}, "filter.page.$eq"),
        ({"page": {"$in": 1}}, "filter.page.$in"),
        ({"page": {"$in": [1, [2]]}}, "filter.page.$in[1]"),
        ({"page": {"$in": "abc"}}, "filter.page.$in"),
        ({"page": {"$nin": {}}}, "filter.page.$nin"),
        ({"page": {"$exists": 1}}, "filter.page.$exists"),
        ({"page": {"$gt": True}}, "filter.page.$gt"),
        ({"page": {"$gt": None}}, "filter.page.$gt"),
        ({"page": {"$gt": float("nan")}}, "filter.page.$gt"),
        ({"page": float("inf")}, "filter.page"),
        ({"$and": []}, "filter.$and"),
        ({"$or": {"a": 1}}, "filter.$or"),
        ({"$not": [{"a": 1}]}, "filter.$not"),
        ({"$and": [{"a": 1}, {"price": {"$gt": []}}]}, "filter.$and[1].price.$gt"),
        ({"$not": {"$or": [{"price": {"$lt": {}}}]}}, "filter.$not.$or[0].price.$lt"),
    ],
)
def test_a_malformed_filter_is_refused_with_its_place(filter: Any, place: str) -> None:
    with pytest.raises(QueryRejected) as refused:
        compile_filter(filter)
    assert refused.value.context["place"] == place


def test_an_unknown_operator_names_the_nearest() -> None:
    with pytest.raises(QueryRejected, match=r"did you mean \$contains"):
        compile_filter({"tags": {"$contain": "a"}})


def test_depth_and_size_are_bounded() -> None:
    deep: dict[str, Any] = {"a": 1}
    for _ in range(100_000):
        deep = {"$not": deep}
    with pytest.raises(QueryRejected, match=f"nested deeper than {FILTER_DEPTH_MAX}"):
        compile_filter(deep)
    with pytest.raises(QueryRejected, match=f"more than {FILTER_PARTS_MAX} parts"):
        compile_filter({"a": {"$in": list(range(FILTER_PARTS_MAX + 1))}})
    while "$not" in deep:
        deep = deep.pop("$not")


VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b", "1"])
METADATA = st.dictionaries(st.sampled_from("xyz"), VALUES | st.lists(VALUES, max_size=3), max_size=3)


@given(METADATA, st.sampled_from("xyz"), VALUES, st.lists(VALUES, max_size=3))
def test_opposites_are_opposite_and_in_is_the_or_of_equals(metadata: dict[str, Any], field: str, value: Any, several: list[Any]) -> None:
    def holds(filter: dict[str, Any]) -> bool:
        return compile_filter(filter)(metadata)

    assert holds({field: {"$ne": value}}) is not holds({field: value})
    assert holds({field: {"$nin": several}}) is not holds({field: {"$in": several}})
    assert holds({field: {"$in": several}}) is any(holds({field: each}) for each in several)
    assert holds({field: {"$exists": True}}) is (field in metadata)
    assert holds({"$not": {field: value}}) is not holds({field: value})


@given(METADATA, st.sampled_from("xyz"), st.integers(-3, 3))
def test_orders_of_single_numbers_agree_with_the_numbers(metadata: dict[str, Any], field: str, wanted: int) -> None:
    value = metadata.get(field)
    number = isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(value, list):
        assert compile_filter({field: {"$gt": wanted}})(metadata) is (number and value > wanted)
        assert compile_filter({field: {"$lte": wanted}})(metadata) is (number and value <= wanted)
