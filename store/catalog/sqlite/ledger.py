"""Intents in SQLite: what is wanted, what is pending, what leaves at once.

A deletion is committed here, by the transaction that records it: no worker takes part, and every lease on the document is
worth nothing afterwards.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection as Several
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import (
    document_row,
    need_collection,
    next_number,
    root_of,
    target_build,
)
from store.catalog.tallying import outcome_tallies
from store.errors import Misuse
from store.model import (
    Absent,
    Cause,
    ChangeKind,
    CollectionId,
    CollectionName,
    DocumentId,
    DocumentState,
    Held,
    Ignored,
    Instant,
    Intent,
    Metadata,
    Namespace,
    PendingDocument,
    Present,
    Root,
    Seen,
    Sighting,
    Signature,
    Urgency,
    Uri,
    Version,
)
from store.ports import Tally

INTENTS_A_TRANSACTION_MAX = 500

Connection = sqlite3.Connection


class SqliteLedger:
    """Implements ports.Ledger and ports.Roots."""

    _database: Database

    def record(self, intents: Sequence[Intent]) -> list[Version | None]:
        versions: list[Version | None] = []
        targets = {intent.document for intent in intents if isinstance(intent, Present)}
        for start in range(0, len(intents), INTENTS_A_TRANSACTION_MAX):
            with self._database.write() as connection:
                now = self._database.clock.now()
                for intent in intents[start : start + INTENTS_A_TRANSACTION_MAX]:
                    versions.append(record_intent(connection, intent, now, targets))
        return versions

    def pending(self, limit: int, now: Instant) -> list[PendingDocument]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT n.name AS namespace, c.name AS collection, d.uri, d.wanted_version, d.noticed_at, d.urgency, d.cause, d.attempts"
                " FROM documents d JOIN collections c USING (collection_key) JOIN namespaces n USING (namespace_key)"
                " WHERE d.wants_work = 1 AND (d.retry_at IS NULL OR d.retry_at <= ?)"
                " AND (d.session_id IS NULL OR NOT EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = d.session_id))"
                " ORDER BY d.urgency, d.noticed_at, d.document_key LIMIT ?",
                (now, limit),
            ).fetchall()
        return [
            PendingDocument(
                DocumentId(Namespace(row["namespace"]), CollectionName(row["collection"]), Uri(row["uri"])),
                Version(row["wanted_version"]),
                Instant(row["noticed_at"]),
                Urgency(row["urgency"]),
                Cause(row["cause"]),
                row["attempts"],
            )
            for row in rows
        ]

    def sightings(self, root: Root, prefix: str = "") -> Iterable[Sighting]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT d.uri, d.state, d.bytes, d.mtime_ns, d.inode, d.device, d.proven, d.content_hash, d.wanted_version"
                " FROM documents d JOIN roots r USING (root_key) JOIN collections c ON c.collection_key = r.collection_key"
                " JOIN namespaces n USING (namespace_key)"
                " WHERE n.name = ? AND c.name = ? AND r.name = ? AND d.state <> 'deleted' AND d.moving_to IS NULL"
                " AND substr(d.uri, 1, ?) = ? ORDER BY d.uri",
                (root.home.namespace, root.home.collection, root.name, len(prefix), prefix),
            ).fetchall()
        return [
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

    def roots(self, home: CollectionId | None = None) -> list[Root]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT r.*, n.name AS namespace, c.name AS collection FROM roots r JOIN collections c USING (collection_key)"
                " JOIN namespaces n USING (namespace_key) ORDER BY r.root_key"
            ).fetchall()
        found = [root_of(row, CollectionId(Namespace(row["namespace"]), CollectionName(row["collection"]))) for row in rows]
        return [root for root in found if home is None or root.home == home]

    def ensure_root(self, root: Root) -> Root:
        path = root.path.encode("utf-8", "surrogateescape")
        with self._database.write() as connection:
            collection_key = need_collection(connection, root.home)["collection_key"]
            row = connection.execute("SELECT * FROM roots WHERE collection_key = ? AND path = ?", (collection_key, path)).fetchone()
            if row is None:
                taken = connection.execute(
                    "SELECT path FROM roots WHERE collection_key = ? AND (name = ? OR prefix = ?)", (collection_key, root.name, root.prefix)
                ).fetchone()
                if taken is not None:
                    other = bytes(taken["path"]).decode("utf-8", "replace")
                    raise Misuse(f"The root {root.name!r} is already the folder {other}; give this one another name: NAME={root.path}.")
                connection.execute(
                    "INSERT INTO roots (collection_key, name, kind, path, prefix, device) VALUES (?, ?, ?, ?, ?, ?)",
                    (collection_key, root.name, root.kind, path, root.prefix, root.device),
                )
                return root
            if root.device is not None and row["device"] is None:
                row = connection.execute(
                    "UPDATE roots SET device = ? WHERE root_key = ? RETURNING *", (root.device, row["root_key"])
                ).fetchone()
            return root_of(row, root.home)


def record_intent(connection: Connection, intent: Intent, now: Instant, targets: Several[DocumentId] = ()) -> Version | None:
    """Records one intent of a batch; `targets` are the documents that the batch wants present (names may swap)."""
    match intent:
        case Present():
            return record_present(connection, intent, now, targets)
        case Absent():
            return record_absent(connection, intent, now)
        case Ignored():
            return record_ignored(connection, intent, now)
        case Held():
            return record_held(connection, intent)
        case Seen():
            return record_seen(connection, intent)
        case _:
            assert_never(intent)


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a document inherits when its intent does not bring it: the metadata and permissions of what it was moved from."""

    own_metadata: str | None
    acl: str | None


