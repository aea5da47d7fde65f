"""What a reader sees of a chunk or document, from the rows an adapter holds. Pure, and the same for every adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from store.errors import MetadataRejected
from store.model import METADATA_BYTES_MAX, METADATA_KEYS_MAX, Metadata, Placement, VisibleChunk, VisibleDocument

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


def patched_metadata(own: Metadata, patch: Metadata | None) -> dict[str, Any]:
    """A source's own metadata after a merge patch (RFC 7396). Raises MetadataRejected when there would be too much of it."""
    patched: dict[str, Any] = {} if patch is None else _merged(own, patch)
    if len(patched) > METADATA_KEYS_MAX:
        raise MetadataRejected(reason=f"it would have {len(patched)} keys; the limit is {METADATA_KEYS_MAX}")
    metadata_bytes = len(json.dumps(patched, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    if metadata_bytes > METADATA_BYTES_MAX:
        raise MetadataRejected(reason=f"it would have {metadata_bytes} bytes; the limit is {METADATA_BYTES_MAX}")
    return patched


def _merged(target: Metadata, patch: Metadata) -> dict[str, Any]:
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = _merged(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def with_changed_metadata(metadata: Metadata, own_before: Metadata, own_after: Metadata) -> dict[str, Any]:
    """A version's metadata after its source's own changed, whichever own metadata the version was made with: what did not change stays."""
    changed = {key: value for key, value in own_after.items() if key not in own_before or own_before[key] != value}
    return {key: value for key, value in metadata.items() if key not in own_before or key in own_after} | changed
