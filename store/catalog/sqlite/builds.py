"""Collections and their builds in SQLite: one served, another perhaps growing beside it, switched in one commit."""

from __future__ import annotations

import json
import sqlite3

from store.catalog.sqlite.database import Database
from store.catalog.sqlite.dropping import drop_collection
from store.catalog.sqlite.keys import build_of, collection_of, collection_row, home_of, next_number
from store.model import ChangeKind, Collection, CollectionId, Instant, Namespace, Recipe, Space, Urgency


class SqliteBuilds:
    """Implements ports.Builds."""

    _database: Database

    def ensure_collection(self, home: CollectionId, recipe: Recipe, space: Space) -> Collection:
        known = self.collection(home)
        if known is not None and known.growing is None and (known.served.recipe, known.served.space) == (recipe, space):
            return known
        with self._database.write() as connection:
            row = collection_row(connection, home)
            if row is None:
                row = create_collection(connection, home, recipe, space)
            else:
                grow(connection, row, recipe, space, self._database.clock.now())
                row = collection_row(connection, home)
                assert row is not None
            return collection_of(connection, row, home)

    def collection(self, home: CollectionId) -> Collection | None:
        with self._database.read() as connection:
            row = collection_row(connection, home)
            return None if row is None else collection_of(connection, row, home)

    def collections(self) -> list[Collection]:
        with self._database.read() as connection:
            rows = connection.execute("SELECT * FROM collections ORDER BY collection_key").fetchall()
            return [collection_of(connection, row, home_of(connection, row["collection_key"])) for row in rows]

    def namespaces(self) -> list[Namespace]:
        with self._database.read() as connection:
            rows = connection.execute("SELECT DISTINCT n.name FROM collections JOIN namespaces n USING (namespace_key) ORDER BY n.name")
            return [Namespace(name) for (name,) in rows]

    def drop_collection(self, home: CollectionId, now: Instant) -> int:
        return drop_collection(self._database, home, now)

    def switch(self, home: CollectionId, now: Instant) -> bool:
        with self._database.write() as connection:
            row = collection_row(connection, home)
            if row is None or row["growing_build"] is None:
                return False
            waiting = connection.execute(
                "SELECT 1 FROM documents WHERE collection_key = ? AND wants_work = 1 AND build_key IS NOT ? LIMIT 1",
                (row["collection_key"], row["growing_build"]),
            ).fetchone()
            if waiting is not None or loses_served(connection, row):
                return False
            seq = next_number(connection, "seq")
            carry_over(connection, row)
            connection.execute("UPDATE builds SET retired = 1 WHERE build_key = ?", (row["served_build"],))
            connection.execute(
                "UPDATE collections SET served_build = growing_build, growing_build = NULL WHERE collection_key = ?",
                (row["collection_key"],),
            )
            retire(connection, row["served_build"], seq)
            connection.execute(
                "INSERT INTO changes (seq, at, kind, collection_key, version) VALUES (?, ?, ?, ?, 0)",
                (seq, now, ChangeKind.SWITCHED, row["collection_key"]),
            )
            return True


def create_collection(connection: sqlite3.Connection, home: CollectionId, recipe: Recipe, space: Space) -> sqlite3.Row:
    connection.execute("INSERT INTO namespaces (name) VALUES (?) ON CONFLICT DO NOTHING", (home.namespace,))
    namespace_key = connection.execute("SELECT namespace_key FROM namespaces WHERE name = ?", (home.namespace,)).fetchone()[0]
    collection_key = connection.execute(
        "INSERT INTO collections (collection_key, namespace_key, name, served_build, born)"
        " SELECT max(last_key, (SELECT coalesce(max(collection_key), 0) FROM collections)) + 1, ?, ?, 0, seq FROM meta"
        " RETURNING collection_key",
        (namespace_key, home.collection),
    ).fetchone()[0]
    build_key = create_build(connection, collection_key, recipe, space)
    row: sqlite3.Row = connection.execute(
        "UPDATE collections SET served_build = ? WHERE collection_key = ? RETURNING *", (build_key, collection_key)
    ).fetchone()
    return row


def create_build(connection: sqlite3.Connection, collection_key: int, recipe: Recipe, space: Space) -> int:
    connection.execute(
        "INSERT INTO spaces (space_id, provider, model, dimensions, settings) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (space.space_id, space.provider, space.model, space.dimensions, json.dumps(dict(space.settings), sort_keys=True)),
    )
    space_key = connection.execute("SELECT space_key FROM spaces WHERE space_id = ?", (space.space_id,)).fetchone()[0]
    build_key = connection.execute(
        "INSERT INTO builds (build_key, collection_key, recipe_id, recipe, space_key)"
        " SELECT max(last_key, (SELECT coalesce(max(build_key), 0) FROM builds)) + 1, ?, ?, ?, ? FROM meta RETURNING build_key",
        (collection_key, recipe.recipe_id, json.dumps(dict(recipe.settings), sort_keys=True), space_key),
    ).fetchone()[0]
    return int(build_key)


