"""What the intake publishes of itself as OpenAPI: the shapes of requests and answers, and every status with its problem.

Data alone: the doors read requests by themselves, and the fuzz in tests/fuzz holds both against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query

from indexer.described import DEPTH_MAX
from indexer.requests import NAME_PATTERN
from store.model import URI_PATTERN, DocumentState

Json = dict[str, Any]
Responses = dict[int | str, Json]

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER = frozenset({429, 503, 504, 507})
_STATES = "|".join(state.value for state in DocumentState)
BLANK = r"\u0000\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What is trimmed from the ends of a name."""

Collection = Annotated[
    str,
    Path(
        description="A collection's name.",
        json_schema_extra={"minLength": 1, "maxLength": 100, "pattern": f"^{NAME_PATTERN}$", "example": "main"},
    ),
]
Uri = Annotated[
    str,
    Path(
        description="The document's uri, at most 1,024 bytes of UTF-8; each byte may be percent-encoded and `%2F` is `/`.",
        json_schema_extra={"minLength": 1, "maxLength": 1024, "pattern": URI_PATTERN, "example": "guide/install.md"},
    ),
]
States = Annotated[
    str | None,
    Query(
        description="Only documents in these states, separated by commas.",
        json_schema_extra={"type": "string", "pattern": f"^(({_STATES})(,({_STATES}))*)?$"},
    ),
]
Cursor = Annotated[str | None, Query(description="Where the page before ended.", json_schema_extra={"type": "string"})]
Limit = Annotated[int, Query(ge=1, description="Documents a page; more than 1,000 are 1,000.")]
Raw = Annotated[bool, Query(description="The bytes as they were uploaded, in place of the state.")]
Erase = Annotated[
    bool, Query(description="For good: every trace is removed. True is refused by this version.", json_schema_extra={"enum": [False]})
]
Patience = Annotated[float, Query(description="Patience in seconds; more than 600 is 600.", json_schema_extra={"minimum": 0})]
Seconds = Annotated[float | None, Query(description="Patience in seconds; more than 600 is 600.", json_schema_extra={"minimum": 0})]


# --- shapes ---------------------------------------------------------------------------------------------------------


def object_of(properties: Mapping[str, Any], optional: frozenset[str] = frozenset(), **more: Any) -> Json:
    return {"type": "object", "properties": dict(properties), "required": [name for name in properties if name not in optional], **more}


WHOLE: Json = {"type": "integer", "minimum": 0}
TEXT: Json = {"type": "string"}
PROBLEM = object_of(
    {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "pattern": "^[a-z_]+$"},
        "detail": {"type": "string", "minLength": 1},
        "place": TEXT,
    },
    frozenset({"place"}),
)
STATE: Json = {"enum": [state.value for state in DocumentState]}
ROW = object_of(
    {
        "document": TEXT,
        "state": STATE,
        "code": {"type": ["string", "null"]},
        "message": {"type": ["string", "null"]},
        "version": WHOLE,
        "chunks": WHOLE,
        "wanted_version": WHOLE,
        "attempts": WHOLE,
        "root": TEXT,
    }
)
PAGE = object_of({"documents": {"type": "array", "items": ROW}, "cursor": {"type": ["string", "null"]}})
TAKEN = object_of({"document": TEXT, "version": WHOLE, "state": STATE}, frozenset({"state"}))
"""`state` says why who waited need not wait longer."""
FILE_TAKEN = object_of({"document": TEXT, "version": WHOLE, "status": {"enum": [200, 202]}})
FILE_REFUSED = object_of({"document": TEXT, "status": {"type": "integer", "minimum": 400}, "code": TEXT, "detail": TEXT})
FILES = object_of({"documents": {"type": "array", "items": {"anyOf": [FILE_TAKEN, FILE_REFUSED]}}})
NAMED: Json = {"type": "string", "minLength": 1, "pattern": f"[^{BLANK}]"}
"""At least one character that is seen."""
LEAF: Json = {"type": ["null", "boolean", "string", "number"]}


def _nested(levels: int) -> Json:
    """Values with at most so many levels of lists and objects in them."""
    if levels == 0:
        return LEAF
    inner = {"$ref": f"#/components/schemas/MetadataValue{levels - 1}"}
    return {"anyOf": [LEAF, {"type": "array", "items": inner}, _object_of(inner)]}


def _object_of(value: Json) -> Json:
    return {"type": "object", "propertyNames": NAMED, "additionalProperties": value}


COMPONENTS: Json = {f"MetadataValue{levels}": _nested(levels) for levels in range(DEPTH_MAX + 1)}
METADATA = _object_of({"$ref": f"#/components/schemas/MetadataValue{DEPTH_MAX}"})
PRINCIPAL: Json = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": rf"^[^{BLANK}\ufeff]([^\u0000\r]*[^{BLANK}])?$"}
ACL: Json = {"type": "array", "maxItems": 1000, "items": PRINCIPAL}
PATCH = object_of(
    {"metadata": {"anyOf": [METADATA, {"type": "null"}]}, "acl": {"anyOf": [ACL, {"type": "null"}]}},
    frozenset({"metadata", "acl"}),
    additionalProperties=False,
)

