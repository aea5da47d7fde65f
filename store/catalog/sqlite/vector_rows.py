"""Vector rows in SQLite, by namespace, space and input hash; and what leaves with the last row that needs it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection as Several
from collections.abc import Mapping, Sequence

from store.catalog.digest import vector_digest
from store.catalog.sqlite.keys import collection_row, marks, slices
from store.model import CollectionId, InputHash, SessionId, Space

Connection = sqlite3.Connection


def vector_scope(connection: Connection, home: CollectionId, space: Space) -> tuple[int, int] | None:
    """(namespace_key, space_key) that a vector of the collection in this space is stored under."""
    collection = collection_row(connection, home)
    row = connection.execute("SELECT space_key FROM spaces WHERE space_id = ?", (space.space_id,)).fetchone()
    return None if collection is None or row is None else (collection["namespace_key"], row["space_key"])


def vector_keys(connection: Connection, scope: tuple[int, int], inputs: Sequence[InputHash]) -> dict[InputHash, int]:
    keys: dict[InputHash, int] = {}
    for part in slices(inputs):
        rows = connection.execute(
            f"SELECT input_hash, vector_key FROM vectors WHERE namespace_key = ? AND space_key = ? AND input_hash IN ({marks(part)})",
            (*scope, *part),
        )
        keys.update((input_hash, vector_key) for input_hash, vector_key in rows)
    return keys


def digested(vectors: Mapping[InputHash, bytes]) -> list[tuple[InputHash, bytes, int]]:
    return [(input_hash, vector, vector_digest(vector)) for input_hash, vector in vectors.items()]


def insert_vectors(
    connection: Connection, scope: tuple[int, int], rows: Sequence[tuple[InputHash, bytes, int]], staged_by: SessionId | None
) -> int:
    """Returns how many were new. Running it twice is harmless: the first vector of an input stays."""
    before = connection.total_changes
    connection.executemany(
        "INSERT INTO vectors (namespace_key, space_key, input_hash, vector, digest, staged_by) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [(*scope, input_hash, vector, digest, staged_by) for input_hash, vector, digest in rows],
    )
    return connection.total_changes - before


def forget_vectors(connection: Connection, keys: Several[int]) -> None:
    """Those that no chunk refers to any more, living or dead, and that nobody staged for a commit to come."""
    for part in slices(sorted(keys)):
        connection.execute(
            f"DELETE FROM vectors WHERE vector_key IN ({marks(part)}) AND staged_by IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.vector_key = vectors.vector_key)",
            part,
        )


def forget_texts(connection: Connection, keys: Several[int]) -> None:
    """Those that no version refers to any more."""
    connection.executemany(
        "DELETE FROM texts WHERE text_key = ?1 AND NOT EXISTS (SELECT 1 FROM versions WHERE text_key = ?1)", [(key,) for key in keys]
    )
