"""Batches: every text once, within both limits, in an order that depends on nothing but the texts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.embedding.batching import batches
from store.model import InputHash

inputs = st.dictionaries(st.binary(min_size=4, max_size=4).map(InputHash), st.text(min_size=1, max_size=40), max_size=30)


@given(inputs, st.integers(1, 7), st.integers(1, 60))
def test_batches_partition_the_texts_within_the_limits(texts: dict[InputHash, str], texts_max: int, chars_max: int) -> None:
    cut = list(batches(texts, texts_max, chars_max))
    assert sorted(texts.items()) == sorted(item for batch in cut for item in batch)
    for batch in cut:
        assert 1 <= len(batch) <= texts_max
        assert len(batch) == 1 or sum(len(text) for _, text in batch) <= chars_max


@given(inputs, st.integers(1, 7), st.integers(1, 60))
def test_batches_do_not_depend_on_the_order_of_arrival(texts: dict[InputHash, str], texts_max: int, chars_max: int) -> None:
    backwards = dict(reversed(texts.items()))
    assert list(batches(texts, texts_max, chars_max)) == list(batches(backwards, texts_max, chars_max))


@given(inputs, st.integers(1, 7), st.integers(1, 60))
def test_no_two_neighbouring_batches_would_fit_into_one(texts: dict[InputHash, str], texts_max: int, chars_max: int) -> None:
    cut = list(batches(texts, texts_max, chars_max))
    for batch, following in itertools.pairwise(cut):
        chars = sum(len(text) for _, text in batch) + len(following[0][1])
        assert len(batch) == texts_max or chars > chars_max


def test_a_limit_of_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one"):
        list(batches({}, 0, 10))
