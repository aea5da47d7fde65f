"""What the retriever publishes of itself as OpenAPI: the shapes of searches and answers, and every status with its problem.

Data alone: the door reads requests by itself, and the fuzz in tests/fuzz holds both against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path

from indexer.openapi import BLANK
from retriever.query import K_DEFAULT, K_MAX, MIN_VERSION_MAX, NOT_YET, QUERY_CHARS_MAX, VECTOR_VALUES_MAX, Mode
from store.model import URI_BYTES_MAX, URI_PATTERN

Json = dict[str, Any]
Responses = dict[int | str, Json]

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER = frozenset({429, 503, 504})
FLOAT_MAX = 3.4e38

Collection = Annotated[str, Path(description="A collection's name.", json_schema_extra={"minLength": 1, "example": "main"})]


def _object(properties: Mapping[str, Any], optional: frozenset[str] = frozenset(), **more: Any) -> Json:
    return {"type": "object", "properties": dict(properties), "required": [name for name in properties if name not in optional], **more}


TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer", "minimum": 0}
SCORE: Json = {"type": ["number", "null"]}
CHUNK_ID: Json = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
PROBLEM = _object(
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
CHUNK = {
    "document": TEXT,
    "chunk_id": CHUNK_ID,
    "text": TEXT,
    "start": WHOLE,
    "end": WHOLE,
    "metadata": {"type": "object"},
    "version": WHOLE,
    "indexed_at": TEXT,
    "stale": {"type": "boolean"},
}
HIT = _object({"score": {"type": "number"}, "scores": _object({"dense": SCORE, "keyword": SCORE}), **CHUNK})
ANSWER = _object(
    {
        "hits": {"type": "array", "maxItems": K_MAX, "items": HIT},
        "snapshot": WHOLE,
        "complete": {"type": "boolean"},
        "degraded": {"type": "array", "items": {"enum": ["dense", "keyword"]}},
        "cache": {"enum": ["hit", "miss"]},
        "took_ms": {"type": "number", "minimum": 0},
        "explain": {"type": "object"},
    },
    frozenset({"explain"}),
)
CHUNKS = _object({"chunks": {"type": "array", "items": _object(CHUNK)}})
HEALTH = _object({"status": {"const": "ok"}})
READY = _object({"status": {"const": "ready"}})

# --- what a search says -----------------------------------------------------------------------------------------------

SCALAR: Json = {"type": ["string", "number", "boolean", "null"]}
ORDERED: Json = {"type": ["string", "number"]}
SCALARS: Json = {"type": "array", "items": SCALAR}
OPERATORS = _object(
    {
        "$eq": SCALAR,
        "$ne": SCALAR,
        "$gt": ORDERED,
        "$gte": ORDERED,
        "$lt": ORDERED,
        "$lte": ORDERED,
        "$in": SCALARS,
        "$nin": SCALARS,
        "$exists": {"type": "boolean"},
        "$contains": SCALAR,
    },
    frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$contains"}),
    additionalProperties=False,
    minProperties=1,
)
FILTER: Json = {"$ref": "#/components/schemas/Filter"}
FILTERS: Json = {"type": "array", "minItems": 1, "items": FILTER}
COMPONENTS: Json = {
    "Filter": {
        "type": "object",
        "properties": {"$and": FILTERS, "$or": FILTERS, "$not": FILTER},
        "patternProperties": {"^[^$]": {"anyOf": [SCALAR, OPERATORS]}},
        "additionalProperties": False,
    }
}
URI: Json = {"type": "string", "minLength": 1, "maxLength": URI_BYTES_MAX, "pattern": URI_PATTERN}
COMMON: Json = {
    "k": {"type": "integer", "minimum": 1, "maximum": K_MAX, "default": K_DEFAULT},
    "filter": {"anyOf": [FILTER, {"type": "null"}]},
    "min_score": {"type": ["number", "null"]},
    "parents": {"enum": [False]},
    "min_version": {
        "anyOf": [
            {"type": "object", "maxProperties": MIN_VERSION_MAX, "propertyNames": URI, "additionalProperties": WHOLE},
            {"type": "null"},
        ]
    },
    "explain": {"type": "boolean"},
    "rerank": {"enum": [None, False]},
    **{key: {"type": "null"} for key in NOT_YET if key not in ("parents", "rerank")},
}
QUERY: Json = {"type": "string", "minLength": 1, "maxLength": QUERY_CHARS_MAX, "pattern": f"[^{BLANK}]"}
VECTOR: Json = {
    "type": "array",
    "minItems": 1,
    "maxItems": VECTOR_VALUES_MAX,
    "items": {"type": "number", "minimum": -FLOAT_MAX, "maximum": FLOAT_MAX},
    "description": "As many numbers as the collection's vectors have.",
}


def _search(needed: tuple[str, ...], modes: tuple[Mode, ...], also: Json) -> Json:
    own: Json = {"mode": {"enum": [mode.value for mode in modes], "default": Mode.HYBRID.value}, **also}
    if Mode.HYBRID not in modes:
        needed = (*needed, "mode")
    return {"type": "object", "properties": {**COMMON, **own}, "required": list(needed), "additionalProperties": False}


NOTHING: Json = {"type": "null"}
SEARCH: Json = {
    "anyOf": [
        _search(("query",), tuple(Mode), {"query": QUERY, "vector": NOTHING}),
        _search(("vector",), (Mode.HYBRID, Mode.DENSE), {"query": NOTHING, "vector": VECTOR}),
        _search(("query", "vector"), (Mode.HYBRID,), {"query": QUERY, "vector": VECTOR}),
    ]
}
CHUNK_IDS = _object({"ids": {"type": "array", "maxItems": 1000, "items": CHUNK_ID}})

HEADERS: list[Json] = [
    {
        "name": "X-Evercurrent-Namespace",
        "in": "header",
        "required": False,
        "description": "The tenant; `default` without it.",
        "schema": TEXT,
    },
    {
        "name": "X-Evercurrent-Principals",
        "in": "header",
        "required": False,
        "description": "Who asks: `user:u,group:g`.",
        "schema": TEXT,
    },
]


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


def answers(schema: Json, links: Json | None = None) -> Responses:
    more = {} if links is None else {"links": links}
    return {200: {"description": "OK", "content": {"application/json": {"schema": schema}}, **more}}


SEARCH_LINKS: Json = {
    "chunk": {
        "operationId": "chunks",
        "parameters": {"collection": "$request.path.collection"},
        "requestBody": {"ids": ["$response.body#/hits/0/chunk_id"]},
    }
}


def asked(body: Json) -> Json:
    """What of a request the door reads by itself."""
    return {"parameters": HEADERS, "requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}


def publish(app: FastAPI) -> None:
    """Adds what several operations share to the schema that the application makes of its routes."""
    of_routes = app.openapi

    def openapi() -> Json:
        schema = of_routes()
        schema.setdefault("components", {}).setdefault("schemas", {}).update(COMPONENTS)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
