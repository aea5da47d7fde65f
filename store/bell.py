"""Bells wake other processes at once: pub/sub of the broker. A bell is a hint; whoever listens looks every so often anyway.

Ringing never fails the work that rings and a lost ring loses nothing: it is counted, logged by name, and the listener's patience runs out.
"""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import structlog

from store.clock import Clock
from store.errors import BrokerUnavailable

if TYPE_CHECKING:
    import redis
    from redis.client import PubSub

log = structlog.get_logger()

RING_SECONDS_MAX = 0.25
RETRY_SECONDS = 1.0
"""A broker that did not answer is left alone this long: rings in between are counted, not tried."""
MESSAGES_MAX = 1_000
"""Messages one `wait` hands over; what is behind them wakes the next one."""


class Topic(StrEnum):
    LEDGER = "ledger"
    """Something is pending, or a worker is free: the feeder looks."""
    COMMIT = "commit"
    """Something became visible or went: retrievers look."""

    @property
    def channel(self) -> str:
        return f"evercurrent:bell:{self.value}"


class Bell:
    """Rings. `url` None (no broker yet) counts every ring as lost. Thread-safe."""

    def __init__(self, url: str | None, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._client: redis.Redis | None = None
        self._silent_until = 0.0
        self._unrung = 0

    @property
    def unrung(self) -> int:
        """Rings that reached nobody since this bell was made."""
        return self._unrung

    def ring(self, topic: Topic, message: str = "") -> None:
        """Wakes the topic's listeners (about 0.1 ms). Never raises."""
        if self._url is None or self._clock.monotonic() < self._silent_until:
            self._unrung += 1
            return
        try:
            self._publish(self._url, topic, message)
        except BrokerUnavailable as error:
            self._unrung += 1
            self._silent_until = self._clock.monotonic() + RETRY_SECONDS
            log.warning("bell_unrung", topic=topic.value, unrung=self._unrung, reason=error.message)

    def listen(self, *topics: Topic) -> Listener:
        return Listener(self._url, topics, self._clock)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _publish(self, url: str, topic: Topic, message: str) -> None:
        from store.broker.client import broker_errors, connect

        with broker_errors(url):
            if self._client is None:
                self._client = connect(url, answer_seconds_max=RING_SECONDS_MAX, retries=1)
            self._client.publish(topic.channel, message)


class Listener:
    """Hears the rings of its topics, also those between two waits. For one thread; `close` may come from another.

    Subscribes by itself, and again when the broker comes back; then it wakes once, since rings may have been missed.
    """

    def __init__(self, url: str | None, topics: tuple[Topic, ...], clock: Clock) -> None:
        self._url = url
        self._topics = topics
        self._clock = clock
        self._subscription: PubSub | None = None
        self._retry_at = 0.0
        self._closed = threading.Event()

    def wait(self, seconds_max: float) -> tuple[str, ...]:
        """The messages of all rings since the last wait, in order, as soon as there is one; empty when time is out,
        when rings may have been missed, and when the listener was closed."""
        give_up_at = self._clock.monotonic() + seconds_max
        if self._subscription is None:
            if self._subscribe():
                return ()
            if self._closed.wait(max(0.0, min(give_up_at, self._retry_at) - self._clock.monotonic())):
                return ()
            return () if self._subscribe() else self._rest(give_up_at)
        from store.broker.client import broker_errors

        try:
            with broker_errors(self._url or ""):
                return self._hear(self._subscription, give_up_at)
        except BrokerUnavailable as error:
            log.warning("bell_unheard", topics=[topic.value for topic in self._topics], reason=error.message)
            self._unsubscribe()
            return self._rest(give_up_at)

    def close(self) -> None:
        """Ends a wait in progress within its patience."""
        self._closed.set()

    def _subscribe(self) -> bool:
        """Whether it is subscribed now; tries at most once a second."""
        if self._url is None or self._closed.is_set() or self._clock.monotonic() < self._retry_at:
            return False
        from store.broker.client import broker_errors, connect

        self._retry_at = self._clock.monotonic() + RETRY_SECONDS
        try:
            with broker_errors(self._url):
                subscription = connect(self._url, retries=0).pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
                subscription.subscribe(*[topic.channel for topic in self._topics])
        except BrokerUnavailable:
            return False
        self._subscription = subscription
        return True

    def _hear(self, subscription: PubSub, give_up_at: float) -> tuple[str, ...]:
        while not self._closed.is_set():
            seconds_left = give_up_at - self._clock.monotonic()
            if seconds_left <= 0:
                return ()
            first = text_of(subscription.get_message(timeout=min(seconds_left, RETRY_SECONDS)))
            if first is not None:
                return first, *self._hear_the_rest(subscription)
        return ()

    def _hear_the_rest(self, subscription: PubSub) -> list[str]:
        heard: list[str] = []
        while len(heard) < MESSAGES_MAX - 1 and (message := subscription.get_message(timeout=0.0)) is not None:
            text = text_of(message)
            if text is not None:
                heard.append(text)
        return heard

    def _rest(self, give_up_at: float) -> tuple[str, ...]:
        """Without a broker a wait lasts as long as it may: nobody spins."""
        self._closed.wait(max(0.0, give_up_at - self._clock.monotonic()))
        return ()

    def _unsubscribe(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None


def text_of(message: dict[str, Any] | None) -> str | None:
    if message is None or message["type"] != "message":
        return None
    payload = message["data"]
    return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else str(payload)
