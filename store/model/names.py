"""Names, numbers and hashes: what everything else is called by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NewType

from store.errors import UriRejected

Namespace = NewType("Namespace", str)
CollectionName = NewType("CollectionName", str)
MAIN_COLLECTION = CollectionName("main")
"""Exists in every namespace: before its first document it is empty, not unknown."""
NAME_BYTES_MAX = 100
"""Of a namespace or a collection, in UTF-8."""
Uri = NewType("Uri", str)
RootName = NewType("RootName", str)

Version = NewType("Version", int)
"""Order of a document's states as the catalog assigned them: one rising counter a catalog, never a clock."""
Seq = NewType("Seq", int)
"""Number of a commit in the change log: one counter a catalog, without gaps."""
Fence = NewType("Fence", int)
"""Rising number of a lease on a document, checked at commit."""
SessionId = NewType("SessionId", str)
BuildId = NewType("BuildId", int)
Instant = NewType("Instant", float)
"""Seconds since 1970-01-01 UTC. For people and for patience, never for order."""

TextHash = NewType("TextHash", bytes)
"""xxh3-128 of a chunk's text (UTF-8), 16 bytes; hex at the doors, as the three below."""
ChunkId = NewType("ChunkId", bytes)
"""Hash of (document, text hash, n-th occurrence of that text in the document): stable wherever the chunk stands."""
InputHash = NewType("InputHash", bytes)
"""xxh3-128 of exactly what is sent to the embedder; equal to the text hash when no prefix is configured."""
ContentHash = NewType("ContentHash", bytes)
"""xxh3-128 of a document's bytes as fetched."""
RecipeId = NewType("RecipeId", str)
SpaceId = NewType("SpaceId", str)

Metadata = Mapping[str, Any]
"""JSON object: strings, numbers, booleans, null, and lists and objects of these."""

URI_BYTES_MAX = 1024
_SEGMENT = r"(?:[^/\u0000.][^/\u0000]*|\.[^/\u0000.][^/\u0000]*|\.\.[^/\u0000]+)"
URI_PATTERN = rf"^{_SEGMENT}(?:/{_SEGMENT})*$"
"""What `check_uri` takes, but for its length, as a regular expression of JSON Schema."""
METADATA_KEYS_MAX = 64
METADATA_BYTES_MAX = 16 * 1024
"""Of a document's own metadata, written as compact JSON."""


def check_uri(uri: str) -> Uri:
    """Returns `uri` when CONTRACTS allow it: no NUL, no empty, `.` or `..` segment, no leading `/`, at most 1,024 bytes of UTF-8.

    Raises UriRejected.
    """
    if not uri:
        raise UriRejected(uri=uri, reason="it is empty")
    if "\0" in uri:
        raise UriRejected(uri=uri, reason="it contains a NUL")
    try:
        uri_bytes = len(uri.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise UriRejected(uri=uri.encode("utf-8", "replace").decode(), reason="it is not valid UTF-8") from error
    if uri_bytes > URI_BYTES_MAX:
        raise UriRejected(uri=uri[:80] + "…", reason=f"it is longer than {URI_BYTES_MAX} bytes")
    for segment in uri.split("/"):
        if segment in ("", ".", ".."):
            raise UriRejected(uri=uri, reason=f"it has the segment {segment!r}")
    return Uri(uri)


@dataclass(frozen=True, slots=True, order=True)
class CollectionId:
    namespace: Namespace
    collection: CollectionName

    def document(self, uri: str) -> DocumentId:
        return DocumentId(self.namespace, self.collection, Uri(uri))


@dataclass(frozen=True, slots=True, order=True)
class DocumentId:
    """One addressable thing of a source. The doors call `check_uri` before one is built."""

    namespace: Namespace
    collection: CollectionName
    uri: Uri

    @property
    def home(self) -> CollectionId:
        return CollectionId(self.namespace, self.collection)
