"""The intake's HTTP door: health, readiness, metrics, `settle`, and what the ledger knows of documents; uploads_http adds its own.

Errors are RFC 9457 problem JSON with a stable `code`. Reading the catalog happens off the event loop. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.convertors import register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Route

from indexer.collections import Collections
from indexer.collections_http import add_collections
from indexer.metrics import EXPOSITION_TYPE
from indexer.openapi import (
    HEALTH,
    PAGE,
    PRINCIPALS_HEADER,
    PROBLEM_TYPE,
    READY,
    SETTLED,
    STATE_OR_ORIGINAL,
    Collection,
    Cursor,
    Limit,
    Patience,
    Raw,
    States,
    Uri,
    answers,
    extra,
    problems,
    publish,
)
from indexer.requests import RequestWrong, UriConvertor, checked_seconds, document_of, home_of
from indexer.rows import document_json
from indexer.uploads import DocumentUnknown, Uploads
from indexer.uploads_http import add_uploads, original
from indexer.uploads_problems import status_for_upload
from store.errors import EvercurrentError, Misuse, Transient, UnknownCollection
from store.model import MAIN_COLLECTION, CollectionId, DocumentState, DocumentStatus

log = structlog.get_logger()

PAGE_DOCUMENTS_MAX = 1000
LOOK_SECONDS = 0.02


class NotSettled(Transient):
    code = "not_settled"
    sentence = "Not settled within {seconds:g} seconds: {reasons}."


class DocumentsReader(Protocol):
    """What of the catalog this door reads."""

    def documents(self, home: CollectionId, cursor: str | None = None, limit: int = 1000, states: Sequence[DocumentState] = ()) -> Any: ...

    def status_of(self, document: Any) -> DocumentStatus | None: ...

    def collection(self, home: CollectionId) -> Any: ...


@dataclass(frozen=True, slots=True)
class IntakeReports:
    """What the process can tell of itself. Each may block: called off the event loop."""

    unready: Callable[[], Sequence[str]]
    """Reasons against being ready; none: ready."""
    unsettled: Callable[[], Sequence[str]]
    """Reasons against being settled; none: every event noticed so far is served."""
    flush: Callable[[float], None]
    """Takes every source event before the call into the ledger, waiting at most these seconds."""
    state: Callable[[], dict[str, Any]]
    metrics: Callable[[], bytes]


def application(
    catalog: DocumentsReader, reports: IntakeReports, uploads: Uploads | None = None, collections: Collections | None = None
) -> FastAPI:
    """The intake's routes; without `uploads` and `collections` (a process that only looks) nothing can be changed over them."""
    app = FastAPI(title="Evercurrent intake", docs_url=None, redoc_url=None, responses=problems(400, 404, 422, 503))
    publish(app)
    register_url_convertor("uri", UriConvertor())
    _add_problems(app)
    _add_reports(app, reports)
    _add_documents(app, catalog, uploads)
    if uploads is not None:
        add_uploads(app, uploads)
    if collections is not None:
        add_collections(app, collections)
    return app


# --- what the process tells of itself ---------------------------------------------------------------------------


def _add_reports(app: FastAPI, reports: IntakeReports) -> None:
    @app.get("/healthz", responses=answers(HEALTH, 200))
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", response_model=None, responses=answers(READY, 200))
    async def readiness() -> Response:
        reasons = await asyncio.to_thread(reports.unready)
        if reasons:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", "Not ready: " + "; ".join(reasons) + ".", reasons=list(reasons))
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(await asyncio.to_thread(reports.metrics), media_type=EXPOSITION_TYPE)

    @app.get("/v1/state")
    async def state() -> dict[str, Any]:
        return await asyncio.to_thread(reports.state)

    @app.post("/v1/settle", response_model=None, responses={**answers(SETTLED, 200), **problems(504)})
    async def settle(timeout: Patience = 30.0) -> dict[str, Any]:
        seconds = checked_seconds("timeout", timeout)
        reasons = await settled(reports, seconds)
        if reasons:
            raise NotSettled(seconds=seconds, reasons="; ".join(reasons))
        return {"settled": True}


