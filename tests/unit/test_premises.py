"""A retriever's own folder: claimed by lock, and a beat that others can always make something of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever.premises import Premises, claim_premises
from store.beats import RetrieverBeat, beats

BEAT = RetrieverBeat("retriever", 1, 8200, "incarnation", 7)


@pytest.fixture
def premises(tmp_path: Path) -> Iterator[Premises]:
    claimed = claim_premises(tmp_path)
    yield claimed
    claimed.leave()


def test_the_beat_of_a_living_retriever_is_read_back(premises: Premises, tmp_path: Path) -> None:
    assert (premises.beat(BEAT), premises.beat(BEAT), beats(tmp_path)) == (True, False, [BEAT])
    premises.leave()
    assert beats(tmp_path) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"role": "retriever"}', '{"role": "retriever", "mood": "good"}'])
def test_a_beat_that_a_power_cut_or_another_version_left_is_nobodys(premises: Premises, tmp_path: Path, content: str) -> None:
    premises.beat(BEAT)
    (tmp_path / "beat.json").write_text(content, "utf-8")
    assert beats(tmp_path) == []
