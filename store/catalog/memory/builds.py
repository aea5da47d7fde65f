"""Collections and their builds in memory: one served, another perhaps growing beside it, switched in one commit."""

from __future__ import annotations

from dataclasses import replace

from store.catalog.memory.sweeping import forget_home
from store.catalog.memory.tables import CollectionRow, DocumentRow, Tables
from store.model import (
    Build,
    BuildId,
    Cause,
    Change,
    ChangeKind,
    Collection,
    CollectionId,
    DocumentState,
    Instant,
    Namespace,
    Recipe,
    Seq,
    Space,
    Urgency,
    Version,
)


class MemoryBuilds:
    """Implements ports.Builds."""

    _tables: Tables

    def ensure_collection(self, home: CollectionId, recipe: Recipe, space: Space) -> Collection:
        tables = self._tables
        with tables.lock:
            row = tables.collections.get(home)
            if row is None:
                row = tables.collections[home] = CollectionRow(home, create_build(tables, recipe, space), tables.seq)
            else:
                grow(tables, row, recipe, space)
            return row.value

    def collection(self, home: CollectionId) -> Collection | None:
        with self._tables.lock:
            row = self._tables.collections.get(home)
            return None if row is None else row.value

    def collections(self) -> list[Collection]:
        with self._tables.lock:
            return [row.value for row in self._tables.collections.values()]

    def namespaces(self) -> list[Namespace]:
        with self._tables.lock:
            return sorted({home.namespace for home in self._tables.collections})

    def drop_collection(self, home: CollectionId, now: Instant) -> int:
        with self._tables.lock:
            return drop_collection(self._tables, home, now) if home in self._tables.collections else 0

    def switch(self, home: CollectionId, now: Instant) -> bool:
        tables = self._tables
        with tables.lock:
            row = tables.collections.get(home)
            if row is None or row.growing is None:
                return False
            growing = row.growing.build_id
            if any(tables.wants_work(d) and d.indexed.get(growing, 0) < d.wanted_version for d in tables.documents_of(home)):
                return False
            if loses_served(tables, row, row.growing):
                return False
            seq = tables.next_seq()
            carry_over(tables, row, row.growing, seq)
            retired, row.served, row.growing = row.served, row.growing, None
            retire(tables, retired.build_id, seq)
            tables.log.append(Change(seq, now, ChangeKind.SWITCHED, home, None, Version(0)))
            return True


def drop_collection(tables: Tables, home: CollectionId, now: Instant) -> int:
    """What an open snapshot still sees goes with the sweep; nothing of it is kept for the retention window."""
    del tables.collections[home]
    seq = tables.next_seq()
    rows = list(tables.documents_of(home))
    for row in rows:
        del tables.documents[row.document]
    tables.roots = [root for root in tables.roots if root.home != home]
    tables.left_roots = {left for left in tables.left_roots if left[0] != home}
    tables.claims = [claim for claim in tables.claims if claim.document.home != home]
    tables.aliases = {old: new for old, new in tables.aliases.items() if old.home != home}
    tables.log = [change for change in tables.log if change.home != home]
    tables.log.append(Change(seq, now, ChangeKind.DROPPED, home, None, Version(0)))
    forget_home(tables, home, seq)
    gone = (DocumentState.DELETED, DocumentState.IGNORED)
    return sum(row.mark not in gone and row.moving_to is None for row in rows)


def create_build(tables: Tables, recipe: Recipe, space: Space) -> Build:
    build = Build(BuildId(len(tables.spaces) + 1), recipe, space)
    tables.spaces[build.build_id] = space.space_id
    return build


def is_build(build: Build | None, recipe: Recipe, space: Space) -> bool:
    return build is not None and (build.recipe.recipe_id, build.space.space_id) == (recipe.recipe_id, space.space_id)


def grow(tables: Tables, row: CollectionRow, recipe: Recipe, space: Space) -> None:
    """Makes (recipe, space) the build that every document should reach: the served one again, the growing one, or a new one."""
    if is_build(row.growing, recipe, space):
        return
    if row.growing is not None:
        retire(tables, row.growing.build_id, tables.seq)
        row.growing = None
    if is_build(row.served, recipe, space):
        return
    row.growing = create_build(tables, recipe, space)
    for document in tables.documents_of(row.home):
        if tables.wants_work(document) and not document.notices:
            document.cause, document.urgency, document.noticed_at = Cause.RECUT, Urgency.BULK, tables.clock.now()


def loses_served(tables: Tables, row: CollectionRow, growing: Build) -> bool:
    """Whether a switch would take a held or quarantined document out of every answer: its vectors are of the served space alone."""
    if row.served.space.space_id == growing.space.space_id:
        return False
    return any(
        document.mark in (DocumentState.HELD, DocumentState.QUARANTINED)
        and tables.living_version(document.document, row.served.build_id) is not None
        and tables.living_version(document.document, growing.build_id) is None
        for document in tables.documents_of(row.home)
    )


def carry_over(tables: Tables, row: CollectionRow, growing: Build, seq: Seq) -> None:
    """Held and quarantined documents cannot be cut again: what is served of them goes along, where the space is the same."""
    if row.served.space.space_id != growing.space.space_id:
        return
    for document in tables.documents_of(row.home):
        if document.mark in (DocumentState.HELD, DocumentState.QUARANTINED):
            carry_over_document(tables, document, row.served, growing, seq)


def carry_over_document(tables: Tables, row: DocumentRow, served: Build, growing: Build, seq: Seq) -> None:
    before, after = (row.document, served.build_id), (row.document, growing.build_id)
    version = tables.living_version(*before)
    if version is None or tables.living_version(*after) is not None:
        return
    tables.versions[after].append(replace(version, born=seq))
    tables.chunks[after] += [replace(chunk, born=seq) for chunk in tables.living_chunks(*before)]
    row.indexed[growing.build_id] = row.indexed.get(served.build_id, Version(0))


def retire(tables: Tables, build_id: BuildId, seq: Seq) -> None:
    """Rows of a build that is no longer served die; the sweep removes them after the retention window."""
    for (document, of_build), versions in tables.versions.items():
        if of_build == build_id:
            for row in (*versions, *tables.chunks.get((document, of_build), ())):
                row.died = seq if row.died is None else row.died
