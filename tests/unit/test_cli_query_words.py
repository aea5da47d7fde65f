from __future__ import annotations

import pytest

from retriever.query import parse_search
from store.errors import QueryRejected


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("top_k", "k"),
        ("topk", "k"),
        ("limit", "k"),
        ("n", "k"),
        ("text", "query"),
        ("q", "query"),
        ("filters", "filter"),
        ("where", "filter"),
    ],
)
def test_the_words_of_other_searches_name_ours(key: str, meant: str) -> None:
    with pytest.raises(QueryRejected, match=rf"{key}.*did you mean {meant}\?"):
        parse_search({"query": "x", key: 3})


def test_a_word_of_another_search_never_names_a_key_that_the_place_has_not() -> None:
    with pytest.raises(QueryRejected, match=r"did you mean mmr\.(fetch_k|lambda)\?"):
        parse_search({"query": "x", "mmr": {"top_k": 3}})
