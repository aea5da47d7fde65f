"""Intents in SQLite: what is wanted, what is pending, what leaves at once.

A deletion is committed here, by the transaction that records it: no worker takes part, and every lease on the document is
worth nothing afterwards.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import (
    document_row,
    home_of,
    need_collection,
    next_number,
    root_of,
    target_build,
)
from store.catalog.tallying import outcome_tallies
from store.catalog.visible import with_own_metadata
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
        batch: Batch | None = None
        for start in range(0, len(intents), INTENTS_A_TRANSACTION_MAX):
            with self._database.write() as connection:
                now = self._database.clock.now()
                batch = read_batch(connection, intents) if batch is None else batch
                for intent in intents[start : start + INTENTS_A_TRANSACTION_MAX]:
                    versions.append(record_intent(connection, intent, now, batch))
        return versions

    def pending(self, limit: int, now: Instant) -> list[PendingDocument]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT n.name AS namespace, c.name AS collection, d.uri, d.wanted_version, d.noticed_at, d.urgency, d.cause, d.attempts"
                " FROM documents d JOIN collections c USING (collection_key) JOIN namespaces n USING (namespace_key)"
                " WHERE d.wants_work = 1 AND (d.retry_at IS NULL OR d.retry_at <= ?)"
                " AND (d.session_id IS NULL OR NOT EXISTS"
                " (SELECT 1 FROM sessions s WHERE s.session_id = d.session_id AND s.beat_at > ? - d.lease_seconds))"
                " ORDER BY d.urgency, d.noticed_at, d.document_key LIMIT ?",
                (now, now, limit),
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


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a document takes along when it is renamed: its source's own metadata and its permissions, as JSON."""

    own_metadata: str | None
    acl: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What the intents of one call say together: names may swap."""

    targets: frozenset[DocumentId]
    """Documents that the batch wants present."""
    belongings: Mapping[DocumentId, Belongings]
    """Of the documents that the batch moves, as they were before it."""


def read_batch(connection: Connection, intents: Sequence[Intent]) -> Batch:
    presents = [intent for intent in intents if isinstance(intent, Present)]
    moved = {intent.moved_from: document_row(connection, intent.moved_from) for intent in presents if intent.moved_from is not None}
    belongings = {document: Belongings(row["own_metadata"], row["acl"]) for document, row in moved.items() if row is not None}
    return Batch(frozenset(intent.document for intent in presents), belongings)


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
        case _:
            assert_never(intent)


def record_present(connection: Connection, intent: Present, now: Instant, batch: Batch) -> Version | None:
    collection = need_collection(connection, intent.document.home)
    root_key = need_root(connection, collection, intent.root)
    row = document_row(connection, intent.document)
    if row is not None and row["root_key"] != root_key and row["state"] not in (DocumentState.DELETED, DocumentState.IGNORED):
        return None
    if row is None:
        row = insert_blank(connection, collection, root_key, intent)
    elif is_wanted_already(row, intent):
        give_belongings(connection, row, collection, intent, now)
        return Version(row["wanted_version"])
    stay(connection, row)
    old = find_moved(connection, intent)
    before = Belongings(row["own_metadata"], row["acl"])
    if old is not None:
        before = _belongings_of(batch, intent, old)
        move(connection, old, row, collection, now, batch)
    version = notice(connection, row, root_key, intent, before)
    permit(connection, row, collection, before.acl if intent.acl is None else json.dumps(intent.acl), now)
    return version


def _belongings_of(batch: Batch, intent: Present, old: sqlite3.Row) -> Belongings:
    assert intent.moved_from is not None
    return batch.belongings.get(intent.moved_from, Belongings(old["own_metadata"], old["acl"]))


def need_root(connection: Connection, collection: sqlite3.Row, name: str) -> int:
    found = connection.execute(
        "SELECT root_key FROM roots WHERE collection_key = ? AND name = ?", (collection["collection_key"], name)
    ).fetchone()
    if found is None:
        raise Misuse(f"There is no root {name!r}; register it first.")
    return int(found[0])


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
        and row["code"] is None
        and row["state"] in (DocumentState.PENDING, DocumentState.INDEXED, DocumentState.EMPTY)
    )


def notice(connection: Connection, row: sqlite3.Row, root_key: int, intent: Present, before: Belongings) -> Version:
    """The document is wanted at a new version; the oldest unserved notice and the most urgent one go on counting."""
    version = next_number(connection, "version")
    unserved = bool(row["wants_work"]) and row["wanted_version"] > row["indexed_version"]
    signature = intent.signature
    connection.execute(
        "UPDATE documents SET root_key = ?, wanted = 1, wanted_version = ?, wants_work = 1, state = 'pending', urgency = ?, cause = ?,"
        " noticed_at = ?, renoticed_at = ?, attempts = 0, retry_at = NULL, code = NULL, message = NULL, wanted_hash = ?,"
        " bytes = ?, mtime_ns = ?, inode = ?, device = ?, proven = 0, own_metadata = ? WHERE document_key = ?",
        (
            root_key,
            version,
            min(intent.urgency, row["urgency"]) if unserved else intent.urgency,
            intent.cause,
            min(row["noticed_at"], intent.noticed_at) if unserved else intent.noticed_at,
            intent.noticed_at,
            intent.content_hash,
            *((None,) * 4 if signature is None else (signature.bytes, signature.mtime_ns, signature.inode, signature.device)),
            before.own_metadata if intent.metadata is None else encode_json(intent.metadata),
            row["document_key"],
        ),
    )
    return Version(version)


# --- metadata and permissions -------------------------------------------------------------------------------


def give_belongings(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, intent: Present, now: Instant) -> None:
    """Metadata and permissions of a document whose content stays. What is served changes at once; a worker that was handed the
    metadata before is refused and reads it again."""
    before = decode_json(row["own_metadata"])
    if intent.metadata is not None and dict(intent.metadata) != before:
        connection.execute(
            "UPDATE documents SET own_metadata = ? WHERE document_key = ?", (encode_json(intent.metadata), row["document_key"])
        )
        if row["session_id"] is not None:
            free(connection, row["document_key"])
        if row["indexed_version"] >= row["wanted_version"]:
            rewrite_metadata(connection, row, collection, before, intent.metadata, now)
    if intent.acl is not None:
        permit(connection, row, collection, json.dumps(intent.acl), now)


def rewrite_metadata(
    connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, before: Metadata, after: Metadata, now: Instant
) -> None:
    """The same version with other metadata is born: text, layout and chunks stay."""
    seq = log_metadata(connection, row, collection, now)
    columns = "document_key, build_key, version, title, media_type, language, content_hash, layout, text_key, indexed_at"
    for version in connection.execute(
        "SELECT version_key, metadata FROM versions WHERE document_key = ? AND died IS NULL", (row["document_key"],)
    ).fetchall():
        merged = encode_json(with_own_metadata(decode_json(version["metadata"]), before, after))
        connection.execute("UPDATE versions SET died = ? WHERE version_key = ?", (seq, version["version_key"]))
        connection.execute(
            f"INSERT INTO versions ({columns}, born, metadata) SELECT {columns}, ?, ? FROM versions WHERE version_key = ?",
            (seq, merged, version["version_key"]),
        )


def permit(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, acl: str | None, now: Instant) -> None:
    if acl == row["acl"]:
        return
    connection.execute("UPDATE documents SET acl = ? WHERE document_key = ?", (acl, row["document_key"]))
    if is_visible(connection, row["document_key"]):
        log_metadata(connection, row, collection, now)


def log_metadata(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, now: Instant) -> int:
    seq = next_number(connection, "seq")
    connection.execute(
        "INSERT INTO changes (seq, at, kind, collection_key, document_key, version) VALUES (?, ?, ?, ?, ?, ?)",
        (seq, now, ChangeKind.METADATA, collection["collection_key"], row["document_key"], row["indexed_version"]),
    )
    return seq


# --- moves --------------------------------------------------------------------------------------------------


def find_moved(connection: Connection, intent: Present) -> sqlite3.Row | None:
    """The ledger's row of what was renamed; None when nothing was, or when the old name is not known to hold anything."""
    if intent.moved_from is None or intent.moved_from == intent.document:
        return None
    old = document_row(connection, intent.moved_from)
    return old if old is not None and (old["wanted"] or old["moving_to"] is not None) else None