def record_present(connection: Connection, intent: Present, now: Instant, targets: Several[DocumentId]) -> Version | None:
    collection = need_collection(connection, intent.document.home)
    root = connection.execute(
        "SELECT root_key FROM roots WHERE collection_key = ? AND name = ?", (collection["collection_key"], intent.root)
    ).fetchone()
    if root is None:
        raise Misuse(f"There is no root {intent.root!r}; register it first.")
    row = document_row(connection, intent.document)
    if row is not None and row["root_key"] != root["root_key"] and row["state"] not in (DocumentState.DELETED, DocumentState.IGNORED):
        return None
    if row is None:
        row = _insert_blank(connection, collection, root["root_key"], intent)
    elif _is_wanted_already(row, intent):
        _give_belongings(connection, row["document_key"], _belongings(intent, row, None))
        return Version(row["wanted_version"])
    _stay(connection, row)
    source = _moving_source(connection, intent, row, targets)
    version = next_number(connection, "version")
    unserved = bool(row["wants_work"])
    belongings = _belongings(intent, row, source)
    signature = intent.signature
    connection.execute(
        "UPDATE documents SET root_key = ?, wanted = 1, wanted_version = ?, wants_work = 1, state = 'pending', urgency = ?, cause = ?,"
        " noticed_at = ?, renoticed_at = ?, attempts = 0, retry_at = NULL, code = NULL, message = NULL, wanted_hash = ?,"
        " bytes = ?, mtime_ns = ?, inode = ?, device = ?, proven = 0, own_metadata = ?, acl = ?, moved_from = ?, moving_to = NULL"
        " WHERE document_key = ?",
        (
            root["root_key"],
            version,
            min(intent.urgency, row["urgency"]) if unserved else intent.urgency,
            intent.cause,
            min(row["noticed_at"], intent.noticed_at) if unserved else intent.noticed_at,
            intent.noticed_at,
            intent.content_hash,
            *((None,) * 4 if signature is None else (signature.bytes, signature.mtime_ns, signature.inode, signature.device)),
            belongings.own_metadata,
            belongings.acl,
            row["moved_from"] if source is None else source["document_key"],
            row["document_key"],
        ),
    )
    if source is not None:
        _let_leave(connection, source, row, collection, now)
    return Version(version)


def _insert_blank(connection: Connection, collection: sqlite3.Row, root_key: int, intent: Present | Ignored) -> sqlite3.Row:
    row: sqlite3.Row = connection.execute(
        "INSERT INTO documents (collection_key, uri, root_key, wanted, wanted_version, wants_work, state, urgency, cause, noticed_at,"
        " renoticed_at) VALUES (?, ?, ?, 0, 0, 0, 'deleted', ?, 'created', ?, ?) RETURNING *",
        (collection["collection_key"], intent.document.uri, root_key, Urgency.BULK, intent.noticed_at, intent.noticed_at),
    ).fetchone()
    return row


