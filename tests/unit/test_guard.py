"""Claims about which disappearances are believed."""

from __future__ import annotations

import pytest

from indexer.guard import RootState, guard


@pytest.mark.parametrize("state", [RootState.ABSENT, RootState.EMPTY, RootState.OTHER_DEVICE])
def test_nothing_leaves_while_the_root_itself_is_in_doubt(state: RootState) -> None:
    assert guard(1, 3, state) is not None


@pytest.mark.parametrize("state", list(RootState))
def test_nothing_missing_is_nothing_held(state: RootState) -> None:
    assert guard(0, 50, state) is None


def test_more_than_half_and_at_least_ten_are_held() -> None:
    verdicts = {
        (missing, known): guard(missing, known, RootState.ALIVE) is not None for missing in range(25) for known in range(missing, 50)
    }
    assert verdicts == {(missing, known): missing >= 10 and missing > known / 2 for missing, known in verdicts}
