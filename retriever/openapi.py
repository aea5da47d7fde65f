"""What the retriever publishes of itself as OpenAPI: the shapes of searches and answers, and every status with its problem.

Data alone: the door reads requests by itself, and the fuzz in tests/fuzz holds both against each other.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path

from indexer.openapi import BLANK, TEXT, WHOLE, Json, object_of
from retriever.query import K_DEFAULT, K_MAX, MIN_VERSION_MAX, NOT_YET, QUERY_CHARS_MAX, VECTOR_VALUES_MAX, Mode
from store.model import URI_BYTES_MAX, URI_PATTERN

Responses = dict[int | str, Json]

FLOAT_MAX = 3.4e38

Collection = Annotated[str, Path(description="A collection's name.", json_schema_extra={"minLength": 1, "example": "main"})]


SCORE: Json = {"type": ["number", "null"]}
CHUNK_ID: Json = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
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
HIT = object_of({"score": {"type": "number"}, "scores": object_of({"dense": SCORE, "keyword": SCORE}), **CHUNK})
ANSWER = object_of(
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
CHUNKS = object_of({"chunks": {"type": "array", "items": object_of(CHUNK)}})
HEALTH = object_of({"status": {"const": "ok"}})
READY = object_of({"status": {"const": "ready"}})

# --- what a search says -----------------------------------------------------------------------------------------------

SCALAR: Json = {"type": ["string", "number", "boolean", "null"]}
ORDERED: Json = {"type": ["string", "number"]}
SCALARS: Json = {"type": "array", "items": SCALAR}
OPERATORS = object_of(
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
CHUNK_IDS = object_of({"ids": {"type": "array", "maxItems": 1000, "items": CHUNK_ID}})

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
