"""Steps from one schema version to the next, for folders of an older Evercurrent; new ones get schema.sql.

Each step is one transaction that raises `user_version` with it: a process that dies in the middle leaves the version before, whole.
Callers hold the write lock, and no other process of the older version may still have the folder open.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping

Connection = sqlite3.Connection
Step = Callable[[Connection], None]


def migrate(connection: Connection, found: int, wanted: int, steps: Mapping[int, Step]) -> None:
    """Brings a file of version `found` to `wanted`. `steps` by the version they lead to. Running it again goes on where it stopped."""
    for version in range(found + 1, wanted + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            steps[version](connection)
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def to_version_2(connection: Connection) -> None:
    """Claims, removable roots, collections that can be dropped, and a source's own metadata apart from the loader's."""
    for statement in _TO_VERSION_2.split(";\n"):
        connection.execute(statement)
    part_own_metadata(connection)


_TO_VERSION_2 = """
ALTER TABLE meta ADD COLUMN last_key INTEGER NOT NULL DEFAULT 0;
ALTER TABLE collections ADD COLUMN born INTEGER NOT NULL DEFAULT 0;
ALTER TABLE documents ADD COLUMN leased_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE documents ADD COLUMN media_type TEXT;
ALTER TABLE documents ADD COLUMN waiting_acl TEXT;
ALTER TABLE versions ADD COLUMN own_metadata TEXT;
CREATE TABLE dropped (
    collection_key INTEGER PRIMARY KEY,
    namespace_key  INTEGER NOT NULL REFERENCES namespaces,
    name           TEXT NOT NULL
) STRICT;
CREATE TABLE claims (
    claim_key      INTEGER PRIMARY KEY,
    collection_key INTEGER NOT NULL REFERENCES collections,
    uri            TEXT NOT NULL,
    root_key       INTEGER NOT NULL REFERENCES roots,
    noticed_at     REAL NOT NULL,
    cause          TEXT NOT NULL,
    bytes          INTEGER,
    mtime_ns       INTEGER,
    inode          INTEGER,
    device         INTEGER,
    UNIQUE (collection_key, uri, root_key)
) STRICT;
CREATE INDEX claims_of_root ON claims (root_key, uri);
CREATE TABLE roots_of_version_2 (
    root_key       INTEGER PRIMARY KEY,
    collection_key INTEGER NOT NULL REFERENCES collections,
    name           TEXT NOT NULL,
    kind           TEXT NOT NULL,
    path           BLOB NOT NULL,
    prefix         TEXT NOT NULL,
    device         INTEGER,
    standing       TEXT NOT NULL DEFAULT 'live'
) STRICT;
INSERT INTO roots_of_version_2 SELECT *, 'live' FROM roots;
DROP TABLE roots;
ALTER TABLE roots_of_version_2 RENAME TO roots;
CREATE UNIQUE INDEX roots_by_name ON roots (collection_key, name) WHERE standing <> 'left';
CREATE UNIQUE INDEX roots_by_path ON roots (collection_key, path) WHERE standing <> 'left';
"""


def part_own_metadata(connection: Connection) -> None:
    """What version 1 had merged: a served version's keys that its source says are the source's own, the rest is the loader's.

    Which value the loader had for a key that both say was not kept: it comes back when the document is next loaded.
    """
    rows = connection.execute(
        "SELECT v.version_key, v.metadata, d.own_metadata FROM versions v JOIN documents d USING (document_key)"
        " WHERE v.died IS NULL AND d.own_metadata IS NOT NULL"
    ).fetchall()
    for version_key, merged, own in rows:
        keys = json.loads(own).keys()
        shown: dict[str, object] = json.loads(merged)
        parts = {key: value for key, value in shown.items() if key not in keys}, {key: value for key, value in shown.items() if key in keys}
        connection.execute("UPDATE versions SET metadata = ?, own_metadata = ? WHERE version_key = ?", (*map(_encode, parts), version_key))


def _encode(metadata: Mapping[str, object]) -> str:
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


STEPS: Mapping[int, Step] = {2: to_version_2}