def grow(connection: sqlite3.Connection, row: sqlite3.Row, recipe: Recipe, space: Space, now: Instant) -> None:
    """Makes (recipe, space) the build that every document should reach: the served one again, the growing one, or a new one."""
    wanted = (recipe.recipe_id, space.space_id)
    growing = row["growing_build"]
    if growing is not None and _is_build(connection, growing, wanted):
        return
    if growing is not None:
        connection.execute("UPDATE builds SET retired = 1 WHERE build_key = ?", (growing,))
        seq = int(connection.execute("SELECT seq FROM meta").fetchone()[0])
        retire(connection, growing, seq)
    target = row["served_build"] if _is_build(connection, row["served_build"], wanted) else None
    growing = create_build(connection, row["collection_key"], recipe, space) if target is None else None
    connection.execute("UPDATE collections SET growing_build = ? WHERE collection_key = ?", (growing, row["collection_key"]))
    _ask_for_build(connection, row["collection_key"], int(row["served_build"] if growing is None else growing), now)


def _is_build(connection: sqlite3.Connection, build_key: int, wanted: tuple[str, str]) -> bool:
    build = build_of(connection, build_key)
    return (build.recipe.recipe_id, build.space.space_id) == wanted


def _ask_for_build(connection: sqlite3.Connection, collection_key: int, target: int, now: Instant) -> None:
    """Who lacks the build is pending; its wait begins now, unless it waited already."""
    connection.execute(
        "UPDATE documents SET wants_work = (wanted_version > indexed_version OR build_key IS NOT ?1),"
        " urgency = CASE WHEN wanted_version > indexed_version THEN urgency ELSE ?2 END,"
        " state = CASE WHEN wanted_version > indexed_version OR build_key IS NOT ?1 THEN 'pending' ELSE served_state END,"
        " cause = CASE WHEN wanted_version > indexed_version THEN cause ELSE 'recut' END,"
        " noticed_at = CASE WHEN wanted_version > indexed_version THEN noticed_at ELSE ?4 END"
        " WHERE collection_key = ?3 AND wanted = 1 AND state IN ('indexed', 'empty', 'pending')",
        (target, Urgency.BULK, collection_key, now),
    )


def loses_served(connection: sqlite3.Connection, row: sqlite3.Row) -> bool:
    """Whether a switch would take a held or quarantined document out of every answer: its vectors are of the served space alone."""
    if not changes_space(connection, row):
        return False
    alive = "EXISTS (SELECT 1 FROM versions v WHERE v.document_key = d.document_key AND v.build_key = ? AND v.died IS NULL)"
    lost = connection.execute(
        f"SELECT 1 FROM documents d WHERE collection_key = ? AND state IN ('held', 'quarantined') AND {alive} AND NOT {alive} LIMIT 1",
        (row["collection_key"], row["served_build"], row["growing_build"]),
    ).fetchone()
    return lost is not None


def changes_space(connection: sqlite3.Connection, row: sqlite3.Row) -> bool:
    return build_of(connection, row["served_build"]).space.space_id != build_of(connection, row["growing_build"]).space.space_id


def carry_over(connection: sqlite3.Connection, row: sqlite3.Row) -> None:
    """Held and quarantined documents cannot be cut again: what is served of them goes along, where the space is the same."""
    if changes_space(connection, row):
        return
    left_behind = (
        "SELECT document_key FROM documents d WHERE collection_key = ? AND state IN ('held', 'quarantined')"
        " AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.document_key = d.document_key AND v.build_key = ? AND v.died IS NULL)"
    )
    served, growing = row["served_build"], row["growing_build"]
    keys = (row["collection_key"], growing)
    for table in ("chunks", "versions"):  # versions last: they decide who is left behind
        connection.execute(
            f"UPDATE {table} SET build_key = ? WHERE build_key = ? AND died IS NULL AND document_key IN ({left_behind})",
            (growing, served, *keys),
        )


def retire(connection: sqlite3.Connection, build_key: int, seq: int) -> None:
    """Rows of a build that is no longer served die; the sweep removes them after the retention window."""
    connection.execute("UPDATE versions SET died = ? WHERE build_key = ? AND died IS NULL", (seq, build_key))
    connection.execute("UPDATE chunks SET died = ? WHERE build_key = ? AND died IS NULL", (seq, build_key))
