"""What a request to the intake says: whose collection, which document, how long to wait, what JSON. Nothing is changed here.

A uri is read from the path as it was sent: each byte may be percent-encoded, and `%2F` is `/`.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes, urlsplit

from fastapi import Request
from starlette.convertors import Convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from store.errors import Misuse, UriRejected
from store.model import NAME_BYTES_MAX, CollectionId, CollectionName, DocumentId, Namespace, check_uri

SECONDS_MAX = 600.0
JSON_BYTES_MAX = 256 * 1024
BODY_IDLE_SECONDS_MAX = 30.0
BODY_BYTES_A_SECOND_MIN = 1024
"""On the average, after the first 30 seconds: an upload that trickles must not keep a place for hours."""


"""A namespace is a folder's name, spelled in hex: file systems end at 255 bytes."""
_UNSEEN = r"\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff0-\uffff"
NAME_PATTERN = f"[^ /{_UNSEEN}](?:[^/{_UNSEEN}]*[^ /{_UNSEEN}])?"
"""Of a namespace or collection: nothing that is not seen, no slash, no space at an end."""
_NAME = re.compile(NAME_PATTERN)


class NameRejected(Misuse):
    code = "name_rejected"
    sentence = "The {what} is not acceptable: {reason}."


class RequestWrong(Misuse):
    code = "request_wrong"
    sentence = "{place}: {reason}"


class RequestTooLarge(Misuse):
    code = "body_too_large"
    sentence = "The request is larger than allowed: {reason}."


class RequestBroken(Misuse):
    code = "body_rejected"
    sentence = "The request ended before its body was complete; nothing was kept."


class RequestSlow(Misuse):
    code = "body_slow"
    sentence = (
        "The body came too slowly: nothing for {seconds:.0f} seconds, or less than {bytes_a_second} bytes a second; nothing was kept."
    )


class ForeignOrigin(Misuse):
    """A web page of somewhere else may make a browser send requests here; it has no business to."""

    code = "foreign_origin"
    sentence = "Changes are not taken from web pages of another origin ({origin})."


class UriConvertor(Convertor[str]):
    """All that follows, slashes and line ends included."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def home_of(request: Request, collection: str) -> CollectionId:
    """Raises RequestWrong, NameRejected."""
    return CollectionId(namespace_of(request), CollectionName(_checked_name("collection name", collection)))


def namespace_of(request: Request) -> Namespace:
    """With no keys configured the server listens on loopback only, and the header is believed. Raises RequestWrong, NameRejected."""
    return checked_namespace(header_of(request, "X-Evercurrent-Namespace") or "default")


def checked_namespace(name: str) -> Namespace:
    """Raises NameRejected."""
    return Namespace(_checked_name("namespace", name))


def _checked_name(what: str, name: str) -> str:
    if not 0 < len(name.encode("utf-8", "replace")) <= NAME_BYTES_MAX:
        raise NameRejected(what=what, reason=f"it has 1 to {NAME_BYTES_MAX} bytes")
    if not _NAME.fullmatch(name.encode("utf-8", "replace").decode()):
        raise NameRejected(what=what, reason="it has a slash, a control character, or white space at an end")
    return name


def principals_of(request: Request) -> frozenset[str]:
    listed = header_of(request, "X-Evercurrent-Principals").split(",")
    return frozenset(name for principal in listed if (name := principal.strip()))


def header_of(request: Request, name: str) -> str:
    """A header's value, trimmed; its bytes are read as UTF-8. Raises RequestWrong, also when it comes twice: which one would count?"""
    if len(request.headers.getlist(name)) > 1:
        raise RequestWrong(place=name, reason="it comes more than once")
    try:
        return request.headers.get(name, "").encode("latin-1").decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise RequestWrong(place=name, reason="it is not UTF-8") from error


def document_of(request: Request, collection: str, uri: str) -> DocumentId:
    """The document that the path names; `uri` is what the router made of it. Raises UriRejected."""
    home = home_of(request, collection)
    return home.document(check_uri(_sent_uri(request, collection, uri)))


def _sent_uri(request: Request, collection: str, uri: str) -> str:
    raw = request.scope.get("raw_path")
    if not raw:
        return uri
    parts = raw.split(b"?", 1)[0].split(b"/", 5)
    if len(parts) < 6 or unquote_to_bytes(parts[3]) != collection.encode("utf-8", "replace"):
        raise HTTPException(404)  # an encoded slash before the uri: the router counted it as one
    try:
        return unquote_to_bytes(parts[5]).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UriRejected(uri=uri, reason="it is not UTF-8") from error


def checked_seconds(place: str, seconds: float) -> float:
    """Patience, cut at what a request may wait. Raises RequestWrong."""
    if not math.isfinite(seconds) or seconds < 0:
        raise RequestWrong(place=place, reason="must be a number of seconds, 0 or more")
    return min(seconds, SECONDS_MAX)


def refuse_foreign(request: Request) -> None:
    """Raises ForeignOrigin."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
        raise ForeignOrigin(origin=origin[:100])
    if request.headers.get("Sec-Fetch-Site") == "cross-site":
        raise ForeignOrigin(origin="another site")


def expected_bytes(request: Request) -> int:
    """What the sender says the body has; 0 when it does not."""
    length = request.headers.get("Content-Length", "")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 19 else 0


async def body_of(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes. Raises RequestBroken, RequestSlow. (What of a refused body is not read here the server reads and drops.)"""
    clock = asyncio.get_running_loop().time
    begun, received = clock(), 0
    stream = aiter(request.stream())
    try:
        while True:
            async with asyncio.timeout(body_patience(received, clock() - begun)):
                part = await anext(stream, None)
            if part is None:
                return
            received += len(part)
            yield part
    except ClientDisconnect as error:
        raise RequestBroken from error
    except TimeoutError as error:
        raise RequestSlow(seconds=BODY_IDLE_SECONDS_MAX, bytes_a_second=BODY_BYTES_A_SECOND_MIN) from error


def body_patience(received: int, seconds: float) -> float:
    """How long a body of which so much came in so many seconds may keep its reader waiting: 0 or less is too long already."""
    return min(BODY_IDLE_SECONDS_MAX, BODY_IDLE_SECONDS_MAX + received / BODY_BYTES_A_SECOND_MIN - seconds)


async def json_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object. Raises RequestWrong, RequestTooLarge, RequestBroken."""
    body = bytearray()
    async for part in body_of(request):
        body += part
        if len(body) > JSON_BYTES_MAX:
            raise RequestTooLarge(reason=f"a JSON body has at most {JSON_BYTES_MAX} bytes")
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RequestWrong(place="body", reason="it is not JSON") from error
    if not isinstance(value, dict):
        raise RequestWrong(place="body", reason="it is not a JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
