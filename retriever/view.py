"""What one query reads of a collection: vectors, keywords and facts at one position, standing still behind the replica's gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from retriever.facts import DocumentFacts
from store.keywords.pinned import Allowed
from store.keywords.tantivy_index import KeywordIndex
from store.model import Build, ChunkId, Position, Uri
from store.ports import RecordedVector
from store.vectors.replica import Block, Mask


@dataclass(frozen=True, slots=True)
class Admitted:
    """The chunks that a query may rank, as each engine wants to be told."""

    chunks: frozenset[ChunkId]
    keywords: Allowed
    """The same chunks with their documents: few of either are a quick way into the keyword index."""
    mask: Mask


@dataclass(slots=True)
class View:
    """All that one query needs, at one position. Valid while it is being read; only the replica changes it, when nobody reads."""

    position: Position
    build: Build
    vectors: Block
    keywords: KeywordIndex
    documents: dict[Uri, DocumentFacts]
    owners: dict[ChunkId, Uri] = field(default_factory=dict)
    """The document of every visible chunk, those without a vector included."""
    keys: dict[ChunkId, int] = field(default_factory=dict)
    """The number by which a mask over the vectors names a chunk; never given twice."""
    keys_given: int = 0
    admissions: dict[object, Admitted] = field(default_factory=dict)
    """What filters and principals let through at this position; gone with the next change."""

    def replace(self, uri: Uri, now: DocumentFacts | None) -> None:
        """Makes `now` what is known of the document; None: nothing."""
        self.admissions.clear()
        kept = now.chunk_fields if now is not None else {}
        if (before := self.documents.pop(uri, None)) is not None:
            for chunk_id in before.chunk_fields:
                del self.owners[chunk_id]
                if chunk_id not in kept:
                    self.keys.pop(chunk_id, None)
        if now is not None:
            self.documents[uri] = now
            self.owners.update(dict.fromkeys(kept, uri))

    def admitted(self, chunk_ids: frozenset[ChunkId]) -> Admitted:
        """The chunks with the vector rows that some of them have."""
        mask = self.vectors.view().mask_of(self.keys[chunk_id] for chunk_id in chunk_ids if chunk_id in self.keys)
        documents = frozenset(self.owners[chunk_id] for chunk_id in chunk_ids)
        return Admitted(chunk_ids, Allowed(chunk_ids, documents), mask)

    def keyed(self, rows: Iterable[RecordedVector]) -> Iterator[tuple[ChunkId, int, bytes]]:
        """The rows as the block takes them, each under a new key."""
        for row in rows:
            self.keys_given += 1
            self.keys[row.chunk_id] = self.keys_given
            yield row.chunk_id, self.keys_given, row.vector
