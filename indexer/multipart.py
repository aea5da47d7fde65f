"""Multipart bodies (RFC 7578), taken apart as they come: heads of parts, pieces of their content, ends. Nothing is kept.

Pure. What is before the first boundary and after the last is dropped; a head has a limit; a body that is none raises at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from email.policy import compat32
from email.utils import collapse_rfc2231_value
from enum import Enum

from store.errors import Misuse

HEAD_BYTES_MAX = 64 * 1024
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")


class MultipartWrong(Misuse):
    code = "multipart_wrong"
    sentence = "The multipart body cannot be read: {reason}."


@dataclass(frozen=True, slots=True)
class PartHead:
    """A part begins. Names of headers are in lower case."""

    name: str | None
    filename: str | None
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartEnd:
    """The part that began last is complete."""


Piece = PartHead | bytes | PartEnd


class _At(Enum):
    PREAMBLE = 1
    AFTER_BOUNDARY = 2
    HEAD = 3
    CONTENT = 4
    EPILOGUE = 5


class Multipart:
    """Feed it the body's bytes in order, then `finish`."""

    def __init__(self, content_type: str) -> None:
        """Raises MultipartWrong when the Content-Type names no boundary."""
        self._delimiter = b"\r\n--" + _boundary_of(content_type)
        self._buffer = bytearray(b"\r\n")  # so that the first boundary looks like the others
        self._at = _At.PREAMBLE

    def feed(self, body: bytes) -> Iterator[Piece]:
        """Raises MultipartWrong."""
        self._buffer += body
        while (pieces := self._step()) is not None:
            yield from pieces

    def finish(self) -> None:
        """Raises MultipartWrong when the body ended before its last boundary."""
        if self._at is not _At.EPILOGUE:
            raise MultipartWrong(reason="it ends before its last boundary")

    def _step(self) -> list[Piece] | None:
        """The next pieces of what has come; None: more has to come."""
        match self._at:
            case _At.PREAMBLE:
                return self._skip_preamble()
            case _At.AFTER_BOUNDARY:
                return self._leave_boundary()
            case _At.HEAD:
                return self._take_head()
            case _At.CONTENT:
                return self._take_content()
            case _At.EPILOGUE:
                self._buffer.clear()
                return None

    def _skip_preamble(self) -> list[Piece] | None:
        found = self._buffer.find(self._delimiter)
        if found < 0:
            del self._buffer[: max(0, len(self._buffer) - len(self._delimiter) + 1)]
            return None
        del self._buffer[: found + len(self._delimiter)]
        self._at = _At.AFTER_BOUNDARY
        return []

    def _leave_boundary(self) -> list[Piece] | None:
        """After a boundary: `--` ends the body, white space and a line's end begin a part."""
        if self._buffer.startswith(b"--"):
            self._at = _At.EPILOGUE
            return []
        line_end = self._buffer.find(b"\r\n")
        if line_end < 0:
            self._check_head()
            return None
        if self._buffer[:line_end].strip(b" \t"):
            raise MultipartWrong(reason="a boundary is followed by something else than a line's end")
        del self._buffer[:line_end]  # the line's end stays: an empty head is two of them
        self._at = _At.HEAD
        return []

    def _take_head(self) -> list[Piece] | None:
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            self._check_head()
            return None
        if head_end > HEAD_BYTES_MAX:
            raise _long_head()
        head = _head_of(bytes(self._buffer[2 : head_end + 2]))
        del self._buffer[: head_end + 4]
        self._at = _At.CONTENT
        return [head]

    def _take_content(self) -> list[Piece] | None:
        found = self._buffer.find(self._delimiter)
        if found >= 0:
            content = bytes(self._buffer[:found])
            del self._buffer[: found + len(self._delimiter)]
            self._at = _At.AFTER_BOUNDARY
            return [content, PartEnd()] if content else [PartEnd()]
        whole = len(self._buffer) - len(self._delimiter) + 1
        if whole <= 0:
            return None
        content = bytes(self._buffer[:whole])
        del self._buffer[:whole]
        return [content]

    def _check_head(self) -> None:
        if len(self._buffer) > HEAD_BYTES_MAX:
            raise _long_head()


def _long_head() -> MultipartWrong:
    return MultipartWrong(reason=f"a part's head is longer than {HEAD_BYTES_MAX} bytes")


def _boundary_of(content_type: str) -> bytes:
    boundary = _message(b"Content-Type: " + content_type.encode("latin-1", "replace")).get_param("boundary")
    if not isinstance(boundary, str) or not _BOUNDARY.fullmatch(boundary):
        raise MultipartWrong(reason="its Content-Type names no boundary")
    return boundary.encode("ascii")


def _head_of(head: bytes) -> PartHead:
    """A part's head. File names are UTF-8, plain or as RFC 5987 has it; `%22`, `%0D` and `%0A` are what browsers write for their signs."""
    message = _message(head)
    name, filename = (_parameter(message, key) for key in ("name", "filename"))
    return PartHead(name, filename, {key.lower(): _text(value) for key, value in message.items()})


def _message(head: bytes) -> Message:
    return HeaderParser(policy=compat32).parsestr(head.decode("latin-1") + "\r\n\r\n")


def _parameter(message: Message, name: str) -> str | None:
    value = message.get_param(name, header="content-disposition")
    if value is None:
        return None
    if isinstance(value, tuple):
        return collapse_rfc2231_value(value)
    return _text(value).replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


def _text(value: str) -> str:
    """A header's bytes, which the parser saw as Latin-1, as UTF-8 where they are."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value