async def settled(reports: IntakeReports, seconds_max: float) -> Sequence[str]:
    """Waits until nothing is left to do for what was noticed before the call; returns what is left when time is out."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + seconds_max
    await asyncio.to_thread(reports.flush, seconds_max)
    pause = LOOK_SECONDS
    while True:
        reasons = await asyncio.to_thread(reports.unsettled)
        left = give_up_at - loop.time()
        if not reasons or left <= 0:
            return reasons
        await asyncio.sleep(min(pause, left))
        pause = min(0.25, pause * 1.5)


# --- documents --------------------------------------------------------------------------------------------------


def _add_documents(app: FastAPI, catalog: DocumentsReader, uploads: Uploads | None) -> None:
    @app.get(
        "/v1/collections/{collection}/documents",
        operation_id="documents_list",
        response_model=None,
        responses=answers(PAGE, 200),
        openapi_extra=extra(),
    )
    async def listing(
        request: Request, collection: Collection, state: States = None, cursor: Cursor = None, limit: Limit = PAGE_DOCUMENTS_MAX
    ) -> dict[str, Any]:
        home = home_of(request, collection)
        states = states_of(state)
        rows = min(max(1, limit), PAGE_DOCUMENTS_MAX)
        return await asyncio.to_thread(list_documents, catalog, home, cursor, rows, states)

    @app.get(
        "/v1/collections/{collection}/documents/{uri:uri}",
        operation_id="document_state",
        response_model=None,
        responses={200: {"description": "The document's state, or its original", "content": STATE_OR_ORIGINAL}, **problems(410)},
        openapi_extra=extra(PRINCIPALS_HEADER),
    )
    async def one(request: Request, collection: Collection, uri: Uri, raw: Raw = False) -> dict[str, Any] | Response:
        document = document_of(request, collection, uri)
        if raw and uploads is not None:
            return await original(request, uploads, document)
        status = await asyncio.to_thread(catalog.status_of, document)
        if status is None:
            raise DocumentUnknown(document=document.uri, collection=collection)
        return document_json(status)


def list_documents(
    catalog: DocumentsReader, home: CollectionId, cursor: str | None, limit: int, states: Sequence[DocumentState]
) -> dict[str, Any]:
    if catalog.collection(home) is None:
        if home.collection != MAIN_COLLECTION:
            raise UnknownCollection(collection=home.collection, namespace=home.namespace)
        return {"documents": [], "cursor": None}
    page = catalog.documents(home, cursor, limit, states)
    return {"documents": [document_json(status) for status in page.documents], "cursor": page.cursor}


def states_of(state: str | None) -> tuple[DocumentState, ...]:
    if not state:
        return ()
    try:
        return tuple(DocumentState(name) for name in state.split(","))
    except ValueError as error:
        raise RequestWrong(place="state", reason=f"there are {', '.join(DocumentState)}") from error


# --- problems ---------------------------------------------------------------------------------------------------


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(EvercurrentError)
    async def known(_request: Request, error: EvercurrentError) -> Response:
        after = error.retry_after_seconds if isinstance(error, Transient) else None
        headers = {"Retry-After": str(max(1, round(after)))} if after else {}
        status = status_for(error)
        if status is HTTPStatus.REQUEST_TIMEOUT:
            headers["Connection"] = "close"
        return problem(status, error.code, error.message, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, RequestWrong.code, f"{place}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        status = HTTPStatus(error.status_code)
        headers = {"Allow": allowed(app, request)} if status is HTTPStatus.METHOD_NOT_ALLOWED else error.headers
        return problem(status, status.name.lower(), str(error.detail), headers=headers)

    @app.middleware("http")
    async def confess(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            return await answer(request)
        except Exception as error:
            log.error("intake_request_failed", path=request.url.path, exc_info=error)
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, EvercurrentError.code, EvercurrentError.sentence)


def allowed(app: FastAPI, request: Request) -> str:
    """Every method that the path has: the router knows only those of the first route that fits."""
    routes = [route for route in app.routes if isinstance(route, Route) and route.path_regex.match(request.url.path)]
    return ", ".join(sorted({method for route in routes for method in route.methods or ()}))


def status_for(error: EvercurrentError) -> HTTPStatus:
    status = status_for_upload(error)
    if status is not None:
        return status
    match error:
        case UnknownCollection():
            return HTTPStatus.NOT_FOUND
        case NotSettled():
            return HTTPStatus.GATEWAY_TIMEOUT
        case Misuse():
            return HTTPStatus.UNPROCESSABLE_ENTITY
        case Transient():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR


def problem(status: HTTPStatus, code: str, detail: str, headers: Any = None, **more: Any) -> Response:
    sendable = detail.encode("utf-8", "replace").decode()
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "code": code, "detail": sendable, **more}
    return JSONResponse(body, status.value, headers=headers, media_type=PROBLEM_TYPE)
