"""Chooses the embedder: from the configuration, or for a space that was recorded. The only place that does.

Providers are imported when chosen, so that neither numpy nor openai is loaded before there is something to embed.
"""

from __future__ import annotations

from typing import assert_never

from pydantic import SecretStr

from indexer.embedding.port import Embedder
from indexer.embedding.spaces import base_url_of, space_of
from store.config import EmbeddingTable
from store.errors import ConfigWrong, EmbedderRefused
from store.model import Space


def embedder_for(table: EmbeddingTable) -> Embedder:
    """The embedder that the configuration means. Probes the endpoint (one call) where only that can tell the dimensions.

    Raises ConfigWrong, and what a call to the provider may raise.
    """
    space = space_of(table)
    if space is None:
        space = space_of(table, probed_dimensions=_probed_dimensions(table))
        assert space is not None
    return _embedder(space, table, table.api_key)


def embedder_of(space: Space, table: EmbeddingTable) -> Embedder:
    """The embedder of a recorded space; `table` lends key and patience, and the endpoint when it means the same model.

    The key goes to no endpoint but the configured one. Raises EmbedderRefused when this installation cannot make that space.
    """
    recorded = _table_of(space, table)
    try:
        rebuilt = space_of(recorded, probed_dimensions=space.dimensions)
    except ConfigWrong as error:
        raise _unmakable(space) from error
    if rebuilt is None or rebuilt.space_id != space.space_id:
        raise _unmakable(space)
    key = table.api_key if base_url_of(recorded) == base_url_of(table) else None
    return _embedder(space, recorded, key)


def _embedder(space: Space, table: EmbeddingTable, api_key: SecretStr | None) -> Embedder:
    match table.provider:
        case "hashing":
            from indexer.embedding.hashing import HashingEmbedder

            return HashingEmbedder(space)
        case "local":
            from indexer.embedding.local import LocalEmbedder

            return LocalEmbedder(space)
        case "openai":
            from indexer.embedding.openai import Endpoint, OpenAIEmbedder

            return OpenAIEmbedder(
                space,
                Endpoint(
                    base_url=base_url_of(table),
                    model=space.model,
                    dimensions=table.dimensions,
                    api_key=api_key,
                    timeout_seconds=table.timeout_seconds,
                ),
            )
        case _:
            assert_never(table.provider)


def _probed_dimensions(table: EmbeddingTable) -> int:
    from indexer.embedding.openai import Endpoint

    endpoint = Endpoint(
        base_url=base_url_of(table),
        model=str(table.model),
        dimensions=None,
        api_key=table.api_key,
        timeout_seconds=table.timeout_seconds,
    )
    try:
        return endpoint.probe()
    finally:
        endpoint.close()


def _table_of(space: Space, table: EmbeddingTable) -> EmbeddingTable:
    settings = space.settings
    same_model = (table.provider, table.model) == (space.provider, settings.get("model"))
    return table.model_copy(
        update={
            "provider": space.provider,
            "model": settings.get("model"),
            "base_url": table.base_url if same_model else settings.get("base_url"),
            "dimensions": settings.get("dimensions"),
            "document_prefix": settings.get("document_prefix", ""),
            "query_prefix": settings.get("query_prefix", ""),
        }
    )


def _unmakable(space: Space) -> EmbedderRefused:
    return EmbedderRefused(
        f"The collection was embedded by {space.provider} with {space.model}, which this installation does not have; "
        "install the version that does, or let the collection be embedded anew.",
        provider=space.provider,
        space=space.space_id,
    )
