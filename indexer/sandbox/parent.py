"""Reads documents: plain formats here, risky ones in a warm child process with limits, without secrets and without our descriptors.

A document that crashes the child is tried once more in a fresh one, then rejected by name; one that takes too long or grows too large is
rejected at once. The process that asks lives on. Not safe among threads: a worker has one of its own.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from types import TracebackType

import structlog

from indexer.load.formats import BY_TYPE
from indexer.load.registry import loader_of, media_type_to_load
from indexer.sandbox.frames import FRAME_BYTES_MAX, LENGTH, ChildBroke, decoded, framed
from store.clock import Clock
from store.config import LoadTable
from store.errors import LoaderCrashed, LoaderLimitReached, LoaderUnavailable
from store.model import LoadedText

DOCUMENTS_A_CHILD = 500
"""Then a fresh one starts: what a parser leaks does not add up."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH")
"""Of the environment: nothing that could be a secret."""
START_SECONDS_MAX = 60.0
READ_BYTES = 1 << 20

log = structlog.get_logger()


class _Gone(Exception):
    """The child ended before it had answered."""


class Sandbox:
    """Enter it, or `close` it; the child starts with the first risky document."""

    def __init__(self, table: LoadTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None
        self._left = 0

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the child. Idempotent."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()

    def load(self, uri: str, content: bytes, media_type: str | None = None) -> LoadedText:
        """As `registry.load`. Raises kinds of Rejected, LoaderUnavailable, and ChildBroke for a fault of ours inside of a loader."""
        found = media_type_to_load(uri, content, media_type)
        if not BY_TYPE[found].is_risky:
            return loader_of(found)(content, found)
        try:
            return self._ask(found, content)
        except _Gone:
            log.warning("loader_crashed", document=uri, media_type=found)
        try:
            return self._ask(found, content)
        except _Gone as error:
            raise LoaderCrashed(media_type=found) from error

    def _ask(self, media_type: str, content: bytes) -> LoadedText:
        child = self._warm()
        give_up_at = self._clock.monotonic() + self._table.seconds_max
        try:
            payload = self._exchange(child, framed(json.dumps({"media_type": media_type}).encode()) + framed(content), give_up_at)
        except _Gone:
            self.close()
            raise
        except TimeoutError as error:
            self.close()
            reason = f"it took longer than {self._table.seconds_max:g} seconds"
            raise LoaderLimitReached(media_type=media_type, reason=reason, way="raise indexer.load.seconds_max") from error
        self._left -= 1
        try:
            return decoded(payload)
        except ChildBroke as error:
            log.error("loader_broke", media_type=media_type, error=error.kind, trace=error.trace)
            raise

    def _warm(self) -> subprocess.Popen[bytes]:
        if self._child is not None and (self._left <= 0 or self._child.poll() is not None):
            self.close()
        if self._child is None:
            self._child, self._left = self._start(), DOCUMENTS_A_CHILD
        return self._child

    def _start(self) -> subprocess.Popen[bytes]:
        table = self._table
        limits = (table.memory_bytes_max, table.text_chars_max, table.unpacked_bytes_max)
        try:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "indexer.sandbox.child", *map(str, limits)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:
            raise LoaderUnavailable(reason=error.strerror or str(error)) from error
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        self._child = child
        try:
            self._exchange(child, b"", self._clock.monotonic() + START_SECONDS_MAX)
        except _Gone as error:
            self._child = None
            raise LoaderUnavailable(reason=f"it ended at once, with code {_ended(child)}") from error
        except TimeoutError as error:
            self.close()
            raise LoaderUnavailable(reason=f"it did not begin within {START_SECONDS_MAX:g} seconds") from error
        return child

    def _exchange(self, child: subprocess.Popen[bytes], question: bytes, give_up_at: float) -> bytes:
        """Sends the question and returns the answer. Raises _Gone, TimeoutError. Reads while it writes, so that neither side waits for
        the other."""
        assert child.stdin is not None
        assert child.stdout is not None
        to_child, from_child = child.stdin.fileno(), child.stdout.fileno()
        sending, answer, wanted = memoryview(question), bytearray(), LENGTH.size
        with selectors.DefaultSelector() as selector:
            selector.register(from_child, selectors.EVENT_READ)
            if question:
                selector.register(to_child, selectors.EVENT_WRITE)
            while len(answer) < wanted:
                left = give_up_at - self._clock.monotonic()
                if left <= 0:
                    raise TimeoutError
                for key, _ in selector.select(left):
                    if key.fd == from_child:
                        answer += _received(from_child)
                        if wanted == LENGTH.size and len(answer) >= LENGTH.size:
                            wanted += min(LENGTH.unpack_from(answer)[0], FRAME_BYTES_MAX)
                    else:
                        sending = sending[_sent(to_child, sending) :]
                        if not sending:
                            selector.unregister(to_child)
        return bytes(answer[LENGTH.size :])


def _ended(child: subprocess.Popen[bytes]) -> int:
    """The exit code of a child that has closed its answers."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    return child.wait()


def _received(descriptor: int) -> bytes:
    try:
        piece = os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return b""
    if not piece:
        raise _Gone
    return piece


def _sent(descriptor: int, payload: memoryview) -> int:
    try:
        return os.write(descriptor, payload[:READ_BYTES])
    except BlockingIOError:
        return 0
    except OSError as error:
        raise _Gone from error