def _is_wanted_already(row: sqlite3.Row, intent: Present) -> bool:
    return (
        intent.content_hash is not None
        and bool(row["wanted"])
        and row["wanted_hash"] == intent.content_hash
        and row["state"] in (DocumentState.PENDING, DocumentState.INDEXED, DocumentState.EMPTY)
    )


def _belongings(intent: Present, row: sqlite3.Row, source: sqlite3.Row | None) -> Belongings:
    before = row if source is None else source
    return Belongings(
        before["own_metadata"] if intent.metadata is None else encode_json(intent.metadata),
        before["acl"] if intent.acl is None else json.dumps(intent.acl),
    )


def _give_belongings(connection: Connection, document_key: int, belongings: Belongings) -> None:
    connection.execute(
        "UPDATE documents SET own_metadata = ?, acl = ? WHERE document_key = ?", (belongings.own_metadata, belongings.acl, document_key)
    )


def _stay(connection: Connection, row: sqlite3.Row) -> None:
    """A document that was about to leave for another uri is wanted where it stands: the other one becomes a copy."""
    if row["moving_to"] is not None:
        connection.execute("UPDATE documents SET moved_from = NULL WHERE document_key = ?", (row["moving_to"],))


def _moving_source(connection: Connection, intent: Present, row: sqlite3.Row, targets: Several[DocumentId]) -> sqlite3.Row | None:
    """The visible document that the move really starts from; a chain a -> b -> c collapses to a -> c.

    A batch is simultaneous: a visible uri that the same batch wants present again (a swap, a rotation) stays, and the move is
    a copy, which costs no embedding either.
    """
    if intent.moved_from is None or intent.moved_from == intent.document:
        return None
    old = document_row(connection, intent.moved_from)
    if old is None or not (old["wanted"] or old["moving_to"] is not None):
        return None
    if is_visible(connection, old["document_key"]):
        return None if intent.moved_from in targets else old
    bury_silently(connection, old)
    if old["moved_from"] is None or old["moved_from"] == row["document_key"]:
        return None
    origin: sqlite3.Row = connection.execute("SELECT * FROM documents WHERE document_key = ?", (old["moved_from"],)).fetchone()
    return origin


def _let_leave(connection: Connection, source: sqlite3.Row, row: sqlite3.Row, collection: sqlite3.Row, now: Instant) -> None:
    if source["moving_to"] is not None and source["moving_to"] != row["document_key"]:
        connection.execute("UPDATE documents SET moved_from = NULL WHERE document_key = ?", (source["moving_to"],))
    if row["moved_from"] is not None and row["moved_from"] != source["document_key"]:
        bury_by_key(connection, row["moved_from"], collection, now)
    if source["moved_from"] is not None and source["moved_from"] != row["document_key"]:
        bury_by_key(connection, source["moved_from"], collection, now)
    connection.execute(
        "UPDATE documents SET wanted = 0, wants_work = 0, moving_to = ?, moved_from = NULL, fence = ?, session_id = NULL"
        " WHERE document_key = ?",
        (row["document_key"], next_number(connection, "fence"), source["document_key"]),
    )


def record_absent(connection: Connection, intent: Absent, now: Instant) -> Version | None:
    row = document_row(connection, intent.document)
    if row is None or row["state"] == DocumentState.DELETED:
        return None
    collection = need_collection(connection, intent.document.home)
    return bury(connection, row, collection, now)


