"""Claims in SQLite: files whose uri another root owns. They wait, oldest first, and take over when the owner's document leaves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from store.catalog.sqlite.keys import marks, next_number
from store.catalog.visible import claim_status
from store.model import (
    Cause,
    CollectionId,
    DocumentState,
    DocumentStatus,
    Instant,
    Present,
    RootName,
    Sighting,
    Signature,
    SourceKind,
    Urgency,
    Uri,
    Version,
)

Connection = sqlite3.Connection

_SIGNATURE = "bytes, mtime_ns, inode, device"


def claim(connection: Connection, root: sqlite3.Row, intent: Present) -> None:
    """Remembers that the root has a document of that uri, too. An upload is not remembered: whoever sent it was told.

    Noticed again it keeps its place in the line.
    """
    if root["kind"] == SourceKind.UPLOADS:
        return
    connection.execute(
        f"INSERT INTO claims (collection_key, uri, root_key, noticed_at, cause, {_SIGNATURE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET cause = excluded.cause, bytes = excluded.bytes, mtime_ns = excluded.mtime_ns,"
        " inode = excluded.inode, device = excluded.device",
        (root["collection_key"], intent.document.uri, root["root_key"], intent.noticed_at, intent.cause, *signed(intent.signature)),
    )


def signed(signature: Signature | None) -> tuple[int | None, ...]:
    """The columns of a signature."""
    return (None,) * 4 if signature is None else (signature.bytes, signature.mtime_ns, signature.inode, signature.device)


def withdraw(connection: Connection, collection_key: int, uri: str, root_key: int) -> None:
    connection.execute("DELETE FROM claims WHERE collection_key = ? AND uri = ? AND root_key = ?", (collection_key, uri, root_key))


def hand_over(connection: Connection, tombstone: sqlite3.Row, now: Instant) -> None:
    """The oldest claim of a live root becomes a wanted present, where there is one. The row is a tombstone by now."""
    heir = connection.execute(
        "SELECT k.* FROM claims k JOIN roots r USING (root_key) WHERE k.collection_key = ? AND k.uri = ? AND r.standing = 'live'"
        " ORDER BY k.claim_key LIMIT 1",
        (tombstone["collection_key"], tombstone["uri"]),
    ).fetchone()
    if heir is None:
        return
    connection.execute("DELETE FROM claims WHERE claim_key = ?", (heir["claim_key"],))
    connection.execute(
        "UPDATE documents SET root_key = ?, wanted = 1, wanted_version = ?, wants_work = 1, state = 'pending', urgency = ?, cause = ?,"
        " noticed_at = ?, renoticed_at = ?, bytes = ?, mtime_ns = ?, inode = ?, device = ? WHERE document_key = ?",
        (
            heir["root_key"],
            next_number(connection, "version"),
            Urgency.FRESH,
            Cause.CREATED,
            now,
            now,
            *(heir[column] for column in ("bytes", "mtime_ns", "inode", "device")),
            tombstone["document_key"],
        ),
    )


# --- reading ------------------------------------------------------------------------------------------------


def claim_sightings(connection: Connection, root_key: int, prefix: str) -> list[Sighting]:
    rows = connection.execute(
        f"SELECT uri, {_SIGNATURE} FROM claims WHERE root_key = ? AND substr(uri, 1, ?) = ? ORDER BY uri", (root_key, len(prefix), prefix)
    )
    return [
        Sighting(
            Uri(uri),
            DocumentState.CONFLICT,
            None if byte_count is None else Signature(byte_count, mtime_ns, inode, device),
            False,
            None,
            Version(0),
        )
        for uri, byte_count, mtime_ns, inode, device in rows
    ]


def claim_count(connection: Connection, collection_key: int) -> int:
    return int(connection.execute("SELECT count(*) FROM claims WHERE collection_key = ?", (collection_key,)).fetchone()[0])


def claim_statuses(
    connection: Connection, collection_key: int, home: CollectionId, after: tuple[str, str], limit: int
) -> Iterator[DocumentStatus]:
    """Claims after (uri, root), in that order."""
    rows = connection.execute(
        "SELECT k.uri, k.noticed_at, r.name, o.name AS owner FROM claims k JOIN roots r USING (root_key) JOIN documents d ON"
        " d.collection_key = k.collection_key AND d.uri = k.uri JOIN roots o ON o.root_key = d.root_key"
        " WHERE k.collection_key = ?1 AND k.uri >= ?2 AND (k.uri > ?2 OR r.name > ?3) ORDER BY k.uri, r.name LIMIT ?4",
        (collection_key, *after, limit),
    )
    for uri, noticed_at, name, owner in rows:
        yield claim_status(home.document(uri), RootName(name), RootName(owner), Instant(noticed_at))


def forget_claims(connection: Connection, root_key: int, rows_max: int) -> int:
    """Some claims of a root that is being removed; returns how many."""
    keys = [row[0] for row in connection.execute("SELECT claim_key FROM claims WHERE root_key = ? LIMIT ?", (root_key, rows_max))]
    return _delete(connection, keys)


def _delete(connection: Connection, keys: Sequence[int]) -> int:
    return connection.execute(f"DELETE FROM claims WHERE claim_key IN ({marks(keys)})", keys).rowcount if keys else 0
