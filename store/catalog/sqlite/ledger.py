"""Intents in SQLite: what is wanted, what is pending, what leaves at once.

A deletion is committed here, by the transaction that records it: no worker takes part, and every lease on the document is
worth nothing afterwards.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import assert_never

from store.catalog.sqlite.belongings import await_acl, describe, encode_json, give_belongings, wanted_acl
from store.catalog.sqlite.claims import claim, claim_sightings, signed, withdraw
from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import (
    collection_row,
    document_row,
    need_collection,
    next_number,
    target_build,
)
from store.catalog.sqlite.moves import find_moved, move
from store.catalog.sqlite.tombs import add_tallies, bury, row_by_key, stay
from store.catalog.turns import take_turns
from store.catalog.visible import FAULTS_CODE
from store.errors import Misuse
from store.model import (
    Absent,
    Cause,
    CollectionId,
    CollectionName,
    Described,
    DocumentId,
    DocumentState,
    Held,
    Ignored,
    Instant,
    Intent,
    Namespace,
    PendingDocument,
    Present,
    Root,
    RootName,
    Seen,
    Sighting,
    Signature,
    Urgency,
    Uri,
    Version,
)
from store.ports import Tally

INTENTS_A_TRANSACTION_MAX = 500

_WAITING_COLLECTIONS = (
    "WITH RECURSIVE waiting (collection_key) AS (SELECT min(collection_key) FROM documents WHERE wants_work = 1 UNION ALL"
    " SELECT (SELECT min(d.collection_key) FROM documents d WHERE d.wants_work = 1 AND d.collection_key > waiting.collection_key)"
    " FROM waiting WHERE collection_key IS NOT NULL)"
    " SELECT c.collection_key, n.name AS namespace, c.name AS collection FROM waiting JOIN collections c USING (collection_key)"
    " JOIN namespaces n USING (namespace_key)"
)
"""Collections with documents that want work, by one look into the index each: those that rest cost nothing."""

Connection = sqlite3.Connection


class SqliteLedger:
    """Implements ports.Ledger."""

    _database: Database

    def record(self, intents: Sequence[Intent]) -> list[Version | None]:
        versions: list[Version | None] = []
        batch: Batch | None = None
        for start in range(0, len(intents), INTENTS_A_TRANSACTION_MAX):
            with self._database.write() as connection:
                now = self._database.clock.now()
                batch = read_batch(connection, intents) if batch is None else batch
                for intent in intents[start : start + INTENTS_A_TRANSACTION_MAX]:
                    versions.append(record_intent(connection, intent, now, batch))
        return versions

    def pending(self, limit: int, now: Instant) -> list[PendingDocument]:
        with self._database.pinned() as connection:
            collections = connection.execute(_WAITING_COLLECTIONS).fetchall()
            waiting = [row for collection in collections for row in waiting_rows(connection, collection, limit, now)]
        return take_turns(waiting)[:limit]

    def sightings(self, root: Root, prefix: str = "") -> Iterable[Sighting]:
        with self._database.read() as connection:
            collection = collection_row(connection, root.home)
            known = None if collection is None else find_root(connection, collection, root.name)
            if known is None:
                return []
            rows = connection.execute(
                "SELECT uri, state, bytes, mtime_ns, inode, device, proven, content_hash, wanted_version FROM documents"
                " WHERE root_key = ? AND state <> 'deleted' AND moving_to IS NULL AND substr(uri, 1, ?) = ? ORDER BY uri",
                (known["root_key"], len(prefix), prefix),
            ).fetchall()
            claimed = claim_sightings(connection, known["root_key"], prefix)
        owned = [
            Sighting(
                Uri(uri),
                DocumentState(state),
                None if byte_count is None else Signature(byte_count, mtime_ns, inode, device),
                bool(proven),
                content_hash,
                Version(wanted_version),
            )
            for uri, state, byte_count, mtime_ns, inode, device, proven, content_hash, wanted_version in rows
        ]
        return list(merge(owned, claimed, key=lambda sighting: sighting.uri)) if claimed else owned

    def retry(self, documents: Sequence[DocumentId] | None, home: CollectionId, now: Instant) -> int:
        with self._database.write() as connection:
            collection = need_collection(connection, home)
            where, values = "", []
            if documents is not None:
                where = f" AND uri IN ({','.join('?' * len(documents))})"
                values = [document.uri for document in documents]
            rows = connection.execute(
                f"SELECT document_key FROM documents WHERE collection_key = ? AND state = 'quarantined'{where}",
                (collection["collection_key"], *values),
            ).fetchall()
            for (document_key,) in rows:
                connection.execute(
                    "UPDATE documents SET state = 'pending', wants_work = 1, attempts = 0, retry_at = NULL, code = NULL, message = NULL,"
                    " cause = 'retried', urgency = ?, wanted_version = ?, renoticed_at = ? WHERE document_key = ?",
                    (Urgency.URGENT, next_number(connection, "version"), now, document_key),
                )
        return len(rows)

    def add_tallies(self, tallies: Sequence[Tally]) -> None:
        with self._database.write(durable=False) as connection:
            add_tallies(connection, tallies)


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a document takes along when it is renamed: its source's own metadata (as JSON) and its permissions."""

    own_metadata: str | None
    acl: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What the intents of one call say together: names may swap."""

    targets: frozenset[tuple[DocumentId, RootName]]
    """What the batch wants present, and for which root."""
    belongings: Mapping[DocumentId, Belongings]
    """Of the documents that the batch moves, as they were before it."""

    def leaves(self, intent: Present) -> DocumentId | None:
        """What leaves its uri with the intent. A batch is simultaneous: what it wants present, too (a swap, a rotation), stays, and
        the move is a copy, which costs no embedding either."""
        return None if (intent.moved_from, intent.root) in self.targets else intent.moved_from


def read_batch(connection: Connection, intents: Sequence[Intent]) -> Batch:
    presents = [intent for intent in intents if isinstance(intent, Present)]
    moved = {intent.moved_from: document_row(connection, intent.moved_from) for intent in presents if intent.moved_from is not None}
    belongings = {document: belongings_of(row) for document, row in moved.items() if row is not None}
    return Batch(frozenset((intent.document, intent.root) for intent in presents), belongings)


def belongings_of(row: sqlite3.Row) -> Belongings:
    return Belongings(row["own_metadata"], wanted_acl(row))


def waiting_rows(connection: Connection, collection: sqlite3.Row, limit: int, now: Instant) -> list[PendingDocument]:
    home = CollectionId(Namespace(collection["namespace"]), CollectionName(collection["collection"]))
    rows = connection.execute(
        "SELECT uri, wanted_version, noticed_at, urgency, cause, attempts FROM documents d"
        " WHERE collection_key = ? AND wants_work = 1 AND (retry_at IS NULL OR retry_at <= ?)"
        " AND (session_id IS NULL OR NOT EXISTS"
        " (SELECT 1 FROM sessions s WHERE s.session_id = d.session_id AND s.beat_at > ? - d.lease_seconds))"
        " ORDER BY urgency, noticed_at, document_key LIMIT ?",
        (collection["collection_key"], now, now, limit),
    )
    return [
        PendingDocument(home.document(uri), Version(version), Instant(noticed_at), Urgency(urgency), Cause(cause), attempts)
        for uri, version, noticed_at, urgency, cause, attempts in rows
    ]


def record_intent(connection: Connection, intent: Intent, now: Instant, batch: Batch) -> Version | None:
    match intent:
        case Present():
            return record_present(connection, intent, now, batch)
        case Absent():
            return record_absent(connection, intent, now)
        case Ignored():
            return record_ignored(connection, intent, now)
        case Held():
            return record_held(connection, intent)
        case Seen():
            return record_seen(connection, intent)
        case Described():
            return record_described(connection, intent, now)
        case _:
            assert_never(intent)


def record_present(connection: Connection, intent: Present, now: Instant, batch: Batch) -> Version | None:
    collection = need_collection(connection, intent.document.home)
    root = need_root(connection, collection, intent.root)
    if root["standing"] != "live":
        return None
    root_key = root["root_key"]
    row = document_row(connection, intent.document)
    if row is not None and row["root_key"] != root_key and row["state"] not in (DocumentState.DELETED, DocumentState.IGNORED):
        record_claim(connection, intent, collection, root, now, batch)
        return None
    if row is None:
        row = insert_blank(connection, collection, root_key, intent)
    elif is_wanted_already(row, intent):
        give_belongings(connection, row, collection, intent, now)
        return Version(row["wanted_version"])
    stay(connection, row)
    old = find_moved(connection, intent, root_key)
    before = belongings_of(row) if old is None else _belongings_of(batch, intent, old)
    leaving = batch.leaves(intent)
    if leaving is not None:
        withdraw(connection, collection["collection_key"], leaving.uri, root_key)
        if old is not None:
            move(connection, old, row, collection, now)
    version = notice(connection, row, root_key, intent, before)
    await_acl(connection, row, collection, version, before.acl, intent.acl, now)
    return version


def record_claim(connection: Connection, intent: Present, collection: sqlite3.Row, root: sqlite3.Row, now: Instant, batch: Batch) -> None:
    """The file waits for the uri's owner. What it was renamed from is gone, whatever became of its new name."""
    claim(connection, root, intent)
    leaving = batch.leaves(intent)
    if leaving is None:
        return
    withdraw(connection, collection["collection_key"], leaving.uri, root["root_key"])
    old = find_moved(connection, intent, root["root_key"])
    if old is not None:
        bury(connection, old, collection, now)


