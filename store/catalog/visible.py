"""What a reader sees of a chunk or document, from the rows an adapter holds. Pure, and the same for every adapter."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from store.model import Metadata, Placement, VisibleChunk, VisibleDocument

FILTERABLE_ALWAYS = ("document", "source", "title", "media_type", "headings", "page", "language", "version", "indexed_at")
OWN_KEY_PREFIX = "doc_"


def chunk_metadata(document: VisibleDocument, placement: Placement) -> dict[str, Any]:
    """The document's metadata, the chunk's own over it, and over both the always filterable fields that have a value.

    A key of the document's that bears the name of such a field is found under `doc_` and its name. `indexed_at` is RFC 3339 in UTC.
    """
    metadata = {OWN_KEY_PREFIX + key if key in FILTERABLE_ALWAYS else key: value for key, value in document.metadata.items()}
    metadata.update(placement.metadata)
    always = {
        "document": document.document.uri,
        "source": document.document.uri,
        "title": document.title,
        "media_type": document.media_type,
        "language": document.language,
        "version": document.version,
        "indexed_at": datetime.fromtimestamp(document.indexed_at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    metadata.update({key: value for key, value in always.items() if value is not None})
    return metadata


def visible_chunk(document: VisibleDocument, ordinal: int, stale: bool) -> VisibleChunk:
    """The chunk at `ordinal` of the document's layout, as a query returns it."""
    placement = document.layout.placements[ordinal]
    return VisibleChunk(
        chunk_id=placement.chunk_id,
        document=document.document,
        ordinal=ordinal,
        start=placement.start,
        end=placement.end,
        text=document.chunk_text(placement),
        metadata=chunk_metadata(document, placement),
        version=document.version,
        indexed_at=document.indexed_at,
        stale=stale,
        acl=document.acl,
    )


def with_own_metadata(metadata: Metadata, own_before: Metadata, own_after: Metadata) -> dict[str, Any]:
    """A version's metadata after its source's own metadata changed: the loader's part stays, the own part is replaced."""
    return {key: value for key, value in metadata.items() if key not in own_before} | dict(own_after)