def record_ignored(connection: Connection, intent: Ignored, now: Instant) -> Version | None:
    collection = need_collection(connection, intent.document.home)
    root = connection.execute(
        "SELECT root_key FROM roots WHERE collection_key = ? AND name = ?", (collection["collection_key"], intent.root)
    ).fetchone()
    if root is None:
        raise Misuse(f"There is no root {intent.root!r}; register it first.")
    row = document_row(connection, intent.document)
    if row is not None and row["root_key"] != root["root_key"] and row["state"] != DocumentState.DELETED:
        return None
    if row is None:
        row = _insert_blank(connection, collection, root["root_key"], intent)
    elif row["state"] != DocumentState.DELETED:
        bury(connection, row, collection, now)
    signature = intent.signature
    connection.execute(
        "UPDATE documents SET state = 'ignored', root_key = ?, code = 'ignored', message = ?, bytes = ?, mtime_ns = ?, inode = ?,"
        " device = ? WHERE document_key = ?",
        (
            root["root_key"],
            intent.reason,
            *((None,) * 4 if signature is None else (signature.bytes, signature.mtime_ns, signature.inode, signature.device)),
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


def settle_state(connection: Connection, document_key: int, target: int) -> None:
    """Sets state and wants_work to what the versions say, once nothing else explains the document."""
    connection.execute(
        "UPDATE documents SET code = NULL, message = NULL,"
        " wants_work = (wanted = 1 AND (wanted_version > indexed_version OR build_key IS NOT ?1)),"
        " state = CASE WHEN wanted_version > indexed_version THEN 'pending' ELSE served_state END WHERE document_key = ?2",
        (target, document_key),
    )


def is_visible(connection: Connection, document_key: int) -> bool:
    row = connection.execute("SELECT 1 FROM versions WHERE document_key = ? AND died IS NULL LIMIT 1", (document_key,)).fetchone()
    return row is not None


def bury(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, now: Instant, *, counted: bool = True) -> Version:
    """The deletion of a document: its rows die, its tombstone outranks every work in flight. A source it was moved from leaves too."""
    if row["moved_from"] is not None:
        bury_by_key(connection, row["moved_from"], collection, now)
    _stay(connection, row)
    version = bury_silently(connection, row)
    if is_visible(connection, row["document_key"]):
        seq = next_number(connection, "seq")
        dropped = die(connection, row["document_key"], seq, int(collection["served_build"]))
        connection.execute(
            "INSERT INTO changes (seq, at, kind, collection_key, document_key, version, dropped) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (seq, now, ChangeKind.DELETED, collection["collection_key"], row["document_key"], version, dropped),
        )
        if counted:
            add_tallies(connection, outcome_tallies("deleted"))
    return version


def bury_by_key(connection: Connection, document_key: int, collection: sqlite3.Row, now: Instant) -> None:
    row = connection.execute("SELECT * FROM documents WHERE document_key = ?", (document_key,)).fetchone()
    if row is not None:
        bury(connection, row, collection, now)


def bury_silently(connection: Connection, row: sqlite3.Row) -> Version:
    """Makes the ledger row a tombstone; what is visible of the document is the caller's business."""
    version = next_number(connection, "version")
    connection.execute(
        "UPDATE documents SET wanted = 0, wanted_version = ?1, indexed_version = ?1, wants_work = 0, state = 'deleted',"
        " served_state = NULL,"
        " attempts = 0, retry_at = NULL, code = NULL, message = NULL, bytes = NULL, mtime_ns = NULL, inode = NULL, device = NULL,"
        " proven = 0, content_hash = NULL, wanted_hash = NULL, own_metadata = NULL, acl = NULL, moved_from = NULL, moving_to = NULL,"
        " session_id = NULL, fence = ?2 WHERE document_key = ?3",
        (version, next_number(connection, "fence"), row["document_key"]),
    )
    return Version(version)


def die(connection: Connection, document_key: int, seq: int, served_build: int) -> int:
    """All that is visible of the document dies at `seq`; returns how many chunks of the served build."""
    connection.execute("UPDATE versions SET died = ? WHERE document_key = ? AND died IS NULL", (seq, document_key))
    dropped = connection.execute(
        "SELECT count(*) FROM chunks WHERE document_key = ? AND died IS NULL AND build_key = ?", (document_key, served_build)
    ).fetchone()[0]
    connection.execute("UPDATE chunks SET died = ? WHERE document_key = ? AND died IS NULL", (seq, document_key))
    return int(dropped)


def add_tallies(connection: Connection, tallies: Iterable[Tally]) -> None:
    connection.executemany(
        "INSERT INTO tallies (name, labels, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
        [(tally.name, json.dumps(tally.labels), tally.value) for tally in tallies if tally.value],
    )


def encode_json(metadata: Metadata) -> str:
    return json.dumps(dict(metadata), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
