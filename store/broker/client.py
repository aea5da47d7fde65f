"""The door to redis-py: a client with patience and a health check, and its errors in our words. Nothing else in store imports it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

from store.errors import BrokerUnavailable, ConfigWrong
from store.telemetry import without_password

ANSWER_SECONDS_MAX = 5.0
CONNECT_SECONDS_MAX = 2.0
HEALTH_CHECK_SECONDS = 30
RETRIES = 3
RETRY_SECONDS = (0.02, 0.2)
"""First and longest pause between tries: a server that restarts is back in about 0.1 s."""


def connect(url: str, *, answer_seconds_max: float | None = ANSWER_SECONDS_MAX, retries: int = RETRIES) -> redis.Redis:
    """A client of the broker at `url`; connects at the first command. Thread-safe. Wrap its commands in `broker_errors`.

    Raises ConfigWrong when the url is none.
    """
    first, longest = RETRY_SECONDS
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=answer_seconds_max,
            socket_connect_timeout=CONNECT_SECONDS_MAX,
            health_check_interval=HEALTH_CHECK_SECONDS,
            retry=Retry(ExponentialBackoff(cap=longest, base=first) if retries > 1 else NoBackoff(), retries),
        )
    except ValueError as error:
        raise ConfigWrong(reason=f"store.redis_url (or REDIS_URL) is not a Redis url: {error}", key="store.redis_url") from error


@contextmanager
def broker_errors(url: str) -> Iterator[None]:
    """Turns redis-py's errors into BrokerUnavailable. The message never holds the url's password."""
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise BrokerUnavailable(url=without_password(url), reason=str(error).rstrip(".") or type(error).__name__) from error


def check(url: str) -> None:
    """Raises BrokerUnavailable unless the broker answers."""
    with broker_errors(url):
        client = connect(url, retries=1)
        client.ping()
        client.close()
