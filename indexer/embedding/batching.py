"""Which texts go into one call: bounded, in an order that depends on nothing but the texts. Pure; sends nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from store.model import InputHash

Batch = tuple[tuple[InputHash, str], ...]


def batches(texts_by_hash: Mapping[InputHash, str], texts_max: int, chars_max: int) -> Iterator[Batch]:
    """Every text once, in batches of at most `texts_max` texts and `chars_max` characters; a longer text is a batch of its own.

    Ordered by length, then by hash: texts of like length share a batch, whatever order the documents came in.
    """
    if texts_max < 1 or chars_max < 1:
        raise ValueError("a batch holds at least one text of at least one character")
    batch: list[tuple[InputHash, str]] = []
    chars = 0
    for input_hash, text in sorted(texts_by_hash.items(), key=lambda item: (len(item[1]), item[0])):
        if batch and (len(batch) == texts_max or chars + len(text) > chars_max):
            yield tuple(batch)
            batch, chars = [], 0
        batch.append((input_hash, text))
        chars += len(text)
    if batch:
        yield tuple(batch)
