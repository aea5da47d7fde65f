"""Reading the SQLite catalog: positions, snapshots, and what people ask for. Nothing here writes.

A snapshot is a read transaction: it sees the head at its start, so a row is visible when it has not died.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Collection as Several
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from store.catalog.layouts import decode_layout
from store.catalog.sqlite.belongings import decode_acl, decode_json
from store.catalog.sqlite.claims import claim_count, claim_statuses
from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import collection_row, marks, need_collection, slices, status_of
from store.catalog.sqlite.leases import document_by_key
from store.catalog.visible import page_of, place_of, visible_chunk
from store.errors import CursorLapsed, UnknownCollection
from store.model import (
    Change,
    ChangeKind,
    ChunkId,
    CollectionId,
    DocumentId,
    DocumentState,
    DocumentStatus,
    Instant,
    Position,
    Seq,
    Uri,
    Version,
    VisibleChunk,
    VisibleDocument,
)
from store.ports import Changes, Counts, DocumentPage, RecordedVector, Snapshot, Tally

DECODED_CHARACTERS_MAX = 16_000_000
"""Characters of decoded document versions kept for the next query."""
_VERSIONS = (
    "SELECT v.*, d.uri, d.acl, d.wanted_version, t.text FROM versions v JOIN documents d USING (document_key) JOIN texts t USING (text_key)"
)


class DecodedVersions:
    """Decoded document versions by (key, born): of a row only the permissions change, and a key that is used again is born later."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, int], VisibleDocument] = OrderedDict()
        self._characters = 0
        self._lock = Lock()

    def get(self, version_key: tuple[int, int]) -> VisibleDocument | None:
        with self._lock:
            document = self._kept.get(version_key)
            if document is not None:
                self._kept.move_to_end(version_key)
            return document

    def keep(self, version_key: tuple[int, int], document: VisibleDocument) -> None:
        with self._lock:
            before = self._kept.pop(version_key, None)
            self._characters -= 0 if before is None else len(before.text)
            self._kept[version_key] = document
            self._characters += len(document.text)
            while self._characters > DECODED_CHARACTERS_MAX and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._characters -= len(oldest.text)


class SqliteReader:
    """Implements ports.CatalogReader."""

    _database: Database
    _decoded: DecodedVersions

    def position(self) -> Position:
        with self._database.read() as connection:
            return read_position(connection)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        with self._database.pinned() as connection:
            yield SqliteSnapshot(connection, read_position(connection), self._decoded)

    def tallies(self) -> list[Tally]:
        with self._database.read() as connection:
            rows = connection.execute("SELECT name, labels, value FROM tallies ORDER BY name, labels").fetchall()
        return [Tally(name, tuple((label, value) for label, value in json.loads(labels)), value) for name, labels, value in rows]

    def counts(self, home: CollectionId) -> Counts:
        with self._database.pinned() as connection:
            collection = need_collection(connection, home)
            key = collection["collection_key"]
            states = connection.execute("SELECT state, count(*) FROM documents WHERE collection_key = ? GROUP BY state", (key,)).fetchall()
            claims = claim_count(connection, key)
            chunks = connection.execute(
                "SELECT count(*) FROM chunks WHERE build_key = ? AND died IS NULL", (collection["served_build"],)
            ).fetchone()[0]
            oldest = connection.execute(
                "SELECT min(noticed_at) FROM documents WHERE collection_key = ? AND state = 'pending'", (key,)
            ).fetchone()[0]
        counted = {DocumentState(state): count for state, count in states} | ({DocumentState.CONFLICT: claims} if claims else {})
        return Counts(counted, chunks, None if oldest is None else Instant(oldest))

    def documents(
        self, home: CollectionId, cursor: str | None = None, limit: int = 1000, states: Several[DocumentState] = ()
    ) -> DocumentPage:
        with self._database.read() as connection:
            collection = need_collection(connection, home)
            key, after = collection["collection_key"], place_of(cursor)
            wanted = [str(state) for state in states]
            where = f"d.state IN ({marks(wanted)})" if wanted else "d.state <> 'deleted'"
            rows = connection.execute(
                f"{_STATUS} WHERE d.collection_key = ? AND d.uri > ? AND {where} ORDER BY d.uri LIMIT ?",
                (collection["served_build"], key, after[0], *wanted, limit),
            ).fetchall()
            with_claims = not wanted or DocumentState.CONFLICT in states
            claims = list(claim_statuses(connection, key, home, after, limit)) if with_claims else []
        return page_of([status_of(row, home) for row in rows], claims, limit)

    def status_of(self, document: DocumentId) -> DocumentStatus | None:
        with self._database.read() as connection:
            collection = collection_row(connection, document.home)
            if collection is None:
                return None
            row = connection.execute(
                f"{_STATUS} WHERE d.collection_key = ? AND d.uri = ?",
                (collection["served_build"], collection["collection_key"], document.uri),
            ).fetchone()
            return None if row is None else status_of(row, document.home)