def _belongings_of(batch: Batch, intent: Present, old: sqlite3.Row) -> Belongings:
    assert intent.moved_from is not None
    return batch.belongings.get(intent.moved_from, belongings_of(old))


def find_root(connection: Connection, collection: sqlite3.Row, name: str) -> sqlite3.Row | None:
    """The root that has the name now, else the last one that had it."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM roots WHERE collection_key = ? AND name = ? ORDER BY standing = 'left', root_key DESC LIMIT 1",
        (collection["collection_key"], name),
    ).fetchone()
    return row


def need_root(connection: Connection, collection: sqlite3.Row, name: str) -> sqlite3.Row:
    found = find_root(connection, collection, name)
    if found is None:
        raise Misuse(f"There is no root {name!r}; register it first.")
    return found


def insert_blank(connection: Connection, collection: sqlite3.Row, root_key: int, intent: Present | Ignored) -> sqlite3.Row:
    row: sqlite3.Row = connection.execute(
        "INSERT INTO documents (collection_key, uri, root_key, wanted, wanted_version, wants_work, state, urgency, cause, noticed_at,"
        " renoticed_at) VALUES (?, ?, ?, 0, 0, 0, 'deleted', ?, 'created', ?, ?) RETURNING *",
        (collection["collection_key"], intent.document.uri, root_key, Urgency.BULK, intent.noticed_at, intent.noticed_at),
    ).fetchone()
    return row


def is_wanted_already(row: sqlite3.Row, intent: Present) -> bool:
    return (
        intent.content_hash is not None
        and intent.moved_from is None
        and bool(row["wanted"])
        and row["wanted_hash"] == intent.content_hash
        and intent.media_type in (None, row["media_type"])
        and row["code"] in (None, FAULTS_CODE)
        and row["state"] in (DocumentState.PENDING, DocumentState.INDEXED, DocumentState.EMPTY)
    )


def notice(connection: Connection, row: sqlite3.Row, root_key: int, intent: Present, before: Belongings) -> Version:
    """The document is wanted at a new version; the oldest unserved notice and the most urgent one go on counting."""
    version = next_number(connection, "version")
    unserved = bool(row["wants_work"]) and row["wanted_version"] > row["indexed_version"]
    connection.execute(
        "UPDATE documents SET root_key = ?, wanted = 1, wanted_version = ?, wants_work = 1, state = 'pending', urgency = ?, cause = ?,"
        " noticed_at = ?, renoticed_at = CASE renoticed_at WHEN 0 THEN ? ELSE renoticed_at END,"
        " attempts = 0, retry_at = NULL, wanted_hash = ?,"
        f" message = CASE code WHEN '{FAULTS_CODE}' THEN message END, code = CASE code WHEN '{FAULTS_CODE}' THEN code END,"
        " bytes = ?, mtime_ns = ?, inode = ?, device = ?, proven = 0, own_metadata = ?, media_type = ? WHERE document_key = ?",
        (
            root_key,
            version,
            min(intent.urgency, row["urgency"]) if unserved else intent.urgency,
            intent.cause,
            min(row["noticed_at"], intent.noticed_at) if unserved else intent.noticed_at,
            intent.noticed_at,
            intent.content_hash,
            *signed(intent.signature),
            before.own_metadata if intent.metadata is None else encode_json(intent.metadata),
            intent.media_type or (row["media_type"] if is_same_content(row, intent) else None),
            row["document_key"],
        ),
    )
    return Version(version)


def is_same_content(row: sqlite3.Row, intent: Present) -> bool:
    return bool(row["wanted"]) and intent.content_hash is not None and row["wanted_hash"] == intent.content_hash


# --- deletions and the others -------------------------------------------------------------------------------


def record_absent(connection: Connection, intent: Absent, now: Instant) -> Version | None:
    row = document_row(connection, intent.document)
    if row is None or row["state"] == DocumentState.DELETED:
        return None
    collection = need_collection(connection, intent.document.home)
    if intent.root is not None:
        root_key = need_root(connection, collection, intent.root)["root_key"]
        if row["root_key"] != root_key:
            withdraw(connection, collection["collection_key"], row["uri"], root_key)
            return None
    return bury(connection, row, collection, now)


def record_ignored(connection: Connection, intent: Ignored, now: Instant) -> Version | None:
    collection = need_collection(connection, intent.document.home)
    root = need_root(connection, collection, intent.root)
    if root["standing"] != "live":
        return None
    root_key = root["root_key"]
    row = document_row(connection, intent.document)
    if row is not None and row["root_key"] != root_key and row["state"] != DocumentState.DELETED:
        withdraw(connection, collection["collection_key"], row["uri"], root_key)
        return None
    if row is None:
        row = insert_blank(connection, collection, root_key, intent)
    elif row["state"] != DocumentState.DELETED:
        bury(connection, row, collection, now)
        if row_by_key(connection, row["document_key"])["wanted"]:
            return None
    connection.execute(
        "UPDATE documents SET state = 'ignored', root_key = ?, code = 'ignored', message = ?, bytes = ?, mtime_ns = ?, inode = ?,"
        " device = ? WHERE document_key = ?",
        (
            root_key,
            intent.reason,
            *signed(intent.signature),
            row["document_key"],
        ),
    )
    return None


def record_held(connection: Connection, intent: Held) -> Version | None:
    row = document_row(connection, intent.document)
    if row is not None and row["wanted"]:
        connection.execute(
            "UPDATE documents SET state = 'held', wants_work = 0, code = 'held', message = ? WHERE document_key = ?",
            (intent.reason, row["document_key"]),
        )
    return None


def record_seen(connection: Connection, intent: Seen) -> Version | None:
    row = document_row(connection, intent.document)
    if row is None or not (row["wanted"] or row["state"] == DocumentState.IGNORED):
        return None
    signature = intent.signature
    connection.execute(
        "UPDATE documents SET bytes = ?, mtime_ns = ?, inode = ?, device = ?, proven = ? WHERE document_key = ?",
        (signature.bytes, signature.mtime_ns, signature.inode, signature.device, intent.proven, row["document_key"]),
    )
    if row["state"] == DocumentState.HELD:
        collection = need_collection(connection, intent.document.home)
        settle_state(connection, row["document_key"], target_build(collection))
    return None


def record_described(connection: Connection, intent: Described, now: Instant) -> Version | None:
    row = document_row(connection, intent.document)
    if row is None or row["state"] == DocumentState.DELETED:
        return None
    collection = need_collection(connection, intent.document.home)
    describe(connection, row, collection, intent, now)
    if row["moving_to"] is not None:
        describe(connection, row_by_key(connection, row["moving_to"]), collection, intent, now)
    return Version(row["wanted_version"])


def settle_state(connection: Connection, document_key: int, target: int) -> None:
    """Sets state and wants_work to what the versions say, once nothing else explains the document."""
    connection.execute(
        "UPDATE documents SET code = NULL, message = NULL,"
        " wants_work = (wanted = 1 AND (wanted_version > indexed_version OR build_key IS NOT ?1)),"
        " state = CASE WHEN wanted_version > indexed_version OR build_key IS NOT ?1 THEN 'pending' ELSE served_state END"
        " WHERE document_key = ?2",
        (target, document_key),
    )
