"""Metadata and permissions in SQLite: what is served changes in the transaction that records it, and needs no worker."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

from store.catalog.sqlite.keys import next_number
from store.catalog.sqlite.tombs import free, is_visible
from store.catalog.visible import patched_metadata, with_changed_metadata, with_own_metadata
from store.model import ChangeKind, Described, Instant, Metadata, Present, Unset

Connection = sqlite3.Connection


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
            after = intent.metadata
            rewrite_metadata(connection, row, collection, now, lambda metadata: with_own_metadata(metadata, before, after))
    if intent.acl is not None:
        permit(connection, row, collection, json.dumps(intent.acl), now)


def describe(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, intent: Described, now: Instant) -> None:
    """What is visible changes at once, an older version, too; a worker that was handed the metadata before is refused."""
    before = decode_json(row["own_metadata"])
    after = before if isinstance(intent.metadata, Unset) else patched_metadata(before, intent.metadata)
    if after != before:
        connection.execute("UPDATE documents SET own_metadata = ? WHERE document_key = ?", (encode_json(after), row["document_key"]))
        if row["session_id"] is not None:
            free(connection, row["document_key"])
        if is_visible(connection, row["document_key"]):
            rewrite_metadata(connection, row, collection, now, lambda metadata: with_changed_metadata(metadata, before, after))
    if not isinstance(intent.acl, Unset):
        permit(connection, row, collection, None if intent.acl is None else json.dumps(intent.acl), now)


def rewrite_metadata(
    connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, now: Instant, rewritten: Callable[[Metadata], Metadata]
) -> None:
    """The same version with other metadata is born: text, layout and chunks stay."""
    seq = log_metadata(connection, row, collection, now)
    columns = "document_key, build_key, version, title, media_type, language, content_hash, layout, text_key, indexed_at"
    for version in connection.execute(
        "SELECT version_key, metadata FROM versions WHERE document_key = ? AND died IS NULL", (row["document_key"],)
    ).fetchall():
        merged = encode_json(rewritten(decode_json(version["metadata"])))
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


def encode_json(metadata: Metadata) -> str:
    return json.dumps(dict(metadata), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def decode_json(encoded: str | None) -> dict[str, object]:
    decoded: dict[str, object] = {} if encoded is None else json.loads(encoded)
    return decoded
