"""The retriever's HTTP door: JSON in, JSON out, every error as RFC 9457 problem JSON with a stable `code`.

Searches run in a bounded pool of their own, so that the event loop (and with it /healthz) never waits for one; when the pool
and its queue are full the answer is 429, never an empty one. Nothing is decided about documents here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeVar

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from indexer.openapi import PROBLEM_TYPE, problems
from retriever.metrics import EXPOSITION_TYPE, RetrieverMetrics, SearchOutcome
from retriever.openapi import (
    ANSWER,
    CHUNK_IDS,
    CHUNKS,
    HEALTH,
    READY,
    SEARCH,
    SEARCH_LINKS,
    Collection,
    answers,
    asked,
    publish,
)
from retriever.query import SearchRequest
from retriever.search import SearchAnswer, Searcher, VersionNotReached, answer_json, chunk_json
from store.clock import Clock
from store.errors import (
    EvercurrentError,
    Misuse,
    QueryRejected,
    Transient,
    UnknownCollection,
)
from store.model import ChunkId, CollectionId, CollectionName, Namespace

log = structlog.get_logger()

BODY_BYTES_MAX = 1024 * 1024
BODY_SECONDS_MAX = 30.0
CHUNK_IDS_MAX = 1000
SEARCH_THREADS = 4
PATIENT_THREADS = 16
"""For searches that wait for a version: they sleep, and must not keep the others from a thread."""
SEARCHES_WAITING_MAX = 64
T = TypeVar("T")


class Overloaded(Transient):
    code = "overloaded"
    sentence = "The retriever has {limit} searches in hand already; try again in a second."


class BodyRejected(Misuse):
    code = "body_rejected"
    sentence = "The request body is not acceptable: {reason}."


class BodySlow(Misuse):
    code = "body_slow"
    sentence = "The request body was not complete within {seconds:.0f} seconds."


class BodyTooLarge(Misuse):
    code = "body_too_large"
    sentence = "The request body is larger than {bytes_max} bytes."


@dataclass(frozen=True, slots=True)
class Readiness:
    """Ready when there are no reasons against it."""

    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reports:
    """What the process can tell of itself besides answers."""

    readiness: Callable[[], Readiness]
    lags: Callable[[], Mapping[str, int]]


class SearchPool:
    """Runs searches off the event loop: `threads` at once, `waiting_max` more in line, the rest refused at once."""

    def __init__(self, threads: int = SEARCH_THREADS, waiting_max: int = SEARCHES_WAITING_MAX) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self._patient = ThreadPoolExecutor(PATIENT_THREADS, thread_name_prefix="patient-search")
        self._limit = threads + waiting_max
        self._in_hand = 0

    async def run(self, search: Callable[[], T], *, patient: bool = False) -> T:
        """A `patient` search may sleep. Raises Overloaded. Called from the event loop only, so that the count needs no lock."""
        if self._in_hand >= self._limit:
            raise Overloaded(limit=self._limit, retry_after_seconds=1.0)
        self._in_hand += 1
        running = (self._patient if patient else self._threads).submit(search)
        running.add_done_callback(_told(asyncio.get_running_loop(), self._one_less))
        return await asyncio.wrap_future(running)

    def _one_less(self) -> None:
        self._in_hand -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._patient.shutdown(wait=True, cancel_futures=True)


def _told(loop: asyncio.AbstractEventLoop, done: Callable[[], None]) -> Callable[[object], None]:
    def tell(_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(done)

    return tell


def application(searcher: Searcher, metrics: RetrieverMetrics, reports: Reports, clock: Clock, pool: SearchPool) -> FastAPI:
    """The retriever's routes over `searcher`. Starts nothing."""
    app = FastAPI(title="Evercurrent retriever", openapi_url="/openapi.json", docs_url=None, redoc_url=None)
    publish(app)
    _serve_searches(app, searcher, metrics, clock, pool)
    _serve_reports(app, metrics, reports)
    app.add_exception_handler(EvercurrentError, _problem_of_error)
    app.add_exception_handler(HTTPException, _problem_of_route)
    app.add_exception_handler(Exception, _problem_of_fault)
    return app


def _serve_searches(app: FastAPI, searcher: Searcher, metrics: RetrieverMetrics, clock: Clock, pool: SearchPool) -> None:
    @app.post(
        "/v1/collections/{collection}/search",
        operation_id="search",
        responses={**answers(ANSWER, SEARCH_LINKS), **problems(400, 404, 408, 413, 422, 429, 503, 504)},
        openapi_extra=asked(SEARCH),
    )
    async def search(collection: Collection, request: Request) -> Response:
        started = clock.monotonic()
        wanted: SearchRequest | None = None
        outcome = SearchOutcome.UNAVAILABLE
        try:
            wanted = searcher.parsed(await _json_object(request))
            home, principals = _home(request, collection), _principals(request)
            answer = await pool.run(lambda: searcher.search(home, wanted, principals), patient=bool(wanted.min_version))
            outcome = _outcome(answer)
            return JSONResponse(answer_json(answer))
        except EvercurrentError as error:
            outcome = SearchOutcome.UNAVAILABLE if _status(error) >= 500 or isinstance(error, Overloaded) else SearchOutcome.REJECTED
            raise
        finally:
            metrics.count_search(wanted.mode.value if wanted else "unparsed", outcome, clock.monotonic() - started)

    @app.post(
        "/v1/collections/{collection}/chunks",
        operation_id="chunks",
        responses={**answers(CHUNKS), **problems(400, 404, 408, 413, 422, 429, 503)},
        openapi_extra=asked(CHUNK_IDS),
    )
    async def chunks(collection: Collection, request: Request) -> Response:
        wanted = _chunk_ids(await _json_object(request))
        home, principals = _home(request, collection), _principals(request)
        found = await pool.run(lambda: searcher.chunks(home, wanted, principals))
        return JSONResponse({"chunks": [chunk_json(chunk) for chunk in found]})


