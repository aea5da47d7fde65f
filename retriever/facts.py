"""What a replica knows of a document besides its vectors: enough to admit or leave out its chunks before anything is ranked. Pure.

The text is not kept here; a hit's text is read from the catalog in the last step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from store.catalog.visible import chunk_metadata
from store.model import ChunkId, DocumentId, Metadata, Placement, Version, VisibleDocument

EVERYBODY = "*"
_NO_PLACE = Placement(ChunkId(b""), 0, 0)
"""A chunk without anything of its own: its metadata is what all chunks of a document share."""


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """A visible document as of the replica's position."""

    document: DocumentId
    version: Version
    acl: tuple[str, ...] | None
    title: str | None
    fields: Metadata
    """What filters see of every chunk of the document."""
    chunk_fields: Mapping[ChunkId, Metadata]
    """The chunks in their order, each with what is its own (headings, page): over `fields` when a filter looks."""
    own_names: frozenset[str]
    """Every name in `chunk_fields`: a filter that names none of them is asked once for all chunks."""

    def fields_of(self, chunk_id: ChunkId) -> Metadata:
        own = self.chunk_fields[chunk_id]
        return {**self.fields, **own} if own else self.fields

    def headings_of(self, chunk_id: ChunkId) -> tuple[str, ...]:
        return headings_in(self.chunk_fields[chunk_id])


def facts_of(document: VisibleDocument) -> DocumentFacts:
    return DocumentFacts(
        document=document.document,
        version=document.version,
        acl=document.acl,
        title=document.title,
        fields=chunk_metadata(document, _NO_PLACE),
        chunk_fields={placement.chunk_id: placement.metadata for placement in document.layout.placements},
        own_names=frozenset(name for placement in document.layout.placements for name in placement.metadata),
    )


def headings_in(metadata: Metadata) -> tuple[str, ...]:
    headings = metadata.get("headings")
    return tuple(str(heading) for heading in headings) if isinstance(headings, list | tuple) else ()


def permits(acl: Collection[str] | None, principals: Collection[str]) -> bool:
    """Whether one of `principals` may read a document: without an ACL it is nobody's, `["*"]` is everybody's."""
    return acl is not None and (EVERYBODY in acl or any(principal in acl for principal in principals))
