"""A ledger row as the outside gets it: over HTTP and from `documents --json` alike. Pure, and imports no web framework."""

from __future__ import annotations

from typing import Any

from store.model import DocumentStatus


def document_json(status: DocumentStatus) -> dict[str, Any]:
    """`version` is the indexed one; `code` and `message` say why a document is not indexed."""
    return {
        "document": status.document.uri,
        "state": status.state.value,
        "code": status.code,
        "message": status.message,
        "version": status.indexed_version,
        "chunks": status.chunks,
        "wanted_version": status.wanted_version,
        "attempts": status.attempts,
        "root": status.root,
    }