def move(connection: Connection, old: sqlite3.Row, row: sqlite3.Row, collection: sqlite3.Row, now: Instant, batch: Batch) -> None:
    """Lets `row` take over what `old` shows; a chain a -> b -> c collapses to a -> c.

    A batch is simultaneous: a uri that the same batch wants present (a swap, a rotation) stays, and the move is a copy, which
    costs no embedding either.
    """
    home = home_of(connection, collection["collection_key"])
    if home.document(old["uri"]) in batch.targets:
        return
    if old["moved_from"] is not None:
        start = row_by_key(connection, old["moved_from"])
        stay(connection, start)
        bury(connection, row_by_key(connection, old["document_key"]), collection, now)
        let_leave(connection, start, row_by_key(connection, row["document_key"]), collection, now)
    elif is_visible(connection, old["document_key"]):
        let_leave(connection, old, row_by_key(connection, row["document_key"]), collection, now)
    else:
        bury(connection, old, collection, now)


def let_leave(connection: Connection, origin: sqlite3.Row, row: sqlite3.Row, collection: sqlite3.Row, now: Instant) -> None:
    """`origin` stays served and wants nothing until the commit of `row` takes it away. What `row` waited for before leaves now."""
    stay(connection, origin)
    if row["moved_from"] not in (None, origin["document_key"]):
        bury(connection, row_by_key(connection, row["moved_from"]), collection, now)
    connection.execute("UPDATE documents SET moved_from = ? WHERE document_key = ?", (origin["document_key"], row["document_key"]))
    connection.execute(
        "UPDATE documents SET wanted = 0, wants_work = 0, moving_to = ?, state = served_state, code = NULL, message = NULL"
        " WHERE document_key = ?",
        (row["document_key"], origin["document_key"]),
    )
    free(connection, origin["document_key"])


