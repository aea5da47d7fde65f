"""The doors that change documents: PUT, POST (many files), PATCH, DELETE, and the way back to an original. Problem JSON for errors.

An answer goes out after the ledger's transaction, never before. Bodies are streamed to the blob folder; nothing waits on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from indexer.described import checked_acl, checked_patch
from indexer.multipart import Multipart
from indexer.openapi import (
    ACL_PARAMETER,
    FILES,
    FILES_BODY,
    METADATA_PARAMETER,
    NONE_TAKEN,
    PATCH_BODY,
    RAW_BODY,
    TAKEN,
    Collection,
    Erase,
    Seconds,
    Uri,
    answers,
    document_links,
    extra,
    problems,
)
from indexer.requests import (
    RequestWrong,
    body_of,
    checked_seconds,
    document_of,
    expected_bytes,
    home_of,
    json_object,
    principals_of,
    refuse_foreign,
)
from indexer.uploads import (
    Upload,
    Uploads,
)
from indexer.uploads_parts import ACL_HEADER, METADATA_HEADER, Answer, Parts, Refused, headers_of
from indexer.uploads_problems import NotServed, UploadsBusy
from store.blobs.folder import Draft
from store.errors import EvercurrentError
from store.model import CollectionId, DocumentId, DocumentState, Metadata, Position, Unset, Version

WRITE_BYTES = 1 << 20
THREADS = 8
ACTIVE_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/xml", "text/xml", "image/svg+xml", "text/javascript"})
"""What a browser would run if it showed it: it is saved instead."""
LOOK_SECONDS = 0.01
LOOK_SECONDS_MAX = 0.1
T = TypeVar("T")


def add_uploads(app: FastAPI, uploads: Uploads) -> None:
    door = Door(uploads)

    @app.put(
        "/v1/collections/{collection}/documents/{uri:uri}",
        operation_id="document_put",
        status_code=202,
        response_model=None,
        responses={**answers(TAKEN, 200, 202, links=document_links()), **problems(403, 408, 409, 413, 415, 429, 507)},
        openapi_extra=extra(METADATA_PARAMETER, ACL_PARAMETER, body=RAW_BODY),
    )
    async def put(request: Request, collection: Collection, uri: Uri, wait: Seconds = None) -> Response:
        seconds = None if wait is None else checked_seconds("wait", wait)
        refuse_foreign(request)
        document = document_of(request, collection, uri)
        version = await door.put(request, document)
        return await door.answer(document, version, seconds)

    @app.post(
        "/v1/collections/{collection}/documents",
        operation_id="documents_post",
        status_code=202,
        response_model=None,
        responses={**answers(FILES, 200, 202), 422: NONE_TAKEN, **problems(403, 408, 413, 415, 429, 507)},
        openapi_extra=extra(METADATA_PARAMETER, ACL_PARAMETER, body=FILES_BODY),
    )
    async def post(request: Request, collection: Collection, wait: Seconds = None) -> Response:
        seconds = None if wait is None else checked_seconds("wait", wait)
        refuse_foreign(request)
        answers = await door.post(request, home_of(request, collection))
        return await door.answer_each(answers, seconds)

    @app.patch(
        "/v1/collections/{collection}/documents/{uri:uri}",
        operation_id="document_patch",
        response_model=None,
        responses={**answers(TAKEN, 200, links=document_links()), **problems(403, 408, 413, 507)},
        openapi_extra=extra(body=PATCH_BODY),
    )
    async def patch(request: Request, collection: Collection, uri: Uri) -> dict[str, Any]:
        refuse_foreign(request)
        document = document_of(request, collection, uri)
        metadata, acl = change_of(await json_object(request))
        return answer_json(document, await door.run(lambda: uploads.describe(document, metadata, acl)))

    @app.delete(
        "/v1/collections/{collection}/documents/{uri:uri}",
        operation_id="document_delete",
        response_model=None,
        responses={**answers(TAKEN, 200, links=document_links()), **problems(403, 409, 507)},
        openapi_extra=extra(),
    )
    async def delete(request: Request, collection: Collection, uri: Uri, erase: Erase = False) -> dict[str, Any]:
        refuse_foreign(request)
        document = document_of(request, collection, uri)
        if erase:
            raise NotServed(what="DELETE with erase=true")
        return answer_json(document, await door.run(lambda: uploads.delete(document)))


async def original(request: Request, uploads: Uploads, document: DocumentId) -> Response:
    """The bytes as they came. A browser shows them without running anything of theirs."""
    principals = principals_of(request)
    content, media_type = await asyncio.to_thread(uploads.original, document, principals)
    headers = {"Content-Type": media_type, "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'"}
    if media_type in ACTIVE_TYPES:
        name = quote(document.uri.rpartition("/")[2], safe="")
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{name}"
    return Response(content, headers=headers)


def change_of(body: dict[str, Any]) -> tuple[Metadata | Unset | None, tuple[str, ...] | Unset | None]:
    """Metadata and permissions of a PATCH. Raises RequestWrong, MetadataRejected, AclRejected."""
    unknown = body.keys() - {"metadata", "acl"}
    if unknown:
        raise RequestWrong(place=sorted(unknown)[0][:80], reason="a PATCH has metadata and acl")
    metadata, acl = body.get("metadata", Unset.UNSET), body.get("acl", Unset.UNSET)
    return (
        metadata if metadata is None or metadata is Unset.UNSET else checked_patch(metadata),
        acl if acl is None or acl is Unset.UNSET else checked_acl(acl),
    )


def answer_json(document: DocumentId, version: Version) -> dict[str, Any]:
    return {"document": document.uri, "version": version}


class Door:
    """Receives bodies: so many at once, each off the event loop."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="uploads")
        self._receiving = 0

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def put(self, request: Request, document: DocumentId) -> Version:
        """Raises what keeps the document from being taken."""
        uploads = self._uploads
        metadata, acl = headers_of(_single(request, METADATA_HEADER), _single(request, ACL_HEADER))
        content_type = request.headers.get("Content-Type", "")
        expected = expected_bytes(request)

        def begin() -> Draft:
            uploads.check(document, content_type)
            return uploads.blobs.draft(document.namespace, expected)

        with self._one_more(), await self.run(begin) as draft:
            rest = await self._receive(request, draft.write)

            def finish() -> Version:
                draft.write(rest)
                (outcome,) = uploads.record([Upload(document, draft.keep(), draft.bytes, metadata, acl, declared=content_type)])
                if isinstance(outcome, EvercurrentError):
                    raise outcome
                return outcome

            return await self.run(finish)

    async def post(self, request: Request, home: CollectionId) -> list[Answer]:
        """An answer for each file, in order. Raises what is wrong with the request as a whole: then nothing of it was recorded."""
        metadata, acl = headers_of(_single(request, METADATA_HEADER), _single(request, ACL_HEADER))
        parts = Parts(self._uploads, home, Multipart(request.headers.get("Content-Type", "")), metadata, acl)
        with self._one_more(), parts:
            rest = await self._receive(request, parts.take)
            return await self.run(lambda: parts.finish(rest))

    async def answer(self, document: DocumentId, version: Version, seconds: float | None) -> Response:
        """200 when every retriever answers with the version, 202 when it is only certain that they will."""
        if seconds is None:
            return JSONResponse(answer_json(document, version), HTTPStatus.ACCEPTED)
        ending = await self._await_served([(document, version)], seconds)
        if ending is None:
            return JSONResponse(answer_json(document, version), HTTPStatus.OK)
        return JSONResponse({**answer_json(document, version), "state": ending.value}, HTTPStatus.ACCEPTED)

    async def answer_each(self, answers: Sequence[Answer], seconds: float | None) -> Response:
        taken = [answer for answer in answers if not isinstance(answer, Refused)]
        served = seconds is not None and await self._await_served(taken, seconds) is None
        status = HTTPStatus.OK if served else HTTPStatus.ACCEPTED
        rows = [answer.as_json() if isinstance(answer, Refused) else {**answer_json(*answer), "status": status.value} for answer in answers]
        return JSONResponse({"documents": rows}, status if taken else HTTPStatus.UNPROCESSABLE_ENTITY)

    # --- parts ---

    @contextmanager
    def _one_more(self) -> Iterator[None]:
        limit = self._uploads.limits.at_once_max
        if self._receiving >= limit:
            raise UploadsBusy(at_once_max=limit, retry_after_seconds=1.0)
        self._receiving += 1
        try:
            yield
        finally:
            self._receiving -= 1

    async def _receive(self, request: Request, take: Callable[[bytes], None]) -> bytes:
        """Hands over the body in large pieces; returns the last one, which its taker finishes with."""
        held = bytearray()
        async for part in body_of(request):
            held += part
            if len(held) >= WRITE_BYTES:
                piece = bytes(held)
                held.clear()
                await self.run(lambda piece=piece: take(piece))  # type: ignore[misc]
        return bytes(held)

    async def _await_served(self, documents: Sequence[tuple[DocumentId, Version]], seconds: float) -> DocumentState | None:
        """None once every retriever answers with all of them; else the state that the first of the others is in."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + seconds
        pause = LOOK_SECONDS
        waiting = Waiting(self._uploads, list(documents))
        while True:
            ending = await self.run(waiting.look)
            left = give_up_at - loop.time()
            if ending is not DocumentState.PENDING or left <= 0:
                return ending
            await asyncio.sleep(min(pause, left))
            pause = min(LOOK_SECONDS_MAX, pause * 1.5)


class Waiting:
    """Documents that somebody waits for."""

    def __init__(self, uploads: Uploads, documents: list[tuple[DocumentId, Version]]) -> None:
        self._uploads = uploads
        self._documents = documents
        self._at: Position | None = None

    def look(self) -> DocumentState | None:
        """None: all are served. A state other than pending: one of them never will be, as it is."""
        while self._documents:
            place = self._uploads.settled_at(*self._documents[-1])
            if place is None:
                return DocumentState.PENDING
            if isinstance(place, DocumentState):
                return place
            self._at = place
            self._documents.pop()
        return None if self._at is None or self._uploads.is_answered(self._at) else DocumentState.PENDING


def _single(request: Request, name: str) -> str | None:
    """The header as it came. Raises RequestWrong when it comes twice."""
    came = request.headers.getlist(name)
    if len(came) > 1:
        raise RequestWrong(place=name, reason="it comes more than once")
    return came[0] if came else None