_STATUS = (
    "SELECT d.*, r.name AS root_name, (SELECT count(*) FROM chunks k WHERE k.document_key = d.document_key AND k.build_key = ?"
    " AND k.died IS NULL) AS chunks FROM documents d JOIN roots r USING (root_key)"
)


def read_position(connection: sqlite3.Connection) -> Position:
    incarnation, seq = connection.execute("SELECT incarnation, seq FROM meta").fetchone()
    return Position(incarnation, Seq(seq))


@dataclass(slots=True)
class SqliteSnapshot:
    """Implements ports.Snapshot over one open read transaction."""

    _connection: sqlite3.Connection
    _position: Position
    _decoded: DecodedVersions

    @property
    def position(self) -> Position:
        return self._position

    def changes(self, since: Position, home: CollectionId) -> Changes:
        floor = self._connection.execute("SELECT log_floor FROM meta").fetchone()[0]
        if since.incarnation != self._position.incarnation or not floor <= since.seq <= self._position.seq:
            raise CursorLapsed(cursor=since.seq)
        collection = need_collection(self._connection, home)
        rows = self._connection.execute(
            "SELECT h.document_key, d.uri, max(h.seq) AS last FROM changes h LEFT JOIN documents d USING (document_key)"
            " WHERE h.collection_key = ? AND h.seq > ? GROUP BY h.document_key ORDER BY last",
            (collection["collection_key"], since.seq),
        ).fetchall()
        documents = tuple(home.document(row["uri"]) for row in rows if row["document_key"] is not None)
        return Changes(self._position, documents, rebuild=len(documents) < len(rows) or since.seq < collection["born"])

    def documents(self, home: CollectionId, only: Sequence[DocumentId] | None = None) -> Iterator[VisibleDocument]:
        collection = need_collection(self._connection, home)
        where = f"{_VERSIONS} WHERE d.collection_key = ? AND v.build_key = ? AND v.died IS NULL"
        keys = (collection["collection_key"], collection["served_build"])
        if only is None:
            for row in self._connection.execute(f"{where} ORDER BY d.uri", keys):
                yield self._document(row, home)
            return
        for document in only:
            row = self._connection.execute(f"{where} AND d.uri = ?", (*keys, document.uri)).fetchone()
            if row is not None:
                yield self._document(row, home)

    def vectors(self, home: CollectionId, only: Sequence[DocumentId] | None = None) -> Iterator[RecordedVector]:
        collection = need_collection(self._connection, home)
        chosen = "SELECT k.chunk_id, d.uri, v.vector FROM chunks k JOIN documents d USING (document_key) JOIN vectors v USING (vector_key)"
        where = f"{chosen} WHERE k.build_key = ? AND k.died IS NULL"
        if only is None:
            for chunk_id, uri, vector in self._connection.execute(f"{where} ORDER BY k.chunk_key", (collection["served_build"],)):
                yield RecordedVector(chunk_id, home.document(uri), vector)
            return
        for document in only:
            rows = self._connection.execute(
                f"{where} AND d.collection_key = ? AND d.uri = ? ORDER BY k.chunk_key",
                (collection["served_build"], collection["collection_key"], document.uri),
            )
            for chunk_id, _, vector in rows:
                yield RecordedVector(chunk_id, document, vector)

    def chunks(self, home: CollectionId, chunk_ids: Sequence[ChunkId]) -> list[VisibleChunk | None]:
        collection = collection_row(self._connection, home)
        if collection is None:
            raise UnknownCollection(namespace=home.namespace, collection=home.collection)
        holders: dict[bytes, int] = {}
        for part in slices(chunk_ids):
            rows = self._connection.execute(
                f"SELECT chunk_id, document_key FROM chunks WHERE chunk_id IN ({marks(part)}) AND build_key = ? AND died IS NULL",
                (*part, collection["served_build"]),
            )
            holders.update((chunk_id, document_key) for chunk_id, document_key in rows)
        versions = {key: self._held_by(key, collection["served_build"], home) for key in set(holders.values())}
        return [self._chunk(chunk_id, versions.get(holders.get(chunk_id, 0))) for chunk_id in chunk_ids]

    def log(self, home: CollectionId, since: Position) -> Iterator[Change]:
        collection = need_collection(self._connection, home)
        rows = self._connection.execute(
            "SELECT * FROM changes WHERE collection_key = ? AND seq > ? ORDER BY seq", (collection["collection_key"], since.seq)
        )
        for row in rows:
            yield change_of(self._connection, row, home)

    def _held_by(self, document_key: int, build_key: int, home: CollectionId) -> tuple[VisibleDocument, bool] | None:
        """The document's visible version, and whether its source is known to hold something newer."""
        light = self._connection.execute(
            "SELECT v.version_key, v.born, d.indexed_version, d.wanted_version, d.acl FROM versions v JOIN documents d USING (document_key)"
            " WHERE v.document_key = ? AND v.build_key = ? AND v.died IS NULL",
            (document_key, build_key),
        ).fetchone()
        if light is None:
            return None
        document = self._decoded.get((light["version_key"], light["born"]))
        if document is None or document.acl != decode_acl(light["acl"]):
            row = self._connection.execute(f"{_VERSIONS} WHERE v.version_key = ?", (light["version_key"],)).fetchone()
            document = self._document(row, home)
            self._decoded.keep((light["version_key"], light["born"]), document)
        return document, light["wanted_version"] > light["indexed_version"]

    def _chunk(self, chunk_id: ChunkId, held: tuple[VisibleDocument, bool] | None) -> VisibleChunk | None:
        if held is None:
            return None
        document, stale = held
        for ordinal, placement in enumerate(document.layout.placements):
            if placement.chunk_id == chunk_id:
                return visible_chunk(document, ordinal, stale=stale)
        return None

    def _document(self, row: sqlite3.Row, home: CollectionId) -> VisibleDocument:
        return VisibleDocument(
            document=DocumentId(home.namespace, home.collection, Uri(row["uri"])),
            version=Version(row["version"]),
            title=row["title"],
            media_type=row["media_type"],
            language=row["language"],
            metadata=decode_json(row["metadata"]) | decode_json(row["own_metadata"]),
            acl=decode_acl(row["acl"]),
            indexed_at=Instant(row["indexed_at"]),
            text=zlib.decompress(row["text"]).decode("utf-8"),
            layout=decode_layout(row["layout"]),
        )


def change_of(connection: sqlite3.Connection, row: sqlite3.Row, home: CollectionId) -> Change:
    return Change(
        seq=Seq(row["seq"]),
        at=Instant(row["at"]),
        kind=ChangeKind(row["kind"]),
        home=home,
        document=None if row["document_key"] is None else document_by_key(connection, row["document_key"]),
        version=Version(row["version"]),
        first=bool(row["first"]),
        moved_from=None if row["moved_from"] is None else document_by_key(connection, row["moved_from"]),
        added=row["added"],
        kept=row["kept"],
        moved=row["moved"],
        dropped=row["dropped"],
        embedded=row["embedded"],
        reused=row["reused"],
    )
