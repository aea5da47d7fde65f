"""Grapheme clusters, case by case, after UAX #29."""

from __future__ import annotations

import pytest

from indexer.split.clusters import cluster_starts


@pytest.mark.parametrize(
    ("text", "clusters"),
    [
        ("abc", ["a", "b", "c"]),
        ("e\u0301a", ["e\u0301", "a"]),
        ("\r\n\n", ["\r\n", "\n"]),
        ("👨‍👩‍👧‍👦x", ["👨‍👩‍👧‍👦", "x"]),
        ("👍🏽👍", ["👍🏽", "👍"]),
        ("❤️a", ["❤️", "a"]),
        ("🇩🇪🇫🇷🇯", ["🇩🇪", "🇫🇷", "🇯"]),
        ("\u1112\u1161\u11ab\u1100", ["\u1112\u1161\u11ab", "\u1100"]),
        ("한\u11a8글", ["한\u11a8", "글"]),
        ("한\u1161", ["한", "\u1161"]),
        ("가\u11a8", ["가\u11a8"]),
        ("नि", ["नि"]),
        ("a\u200db", ["a\u200d", "b"]),
        ("\u0301a", ["\u0301", "a"]),
        ("\u06001", ["\u06001"]),
        ("🏴\U000e0067\U000e0062\U000e007f!", ["🏴\U000e0067\U000e0062\U000e007f", "!"]),
        ("\n\u0301", ["\n", "\u0301"]),
    ],
)
def test_text_falls_into_its_clusters(text: str, clusters: list[str]) -> None:
    starts = list(cluster_starts(text, 0, len(text)))
    assert [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)] == clusters