def stay(connection: Connection, row: sqlite3.Row) -> None:
    """The document does not leave for another uri any more: the other one becomes a copy."""
    connection.execute("UPDATE documents SET moved_from = NULL WHERE moved_from = ?", (row["document_key"],))
    connection.execute("UPDATE documents SET moving_to = NULL WHERE document_key = ?", (row["document_key"],))


def free(connection: Connection, document_key: int) -> None:
    """Makes any lease on the document worthless."""
    connection.execute(
        "UPDATE documents SET fence = ?, session_id = NULL WHERE document_key = ?", (next_number(connection, "fence"), document_key)
    )


def row_by_key(connection: Connection, document_key: int) -> sqlite3.Row:
    row: sqlite3.Row = connection.execute("SELECT * FROM documents WHERE document_key = ?", (document_key,)).fetchone()
    return row


# --- deletions and the others -------------------------------------------------------------------------------


def record_absent(connection: Connection, intent: Absent, now: Instant) -> Version | None:
    row = document_row(connection, intent.document)
    if row is None or row["state"] == DocumentState.DELETED:
        return None
    collection = need_collection(connection, intent.document.home)
    return bury(connection, row, collection, now)


def record_ignored(connection: Connection, intent: Ignored, now: Instant) -> Version | None:
    collection = need_collection(connection, intent.document.home)
    root_key = need_root(connection, collection, intent.root)
    row = document_row(connection, intent.document)
    if row is not None and row["root_key"] != root_key and row["state"] != DocumentState.DELETED:
        return None
    if row is None:
        row = insert_blank(connection, collection, root_key, intent)
    elif row["state"] != DocumentState.DELETED:
        bury(connection, row, collection, now)
    signature = intent.signature
    connection.execute(
        "UPDATE documents SET state = 'ignored', root_key = ?, code = 'ignored', message = ?, bytes = ?, mtime_ns = ?, inode = ?,"
        " device = ? WHERE document_key = ?",
        (
            root_key,
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
    """The deletion of a document, and of the one it waits to be moved from: rows die, the tombstone outranks work in flight."""
    stay(connection, row)
    if row["moved_from"] is not None:
        connection.execute("UPDATE documents SET moving_to = NULL WHERE document_key = ?", (row["moved_from"],))
    version = entomb(connection, row["document_key"])
    if is_visible(connection, row["document_key"]):
        seq = next_number(connection, "seq")
        dropped = die(connection, row["document_key"], seq, int(collection["served_build"]))
        connection.execute(
            "INSERT INTO changes (seq, at, kind, collection_key, document_key, version, dropped) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (seq, now, ChangeKind.DELETED, collection["collection_key"], row["document_key"], version, dropped),
        )
        if counted:
            add_tallies(connection, outcome_tallies("deleted"))
    if row["moved_from"] is not None:
        bury(connection, row_by_key(connection, row["moved_from"]), collection, now)
    return version


def entomb(connection: Connection, document_key: int) -> Version:
    """Makes the ledger row a tombstone; what is visible of the document is the caller's business."""
    version = next_number(connection, "version")
    connection.execute(
        "UPDATE documents SET wanted = 0, wanted_version = ?1, indexed_version = ?1, wants_work = 0, state = 'deleted',"
        " served_state = NULL, attempts = 0, retry_at = NULL, code = NULL, message = NULL, bytes = NULL, mtime_ns = NULL,"
        " inode = NULL, device = NULL, proven = 0, content_hash = NULL, wanted_hash = NULL, own_metadata = NULL, acl = NULL,"
        " moved_from = NULL, moving_to = NULL WHERE document_key = ?2",
        (version, document_key),
    )
    free(connection, document_key)
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


def decode_json(encoded: str | None) -> dict[str, object]:
    decoded: dict[str, object] = {} if encoded is None else json.loads(encoded)
    return decoded
