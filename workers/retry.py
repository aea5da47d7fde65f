"""What becomes of a document whose attempt failed: a later try, or quarantine with the reason. Pure: the draw is handed in."""

from __future__ import annotations

from dataclasses import dataclass

from store.errors import (
    AttemptsExhausted,
    BucketDriverMissing,
    BucketUnreachable,
    CatalogBusy,
    CatalogFull,
    CatalogUnwritable,
    Corrupt,
    EmbedderRefused,
    EvercurrentError,
    Superseded,
    Transient,
)
from store.model import Instant

FIRST_SECONDS_MAX = 1.0
DELAY_SECONDS_MAX = 60.0
RETRY_AFTER_SECONDS_MAX = 600.0
"""A service that asks for more is asked again after this long all the same."""

NOT_THE_DOCUMENTS = (CatalogFull, CatalogUnwritable, CatalogBusy, BucketUnreachable)
"""Failures that say nothing of the document: a disk that was full must not leave thousands set aside once there is room."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    instant: Instant


@dataclass(frozen=True, slots=True)
class Quarantine:
    code: str
    message: str


def decide(attempts: int, error: EvercurrentError, attempts_max: int, now: Instant, draw: float) -> RetryAt | Quarantine:
    """What follows a failed attempt; `attempts` counts it (1 is the first), `draw` is uniform in [0, 1).

    Transient: again within 1 s, then doubling up to 60 s, each delay drawn from its upper half; a service's Retry-After is the least
    it waits. What the catalog's disk or lock did, a wrong key or model, a bucket that does not answer: no failure of the document, which
    is never set aside for it.
    Anything else that is the document's: quarantine at once. Superseded and Corrupt are not about the document: raised.
    """
    if isinstance(error, Superseded | Corrupt):
        raise error
    if isinstance(error, EmbedderRefused | BucketDriverMissing):
        return RetryAt(Instant(now + delay_seconds(attempts, None, draw)))
    if not isinstance(error, Transient):
        return Quarantine(error.code, error.message)
    if attempts >= attempts_max and not isinstance(error, NOT_THE_DOCUMENTS):
        exhausted = AttemptsExhausted(attempts=attempts, last=error.message.rstrip("."))
        return Quarantine(exhausted.code, exhausted.message)
    return RetryAt(Instant(now + delay_seconds(attempts, error.retry_after_seconds, draw)))


def delay_seconds(attempts: int, retry_after_seconds: float | None, draw: float) -> float:
    ceiling = min(DELAY_SECONDS_MAX, FIRST_SECONDS_MAX * 2.0 ** min(attempts - 1, 16))
    delay = ceiling * (1 + draw) / 2
    if retry_after_seconds is None:
        return delay
    asked = min(max(retry_after_seconds, 0.0), RETRY_AFTER_SECONDS_MAX)
    return max(delay, asked * (1 + draw / 10))  # spread, so that not all come back in the same instant