def _serve_reports(app: FastAPI, metrics: RetrieverMetrics, reports: Reports) -> None:
    @app.get("/healthz", responses=answers(HEALTH))
    async def healthz() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", responses={**answers(READY), **problems(503)})
    async def readyz() -> Response:
        reasons = reports.readiness().reasons
        if not reasons:
            return JSONResponse({"status": "ready"})
        detail = "Not ready: " + "; ".join(reasons) + "."
        return _problem(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", detail, more={"reasons": list(reasons)})

    @app.get("/metrics", response_class=PlainTextResponse)
    def exposition() -> Response:
        return Response(metrics.exposition(reports.lags()), media_type=EXPOSITION_TYPE)


def _outcome(answer: SearchAnswer) -> SearchOutcome:
    if answer.degraded:
        return SearchOutcome.DEGRADED
    if answer.hits:
        return SearchOutcome.OK
    return SearchOutcome.BELOW_THRESHOLD if answer.below_threshold else SearchOutcome.EMPTY


# --- what a request says -------------------------------------------------------------------------------------


def _home(request: Request, collection: str) -> CollectionId:
    namespace = _header(request, "x-evercurrent-namespace") or "default"
    return CollectionId(Namespace(namespace), CollectionName(collection))


def _principals(request: Request) -> frozenset[str]:
    listed = _header(request, "x-evercurrent-principals").split(",")
    return frozenset(name for principal in listed if (name := principal.strip()))


def _header(request: Request, name: str) -> str:
    """A header's value, trimmed; header bytes are read as UTF-8. One that comes twice is refused: which would count?"""
    if len(request.headers.getlist(name)) > 1:
        raise BodyRejected(f"The header {name} comes more than once.")
    try:
        return request.headers.get(name, "").encode("latin-1").decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise BodyRejected(f"The header {name} is not UTF-8.") from error


async def _json_object(request: Request) -> dict[str, Any]:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for part in request.stream():
                body += part
                if len(body) > BODY_BYTES_MAX:
                    raise BodyTooLarge(bytes_max=BODY_BYTES_MAX)
    except TimeoutError as error:
        raise BodySlow(seconds=BODY_SECONDS_MAX) from error
    except ClientDisconnect as error:
        raise BodyRejected(reason="it ended early") from error
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BodyRejected(reason="it is not JSON") from error
    if not isinstance(value, dict):
        raise BodyRejected(reason="it is not a JSON object")
    return value


def _chunk_ids(body: Mapping[str, Any]) -> list[ChunkId]:
    ids = body.get("ids")
    if not isinstance(ids, list) or len(ids) > CHUNK_IDS_MAX:
        raise QueryRejected(place="ids", reason=f"give a list of at most {CHUNK_IDS_MAX} chunk ids")
    return [_chunk_id(text, f"ids[{number}]") for number, text in enumerate(ids)]


def _chunk_id(text: object, place: str) -> ChunkId:
    try:
        chunk_id = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        chunk_id = b""
    if len(chunk_id) != 16:
        raise QueryRejected(place=place, reason="a chunk id is 32 hex digits")
    return ChunkId(chunk_id)


# --- problems ------------------------------------------------------------------------------------------------


def _status(error: EvercurrentError) -> int:
    match error:
        case QueryRejected():
            return HTTPStatus.UNPROCESSABLE_ENTITY
        case UnknownCollection():
            return HTTPStatus.NOT_FOUND
        case BodyTooLarge():
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        case BodySlow():
            return HTTPStatus.REQUEST_TIMEOUT
        case BodyRejected():
            return HTTPStatus.BAD_REQUEST
        case Overloaded():
            return HTTPStatus.TOO_MANY_REQUESTS
        case VersionNotReached():
            return HTTPStatus.GATEWAY_TIMEOUT
        case _:
            return HTTPStatus.SERVICE_UNAVAILABLE


async def _problem_of_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, EvercurrentError)
    status = _status(error)
    if status >= 500:
        log.warning("request_unanswered", path=request.url.path, code=error.code, reason=error.message)
    after = error.retry_after_seconds if isinstance(error, Transient) else None
    headers = {"Retry-After": str(max(1, round(after)))} if after else None
    return _problem(status, error.code, error.message, error.context.get("place"), headers)


async def _problem_of_route(_: Request, error: Exception) -> Response:
    """A path or method that is not served here."""
    assert isinstance(error, HTTPException)
    code = {HTTPStatus.NOT_FOUND: "no_such_path", HTTPStatus.METHOD_NOT_ALLOWED: "no_such_method"}.get(HTTPStatus(error.status_code))
    return _problem(error.status_code, code or "http", str(error.detail), headers=error.headers)


async def _problem_of_fault(_: Request, error: Exception) -> Response:
    """A fault of ours: said as one, its details only in the log."""
    log.error("request_failed", error=type(error).__name__, exc_info=error)
    return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, EvercurrentError.code, EvercurrentError.sentence)


def _problem(
    status: int,
    code: str,
    detail: str,
    place: object = None,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Response:
    sendable = _sendable(detail)
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": int(status), "code": code, "detail": sendable, **more}
    if place is not None:
        problem["place"] = _sendable(str(place))
    return JSONResponse(problem, status, headers, media_type=PROBLEM_TYPE)


def _sendable(text: str) -> str:
    """A name that the request spelled with a lone surrogate cannot be sent back as UTF-8."""
    return text.encode("utf-8", "replace").decode()
