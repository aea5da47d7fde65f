"""Metadata and permissions in SQLite: what is served changes in the transaction that records it, and needs no worker.

A version row keeps what the loader found and, apart, the source's own metadata that is shown over it. Permissions that belong to
content which is not served yet wait for its commit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

from store.catalog.sqlite.keys import next_number
from store.catalog.sqlite.tombs import free, is_visible
from store.catalog.visible import merged_patch, narrowed, patched_metadata
from store.model import ChangeKind, Described, Instant, Metadata, Present, Unset, Version

Connection = sqlite3.Connection
Acl = tuple[str, ...] | None


def give_belongings(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, intent: Present, now: Instant) -> None:
    """Metadata and permissions of a document whose content stays. What is served of that content changes at once."""
    if intent.metadata is not None and dict(intent.metadata) != decode_json(row["own_metadata"]):
        after = encode_json(intent.metadata)
        connection.execute("UPDATE documents SET own_metadata = ? WHERE document_key = ?", (after, row["document_key"]))
        if row["indexed_version"] >= row["wanted_version"]:
            rewrite_metadata(connection, row, collection, now, lambda _own: after)
    if intent.acl is None:
        return
    if row["indexed_version"] >= row["wanted_version"]:
        permit(connection, row, collection, intent.acl, now)
    else:
        await_acl(connection, row, collection, Version(row["wanted_version"]), wanted_acl(row), intent.acl, now)


def describe(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, intent: Described, now: Instant) -> None:
    """What is visible changes at once, an older version, too. A worker's commit takes what the ledger says by then, unless it is of a
    version that is not wanted any more: that one is refused, since it would show what the version came with."""
    if not isinstance(intent.metadata, Unset):
        patch = intent.metadata
        before = decode_json(row["own_metadata"])
        after = patched_metadata(before, patch)
        if after != before:
            connection.execute("UPDATE documents SET own_metadata = ? WHERE document_key = ?", (encode_json(after), row["document_key"]))
            if row["session_id"] is not None and row["wanted_version"] > row["leased_version"]:
                free(connection, row["document_key"])
        rewrite_metadata(connection, row, collection, now, lambda own: encode_json({} if patch is None else merged_patch(own, patch)))
    if not isinstance(intent.acl, Unset):
        permit(connection, row, collection, intent.acl, now)


def rewrite_metadata(
    connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, now: Instant, rewritten: Callable[[Metadata], str]
) -> bool:
    """The same version with other metadata of its source's own is born, where it differs: text, layout and chunks stay."""
    columns = "document_key, build_key, version, title, media_type, language, metadata, content_hash, layout, text_key, indexed_at"
    versions = connection.execute(
        "SELECT version_key, own_metadata FROM versions WHERE document_key = ? AND died IS NULL", (row["document_key"],)
    ).fetchall()
    changed = [
        (version["version_key"], after)
        for version in versions
        if (after := rewritten(own := decode_json(version["own_metadata"]))) != encode_json(own)
    ]
    if not changed:
        return False
    seq = log_metadata(connection, row, collection, now)
    for version_key, after in changed:
        connection.execute("UPDATE versions SET died = ? WHERE version_key = ?", (seq, version_key))
        connection.execute(
            f"INSERT INTO versions ({columns}, born, own_metadata) SELECT {columns}, ?, ? FROM versions WHERE version_key = ?",
            (seq, after, version_key),
        )
    return True


# --- permissions --------------------------------------------------------------------------------------------


def permit(connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, acl: Acl, now: Instant) -> bool:
    """The permissions of what is served and of what is wanted; returns whether a reader sees the difference."""
    if row["waiting_acl"] is not None:
        connection.execute("UPDATE documents SET waiting_acl = NULL WHERE document_key = ?", (row["document_key"],))
    if acl == decode_acl(row["acl"]):
        return False
    connection.execute("UPDATE documents SET acl = ? WHERE document_key = ?", (encode_acl(acl), row["document_key"]))
    if is_visible(connection, row["document_key"]):
        log_metadata(connection, row, collection, now)
        return True
    return False


def await_acl(
    connection: Connection, row: sqlite3.Row, collection: sqlite3.Row, version: Version, inherited: Acl, given: Acl, now: Instant
) -> None:
    """Permissions of content that is wanted, from `version` on, and not served yet.

    What is served keeps its own, and loses at once whom an upload's new ones do not name. A worker that read before must not commit:
    it would show new bytes under the old permissions.
    """
    wanted, served = inherited if given is None else given, decode_acl(row["acl"])
    if wanted == served and row["waiting_acl"] is None:
        return
    if not is_visible(connection, row["document_key"]):
        permit(connection, row, collection, wanted, now)
        return
    kept = served if given is None else narrowed(served, given)
    permit(connection, row, collection, kept, now)
    if wanted == kept:
        return
    waiting = waiting_acl(row)
    since = version if waiting is None or waiting[1] != wanted else waiting[0]
    connection.execute("UPDATE documents SET waiting_acl = ? WHERE document_key = ?", (json.dumps([since, wanted]), row["document_key"]))
    if since == version and row["session_id"] is not None:
        free(connection, row["document_key"])


def end_waiting(connection: Connection, row: sqlite3.Row, version: Version) -> None:
    """The content that the permissions waited for is shown by this transaction."""
    waiting = waiting_acl(row)
    if waiting is not None and version >= waiting[0]:
        connection.execute(
            "UPDATE documents SET acl = ?, waiting_acl = NULL WHERE document_key = ?", (encode_acl(waiting[1]), row["document_key"])
        )


def waiting_acl(row: sqlite3.Row) -> tuple[Version, Acl] | None:
    """Permissions that come with a version that is not served yet, and the first such version."""
    if row["waiting_acl"] is None:
        return None
    since, acl = json.loads(row["waiting_acl"])
    return Version(since), None if acl is None else tuple(acl)


def wanted_acl(row: sqlite3.Row) -> Acl:
    """The permissions of the document as it is wanted."""
    waiting = waiting_acl(row)
    return decode_acl(row["acl"]) if waiting is None else waiting[1]


def encode_acl(acl: Acl) -> str | None:
    return None if acl is None else json.dumps(acl)


def decode_acl(encoded: str | None) -> Acl:
    return None if encoded is None else tuple(json.loads(encoded))


# --- the log and JSON ---------------------------------------------------------------------------------------


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
