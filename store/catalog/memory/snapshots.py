"""Reading the memory catalog: positions, snapshots, and what people ask for. Nothing here writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection as Several
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from store.catalog.memory.tables import CollectionRow, DocumentRow, Tables, VersionRow
from store.catalog.visible import claim_status, page_of, place_of, visible_chunk
from store.errors import CursorLapsed, UnknownCollection
from store.model import (
    Build,
    Change,
    ChunkId,
    CollectionId,
    DocumentId,
    DocumentState,
    DocumentStatus,
    Position,
    Seq,
    VisibleChunk,
    VisibleDocument,
)
from store.ports import Changes, Counts, DocumentPage, RecordedVector, Snapshot, Tally


class MemoryReader:
    """Implements ports.CatalogReader."""

    _tables: Tables

    def position(self) -> Position:
        with self._tables.lock:
            return Position(self._tables.incarnation, self._tables.seq)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        tables = self._tables
        with tables.lock:
            collections = {home: replace(row) for home, row in tables.collections.items()}
            pinned = MemorySnapshot(tables, self.position(), collections, tables.log, tables.log_floor)
            tables.pins[tables.seq] += 1
        try:
            yield pinned
        finally:
            with tables.lock:
                tables.pins[pinned.position.seq] -= 1
                tables.pins += Counter()

    def tallies(self) -> list[Tally]:
        with self._tables.lock:
            return [Tally(name, labels, value) for (name, labels), value in sorted(self._tables.tallies.items())]

    def counts(self, home: CollectionId) -> Counts:
        tables = self._tables
        with tables.lock:
            tables.collection(home)
            rows = list(tables.documents_of(home))
            states = Counter(tables.state(row) for row in rows)
            states.update(DocumentState.CONFLICT for claim in tables.claims if claim.document.home == home)
            chunks = sum(status_of_row(tables, row).chunks for row in rows)
            waiting = (row.noticed_at for row in rows if tables.state(row) is DocumentState.PENDING)
            return Counts(dict(states), chunks, min(waiting, default=None))

    def documents(
        self, home: CollectionId, cursor: str | None = None, limit: int = 1000, states: Several[DocumentState] = ()
    ) -> DocumentPage:
        tables = self._tables
        with tables.lock:
            tables.collection(home)
            after = place_of(cursor)
            shown = (status_of_row(tables, row) for row in tables.documents_of(home) if row.document.uri > after[0])
            wanted = [status for status in shown if (status.state in states if states else status.state is not DocumentState.DELETED)]
            claims = claim_statuses(tables, home, after) if not states or DocumentState.CONFLICT in states else []
        return page_of(sorted(wanted, key=lambda status: status.document.uri), claims, limit)

    def status_of(self, document: DocumentId) -> DocumentStatus | None:
        with self._tables.lock:
            row = self._tables.documents.get(document)
            return None if row is None else status_of_row(self._tables, row)


def claim_statuses(tables: Tables, home: CollectionId, after: tuple[str, str]) -> list[DocumentStatus]:
    claims = [claim for claim in tables.claims if claim.document.home == home and (claim.document.uri, claim.root) > after]
    return [
        claim_status(claim.document, claim.root, tables.documents[claim.document].root, claim.noticed_at)
        for claim in sorted(claims, key=lambda claim: (claim.document.uri, claim.root))
    ]


def status_of_row(tables: Tables, row: DocumentRow) -> DocumentStatus:
    return DocumentStatus(
        document=row.document,
        state=tables.state(row),
        wanted_version=row.wanted_version,
        indexed_version=tables.indexed_version(row),
        chunks=len(tables.living_chunks(row.document, tables.collection(row.document.home).served.build_id)),
        root=row.root,
        noticed_at=row.noticed_at,
        attempts=row.attempts,
        retry_at=row.retry_at,
        code=row.code,
        message=row.message,
    )


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """Implements ports.Snapshot: rows with born <= seq < died of the builds that were served then; permissions are those of now."""

    _tables: Tables
    _position: Position
    _collections: Mapping[CollectionId, CollectionRow]
    _log: list[Change]
    _log_floor: Seq

    @property
    def position(self) -> Position:
        return self._position

    def changes(self, since: Position, home: CollectionId) -> Changes:
        if since.incarnation != self._position.incarnation or not self._log_floor <= since.seq <= self._position.seq:
            raise CursorLapsed(cursor=since.seq)
        born = self._collection(home).born
        rows = list(self.log(home, since))
        last = {row.document: row.seq for row in rows if row.document is not None}
        rebuild = since.seq < born or any(row.document is None for row in rows)
        return Changes(self._position, tuple(sorted(last, key=lambda document: last[document])), rebuild)

    def documents(self, home: CollectionId, only: Sequence[DocumentId] | None = None) -> Iterator[VisibleDocument]:
        build = self._build(home)
        with self._tables.lock:
            found = [self._document(document, build) for document in self._chosen(home, only)]
        return iter([document for document in found if document is not None])

    def vectors(self, home: CollectionId, only: Sequence[DocumentId] | None = None) -> Iterator[RecordedVector]:
        build = self._build(home)
        with self._tables.lock:
            return iter([vector for document in self._chosen(home, only) for vector in self._vectors_of(document, build)])

    def chunks(self, home: CollectionId, chunk_ids: Sequence[ChunkId]) -> list[VisibleChunk | None]:
        build = self._build(home)
        with self._tables.lock:
            return [self._chunk(chunk_id, home, build) for chunk_id in chunk_ids]

    def log(self, home: CollectionId, since: Position) -> Iterator[Change]:
        after = max(since.seq, self._collection(home).born)
        return iter([row for row in list(self._log) if row.home == home and after < row.seq <= self._position.seq])

    def _build(self, home: CollectionId) -> Build:
        return self._collection(home).served

    def _collection(self, home: CollectionId) -> CollectionRow:
        collection = self._collections.get(home)
        if collection is None:
            raise UnknownCollection(namespace=home.namespace, collection=home.collection)
        return collection

    def _chosen(self, home: CollectionId, only: Sequence[DocumentId] | None) -> list[DocumentId]:
        if only is None:
            build_id = self._build(home).build_id
            return sorted(document for document, of_build in self._tables.versions if of_build == build_id)
        return [document for document in only if document.home == home]

    def _is_visible(self, born: Seq, died: Seq | None) -> bool:
        return born <= self._position.seq and (died is None or died > self._position.seq)

    def _version(self, document: DocumentId, build: Build) -> VersionRow | None:
        rows = self._tables.versions.get((document, build.build_id), ())
        return next((row for row in rows if self._is_visible(row.born, row.died)), None)

    def _document(self, document: DocumentId, build: Build) -> VisibleDocument | None:
        version = self._version(document, build)
        if version is None:
            return None
        row = self._tables.documents.get(document)
        return VisibleDocument(
            document=document,
            version=version.version,
            title=version.title,
            media_type=version.media_type,
            language=version.language,
            metadata=version.shown_metadata,
            acl=row.acl if row is not None else None,
            indexed_at=version.indexed_at,
            text=version.text,
            layout=version.layout,
        )

    def _is_stale(self, document: DocumentId) -> bool:
        row = self._tables.documents.get(document)
        return row is not None and row.wanted_version > self._tables.indexed_version(row)

    def _vectors_of(self, document: DocumentId, build: Build) -> Iterator[RecordedVector]:
        for row in self._tables.chunks.get((document, build.build_id), ()):
            if self._is_visible(row.born, row.died):
                vector = self._tables.vectors[document.namespace, build.space.space_id, row.chunk.input_hash]
                yield RecordedVector(row.chunk.chunk_id, document, vector.vector)

    def _chunk(self, chunk_id: ChunkId, home: CollectionId, build: Build) -> VisibleChunk | None:
        for holder in self._tables.holders.get(chunk_id, ()):
            document = self._document(holder, build) if holder.home == home else None
            for ordinal, placement in enumerate(document.layout.placements if document is not None else ()):
                if document is not None and placement.chunk_id == chunk_id:
                    return visible_chunk(document, ordinal, stale=self._is_stale(holder))
        return None