COLLECTION = object_of(
    {
        "collection": TEXT,
        "documents": object_of({state.value: WHOLE for state in DocumentState if state is not DocumentState.DELETED}),
        "chunks": WHOLE,
        "recipe": {"type": ["string", "null"]},
        "space": {"type": ["string", "null"]},
        "growing": {"type": ["string", "null"]},
        "fields": {
            "type": "object",
            "additionalProperties": object_of({"type": TEXT, "values": {"type": "array"}, "required": {"type": "boolean"}}),
        },
    }
)
COLLECTIONS = object_of({"collections": {"type": "array", "items": COLLECTION}})
DROPPED = object_of({"deleted": TEXT, "documents": WHOLE})
NAMESPACES = object_of(
    {"namespaces": {"type": "array", "items": object_of({"namespace": TEXT, "collections": {"type": "array", "items": TEXT}})}}
)
NAMESPACE_DROPPED = object_of({"deleted": TEXT, "collections": {"type": "object", "additionalProperties": WHOLE}})

HEALTH = object_of({"status": {"const": "ok"}})
READY = object_of({"status": {"const": "ready"}})
SETTLED = object_of({"settled": {"const": True}})

NAMESPACE_HEADER: Json = {
    "name": "X-Evercurrent-Namespace",
    "in": "header",
    "required": False,
    "description": "The tenant; `default` without it.",
    "schema": {"type": "string", "maxLength": 100, "pattern": "^[ -.0-~]*$"},
}
PRINCIPALS_HEADER: Json = {
    "name": "X-Evercurrent-Principals",
    "in": "header",
    "required": False,
    "description": "Who asks: `user:u,group:g`.",
    "schema": {"type": "string"},
}
METADATA_PARAMETER: Json = {
    "name": "X-Evercurrent-Metadata",
    "in": "header",
    "required": False,
    "description": "The document's own metadata as ASCII JSON.",
    "content": {"application/json": {"schema": METADATA}},
}
ACL_PARAMETER: Json = {
    "name": "X-Evercurrent-Acl",
    "in": "header",
    "required": False,
    "description": "Who may read it, as a JSON list; `*` is everybody.",
    "content": {"application/json": {"schema": ACL}},
}


# --- answers --------------------------------------------------------------------------------------------------------


def problems(*statuses: int) -> Responses:
    """These statuses, each told as problem JSON."""
    return {status: _problem(HTTPStatus(status)) for status in statuses}


def _problem(status: HTTPStatus) -> Json:
    answer: Json = {"description": status.phrase, "content": {PROBLEM_TYPE: {"schema": PROBLEM}}}
    if status in RETRY_AFTER:
        answer["headers"] = {
            "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer", "minimum": 1}}
        }
    return answer


def answers(schema: Json, *statuses: int, links: Json | None = None) -> Responses:
    """These statuses, each with JSON of this shape."""
    more = {} if links is None else {"links": links}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {"application/json": {"schema": schema}}, **more}
        for status in statuses
    }


def document_links() -> Json:
    """Where the document that an answer names can be asked for, changed and deleted."""
    place = {"collection": "$request.path.collection", "uri": "$response.body#/document"}
    return {
        "state": {"operationId": "document_state", "parameters": place},
        "original": {"operationId": "document_state", "parameters": {**place, "raw": True}},
        "again": {"operationId": "document_put", "parameters": place},
        "describe": {"operationId": "document_patch", "parameters": place},
        "delete": {"operationId": "document_delete", "parameters": place},
        "listing": {"operationId": "documents_list", "parameters": {"collection": "$request.path.collection"}},
    }


BINARY: Json = {"type": "string", "format": "binary"}
RAW_BODY: Json = {
    "content": {media_type: {"schema": BINARY} for media_type in ("application/octet-stream", "text/plain", "text/markdown", "text/html")}
}
PATCH_BODY: Json = {"required": True, "content": {"application/json": {"schema": PATCH}}}
FILES_BODY: Json = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": object_of({"file": {"type": "array", "minItems": 1, "items": BINARY}}),
            "encoding": {
                "file": {
                    "contentType": "text/markdown, text/plain, text/html, application/octet-stream",
                    "headers": {
                        "Content-Disposition": {"schema": {"type": "string", "example": 'form-data; name="file"; filename="notes.md"'}}
                    },
                }
            },
        }
    },
}
STATE_OR_ORIGINAL: Json = {"application/json": {"schema": ROW}, "*/*": {"schema": BINARY}}
NONE_TAKEN: Json = {
    "description": "No file was taken, or the request is wrong",
    "content": {"application/json": {"schema": FILES}, PROBLEM_TYPE: {"schema": PROBLEM}},
}


def extra(*headers: Json, body: Json | None = None) -> Json:
    """What of a request the doors read by themselves."""
    return {"parameters": [NAMESPACE_HEADER, *headers], **({} if body is None else {"requestBody": body})}


def publish(app: FastAPI) -> None:
    """Adds what several operations share to the schema that the application makes of its routes."""
    of_routes = app.openapi

    def openapi() -> Json:
        schema = of_routes()
        schema.setdefault("components", {}).setdefault("schemas", {}).update(COMPONENTS)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
