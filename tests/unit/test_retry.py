"""Laws of the retry decision."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import (
    CatalogBusy,
    CatalogCorrupt,
    CatalogFull,
    CatalogUnwritable,
    DocumentTooLarge,
    EmbedderRateLimited,
    EmbedderRefused,
    EvercurrentError,
    SourceVanished,
    Superseded,
    Transient,
)
from store.model import Instant
from workers.retry import DELAY_SECONDS_MAX, RETRY_AFTER_SECONDS_MAX, Quarantine, RetryAt, decide

NOW = Instant(1_000.0)
draws = st.floats(0, 1, exclude_max=True)


def delay(attempts: int, error: Transient, draw: float) -> float:
    decision = decide(attempts, error, 1_000, NOW, draw)
    assert isinstance(decision, RetryAt)
    return decision.instant - NOW


@given(draws)
def test_the_first_retry_comes_within_a_second(draw: float) -> None:
    assert 0.5 <= delay(1, SourceVanished(), draw) <= 1.0


@given(st.integers(1, 900), draws, draws)
def test_no_retry_comes_later_than_the_cap_and_none_before_half_of_its_ceiling(attempts: int, draw: float, other: float) -> None:
    assert 0.5 <= delay(attempts, SourceVanished(), draw) <= DELAY_SECONDS_MAX
    assert delay(attempts, SourceVanished(), draw) <= 2 * delay(attempts, SourceVanished(), other)


@given(st.integers(1, 6), draws)
def test_each_delay_doubles_the_one_before(attempts: int, draw: float) -> None:
    assert delay(attempts + 1, SourceVanished(), draw) == pytest.approx(
        min(60 * (1 + draw) / 2, 2 * delay(attempts, SourceVanished(), draw))
    )


@given(st.floats(0, 1e9), st.integers(1, 20), draws)
def test_retry_after_is_the_least_it_waits_up_to_a_cap(asked: float, attempts: int, draw: float) -> None:
    waited = delay(attempts, EmbedderRateLimited(provider="p", retry_after_seconds=asked), draw)
    assert min(asked, RETRY_AFTER_SECONDS_MAX) <= waited + 1e-6
    assert waited <= max(DELAY_SECONDS_MAX, RETRY_AFTER_SECONDS_MAX * 1.1)


@given(st.integers(1, 50), st.integers(1, 50), draws)
def test_attempts_run_out_exactly_at_their_maximum(attempts: int, attempts_max: int, draw: float) -> None:
    decision = decide(attempts, SourceVanished(), attempts_max, NOW, draw)
    assert isinstance(decision, Quarantine) == (attempts >= attempts_max)


def test_the_reason_of_an_exhausted_document_names_the_last_error() -> None:
    decision = decide(6, SourceVanished(), 6, NOW, 0.0)
    message = "Gave up after 6 attempts; the last error was: The file disappeared while it was being read."
    assert decision == Quarantine("attempts_exhausted", message)


@pytest.mark.parametrize("error", [DocumentTooLarge(bytes=2, bytes_max=1), EvercurrentError()])
def test_what_will_not_get_better_is_quarantined_at_once_in_its_own_words(error: EvercurrentError) -> None:
    assert decide(1, error, 6, NOW, 0.0) == Quarantine(error.code, error.message)


@pytest.mark.parametrize("error", [Superseded(), CatalogCorrupt(path="p", reason="r")])
def test_what_is_not_about_the_document_is_raised(error: EvercurrentError) -> None:
    with pytest.raises(type(error)):
        decide(1, error, 6, NOW, 0.0)


@pytest.mark.parametrize("error", [CatalogFull(path="x"), CatalogUnwritable(path="x", reason="y"), CatalogBusy(seconds=1)])
def test_what_the_catalogs_disk_or_lock_did_sets_no_document_aside(error: Transient) -> None:
    assert isinstance(decide(50, error, 6, NOW, 0.5), RetryAt)


@given(st.integers(1, 900), draws)
def test_a_wrong_key_is_never_a_documents_fault(attempts: int, draw: float) -> None:
    assert isinstance(decide(attempts, EmbedderRefused(provider="p", reason="no key"), 6, NOW, draw), RetryAt)
