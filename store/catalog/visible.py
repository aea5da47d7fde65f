"""What a reader sees of a chunk or document, from the rows an adapter holds. Pure, and the same for every adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from typing import Any

from store.errors import MetadataRejected, OwnedBySource
from store.model import (
    METADATA_BYTES_MAX,
    METADATA_KEYS_MAX,
    DocumentId,
    DocumentState,
    DocumentStatus,
    Fault,
    Instant,
    Metadata,
    Placement,
    RootName,
    Version,
    VisibleChunk,
    VisibleDocument,
)
from store.ports import DocumentPage

FILTERABLE_ALWAYS = ("document", "source", "title", "media_type", "headings", "page", "language", "version", "indexed_at")
OWN_KEY_PREFIX = "doc_"
CURSOR_MARK = "//"
"""Between the uri and the claimant of a page's last row: no uri has it."""


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


def patched_metadata(own: Metadata, patch: Metadata | None) -> dict[str, Any]:
    """A source's own metadata after a merge patch (RFC 7396). Raises MetadataRejected when there would be too much of it."""
    patched: dict[str, Any] = {} if patch is None else merged_patch(own, patch)
    if len(patched) > METADATA_KEYS_MAX:
        raise MetadataRejected(reason=f"it would have {len(patched)} keys; the limit is {METADATA_KEYS_MAX}")
    metadata_bytes = len(json.dumps(patched, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    if metadata_bytes > METADATA_BYTES_MAX:
        raise MetadataRejected(reason=f"it would have {metadata_bytes} bytes; the limit is {METADATA_BYTES_MAX}")
    return patched


def merged_patch(target: Metadata, patch: Metadata) -> dict[str, Any]:
    """RFC 7396."""
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = merged_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def narrowed(served: tuple[str, ...] | None, wanted: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Who may read a text under its own permissions and under those that its document gets with the next: no one new, no one old."""
    if served is None or wanted is None:
        return None
    if "*" in wanted:
        return served
    return wanted if "*" in served else tuple(principal for principal in wanted if principal in served)


FAULTS_CODE = "loaded_with_faults"
FAULTS_SHOWN_MAX = 3


def remark_of(faults: Sequence[Fault]) -> tuple[str | None, str | None]:
    """Code and message of a row whose document is indexed, but not all of it: the first faults, and how many more there are."""
    if not faults:
        return None, None
    shown = " ".join(fault.message for fault in faults[:FAULTS_SHOWN_MAX])
    more = len(faults) - FAULTS_SHOWN_MAX
    return FAULTS_CODE, shown if more <= 0 else f"{shown} (And {more} more.)"


# --- ledger rows for people ---------------------------------------------------------------------------------


def claim_status(document: DocumentId, root: RootName, owner: RootName, noticed_at: Instant) -> DocumentStatus:
    """The row of a file whose uri another root owns."""
    error = OwnedBySource(document=document.uri, owner=owner)
    return DocumentStatus(
        document, DocumentState.CONFLICT, Version(0), Version(0), 0, root, noticed_at, code=error.code, message=error.message
    )


def page_of(owned: Sequence[DocumentStatus], claims: Sequence[DocumentStatus], limit: int) -> DocumentPage:
    """The first `limit` rows of both, a document's claims after it. Each is in its order, and complete up to `limit`."""
    rows = tuple(islice(merge(owned, claims, key=_place) if claims else owned, limit))
    if not rows or len(rows) < limit:
        return DocumentPage(rows, None)
    uri, claimant = _place(rows[-1])
    return DocumentPage(rows, uri + CURSOR_MARK + claimant if claimant else uri)


def place_of(cursor: str | None) -> tuple[str, str]:
    """(uri, claimant) after which a page begins; a document itself comes before its claims."""
    uri, _, root = (cursor or "").partition(CURSOR_MARK)
    return uri, root


def _place(status: DocumentStatus) -> tuple[str, str]:
    return status.document.uri, status.root if status.state is DocumentState.CONFLICT else ""
