"""The doors to whole collections: listed, created, deleted with everything in them; and to namespaces. Problem JSON for errors.

A deletion is answered when it is done. While no API keys exist, whoever can reach this machine's loopback may do all of it.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request, Response
from fastapi.responses import JSONResponse

from indexer.collections import Collections
from indexer.openapi import COLLECTION, COLLECTIONS, DROPPED, NAMESPACE_DROPPED, NAMESPACES, Collection, answers, extra, problems
from indexer.requests import NAME_PATTERN, checked_namespace, home_of, namespace_of, refuse_foreign

NamespaceName = Annotated[
    str,
    Path(
        description="A namespace's name.",
        json_schema_extra={"minLength": 1, "maxLength": 100, "pattern": f"^{NAME_PATTERN}$", "example": "default"},
    ),
]


def add_collections(app: FastAPI, collections: Collections) -> None:
    @app.get("/v1/collections", operation_id="collections_list", responses=answers(COLLECTIONS, 200), openapi_extra=extra())
    async def listing(request: Request) -> dict[str, Any]:
        return {"collections": await asyncio.to_thread(collections.listed, namespace_of(request))}

    @app.put(
        "/v1/collections/{collection}",
        operation_id="collection_put",
        response_model=None,
        responses={**answers(COLLECTION, 200, 201), **problems(403, 429, 507)},
        openapi_extra=extra(),
    )
    async def put(request: Request, collection: Collection) -> Response:
        refuse_foreign(request)
        row, is_new = await asyncio.to_thread(collections.create, home_of(request, collection))
        return JSONResponse(row, HTTPStatus.CREATED if is_new else HTTPStatus.OK)

    @app.delete(
        "/v1/collections/{collection}",
        operation_id="collection_delete",
        responses={**answers(DROPPED, 200), **problems(403, 507)},
        openapi_extra=extra(),
    )
    async def delete(request: Request, collection: Collection) -> dict[str, Any]:
        refuse_foreign(request)
        home = home_of(request, collection)
        return {"deleted": home.collection, "documents": await asyncio.to_thread(collections.drop, home)}

    @app.get("/v1/namespaces", operation_id="namespaces_list", responses=answers(NAMESPACES, 200))
    async def namespaces() -> dict[str, Any]:
        return {"namespaces": await asyncio.to_thread(collections.namespaces)}

    @app.delete(
        "/v1/namespaces/{namespace}",
        operation_id="namespace_delete",
        responses={**answers(NAMESPACE_DROPPED, 200), **problems(403, 507)},
    )
    async def delete_namespace(request: Request, namespace: NamespaceName) -> dict[str, Any]:
        refuse_foreign(request)
        removed = await asyncio.to_thread(collections.drop_namespace, checked_namespace(namespace))
        return {"deleted": namespace, "collections": dict(removed)}
