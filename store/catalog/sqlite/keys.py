"""Looks up the local keys behind ids, inside the caller's transaction, and turns rows back into nouns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from store.errors import UnknownCollection
from store.model import (
    Build,
    BuildId,
    Collection,
    CollectionId,
    CollectionName,
    DocumentId,
    DocumentState,
    DocumentStatus,
    Instant,
    Namespace,
    Recipe,
    RecipeId,
    Root,
    RootName,
    Signature,
    SourceKind,
    Space,
    SpaceId,
    Uri,
    Version,
)

VARIABLES_MAX = 500
"""Values in one IN list."""


def slices(values: Sequence[object], rows_max: int = VARIABLES_MAX) -> Iterator[Sequence[object]]:
    for start in range(0, len(values), rows_max):
        yield values[start : start + rows_max]


def marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def collection_row(connection: sqlite3.Connection, home: CollectionId) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        "SELECT c.* FROM collections c JOIN namespaces n USING (namespace_key) WHERE n.name = ? AND c.name = ?",
        (home.namespace, home.collection),
    ).fetchone()
    return row


def need_collection(connection: sqlite3.Connection, home: CollectionId) -> sqlite3.Row:
    row = collection_row(connection, home)
    if row is None:
        raise UnknownCollection(namespace=home.namespace, collection=home.collection)
    return row


def document_row(connection: sqlite3.Connection, document: DocumentId) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        "SELECT d.* FROM documents d JOIN collections c USING (collection_key) JOIN namespaces n USING (namespace_key)"
        " WHERE n.name = ? AND c.name = ? AND d.uri = ?",
        document_tuple(document),
    ).fetchone()
    return row


def document_tuple(document: DocumentId) -> tuple[str, str, str]:
    return document.namespace, document.collection, document.uri


def build_of(connection: sqlite3.Connection, build_key: int) -> Build:
    row = connection.execute("SELECT b.*, s.* FROM builds b JOIN spaces s USING (space_key) WHERE build_key = ?", (build_key,)).fetchone()
    return Build(
        BuildId(row["build_key"]),
        Recipe(RecipeId(row["recipe_id"]), json.loads(row["recipe"])),
        Space(SpaceId(row["space_id"]), row["provider"], row["model"], row["dimensions"], json.loads(row["settings"])),
    )


def collection_of(connection: sqlite3.Connection, row: sqlite3.Row, home: CollectionId) -> Collection:
    growing = row["growing_build"]
    return Collection(home, build_of(connection, row["served_build"]), None if growing is None else build_of(connection, growing))


def target_build(collection: sqlite3.Row) -> int:
    """The build that every document should reach: the growing one, else the served one."""
    return int(collection["served_build"] if collection["growing_build"] is None else collection["growing_build"])


def home_of(connection: sqlite3.Connection, collection_key: int) -> CollectionId:
    row = connection.execute(
        "SELECT n.name AS namespace, c.name AS name FROM collections c JOIN namespaces n USING (namespace_key) WHERE collection_key = ?",
        (collection_key,),
    ).fetchone()
    return CollectionId(Namespace(row["namespace"]), CollectionName(row["name"]))


def root_of(row: sqlite3.Row, home: CollectionId) -> Root:
    path = bytes(row["path"]).decode("utf-8", "surrogateescape")
    return Root(home, RootName(row["name"]), SourceKind(row["kind"]), path, row["prefix"], row["device"])


def signature_of(row: sqlite3.Row) -> Signature | None:
    if row["bytes"] is None:
        return None
    return Signature(row["bytes"], row["mtime_ns"], row["inode"], row["device"])


def status_of(row: sqlite3.Row, home: CollectionId) -> DocumentStatus:
    """Needs the columns `root_name` and `chunks` beside the document's own."""
    return DocumentStatus(
        document=DocumentId(home.namespace, home.collection, Uri(row["uri"])),
        state=DocumentState(row["state"]),
        wanted_version=Version(row["wanted_version"]),
        indexed_version=Version(row["indexed_version"]),
        chunks=row["chunks"],
        root=RootName(row["root_name"]),
        noticed_at=Instant(row["noticed_at"]),
        attempts=row["attempts"],
        retry_at=None if row["retry_at"] is None else Instant(row["retry_at"]),
        code=row["code"],
        message=row["message"],
    )


def next_number(connection: sqlite3.Connection, counter: str) -> int:
    """The next `seq`, `version` or `fence`, inside the caller's write transaction."""
    row = connection.execute(f"UPDATE meta SET {counter} = {counter} + 1 RETURNING {counter}").fetchone()
    return int(row[0])
