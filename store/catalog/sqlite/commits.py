"""The one commit point of a present document, in SQLite.

A job's outcomes are committed in one transaction: each is checked by itself and numbered by itself, a refused one is left
out. Texts are compressed and layouts encoded before the write lock is taken.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection as Several
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from store.catalog.layouts import decode_layout
from store.catalog.sqlite.belongings import decode_json, encode_json, end_waiting, permit, rewrite_metadata, waiting_acl
from store.catalog.sqlite.cuts import PreparedCut, prepare, write_cut
from store.catalog.sqlite.database import Database
from store.catalog.sqlite.keys import collection_row, document_row, next_number, target_build
from store.catalog.sqlite.sweeping import sweep_catalog
from store.catalog.sqlite.tombs import add_tallies, bury, is_visible, row_by_key, stay
from store.catalog.sqlite.vector_rows import digested, insert_vectors, vector_keys, vector_scope
from store.catalog.tallying import freshness_tallies, outcome_tallies, vector_rows_tallies
from store.catalog.visible import FAULTS_CODE, remark_of
from store.model import (
    Build,
    BuildId,
    Cause,
    ChangeKind,
    ChunkRecord,
    CollectionId,
    Committed,
    Cut,
    DocumentId,
    DocumentState,
    Failed,
    Indexed,
    InputHash,
    Instant,
    Outcome,
    Recorded,
    Refusal,
    Refused,
    Seq,
    SessionId,
    Signature,
    Space,
    Unchanged,
    Vanished,
    Verdict,
    Version,
)
from store.ports import Tally

Connection = sqlite3.Connection


class SqliteCommits:
    """Implements ports.Commits."""

    _database: Database

    def recorded(self, documents: Sequence[tuple[DocumentId, Build]]) -> list[Recorded]:
        with self._database.pinned() as connection:
            return [read_recorded(connection, document, build) for document, build in documents]

    def missing(self, home: CollectionId, space: Space, inputs: Several[InputHash]) -> set[InputHash]:
        with self._database.read() as connection:
            keys = vector_scope(connection, home, space)
            return set(inputs) if keys is None else set(inputs) - vector_keys(connection, keys, list(inputs)).keys()

    def stage(self, session_id: SessionId, home: CollectionId, space: Space, vectors: Mapping[InputHash, bytes]) -> None:
        rows = digested(vectors)
        with self._database.write(durable=False) as connection:
            scope = vector_scope(connection, home, space)
            if scope is not None:
                add_tallies(connection, vector_rows_tallies(insert_vectors(connection, scope, rows, session_id)))

    def commit(self, session_id: SessionId, outcomes: Sequence[Outcome], now: Instant) -> list[Verdict]:
        prepared = [prepare(outcome) for outcome in outcomes]
        with self._database.write() as connection:
            job = Job(connection, session_id, now)
            verdicts = [carry_out(job, outcome, ready) for outcome, ready in zip(outcomes, prepared, strict=True)]
            add_tallies(connection, job.tallies())
            return verdicts

    def sweep(self, now: Instant, retention_seconds: float, lease_seconds: float) -> int:
        return sweep_catalog(self._database, now, retention_seconds, lease_seconds)


# --- reading to plan ----------------------------------------------------------------------------------------


def read_recorded(connection: Connection, document: DocumentId, build: Build) -> Recorded:
    row = document_row(connection, document)
    if row is None or not row["indexed_version"]:
        return Recorded()
    version = connection.execute(
        "SELECT * FROM versions WHERE document_key = ? AND build_key = ? AND died IS NULL", (row["document_key"], build.build_id)
    ).fetchone()
    if version is None:
        return Recorded()
    return Recorded(
        version=Version(version["version"]),
        content_hash=version["content_hash"],
        layout=decode_layout(version["layout"]),
        metadata=decode_json(version["metadata"]),
        own_metadata=decode_json(version["own_metadata"]),
        title=version["title"],
        media_type=version["media_type"],
        chunks=chunk_records(connection, row["document_key"], build.build_id),
    )


def chunk_records(connection: Connection, document_key: int, build_key: int) -> tuple[ChunkRecord, ...]:
    rows = connection.execute(
        "SELECT chunk_id, text_hash, occurrence, input_hash FROM chunks WHERE document_key = ? AND build_key = ? AND died IS NULL"
        " ORDER BY chunk_key",
        (document_key, build_key),
    )
    return tuple(
        ChunkRecord(chunk_id, text_hash, occurrence, input_hash or text_hash) for chunk_id, text_hash, occurrence, input_hash in rows
    )


# --- committing ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Job:
    """What the outcomes of one commit share: its transaction, who commits and when, rows that hold for all, counters written once."""

    connection: Connection
    session_id: SessionId
    now: Instant
    _counted: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=lambda: defaultdict(float))
    _collections: dict[CollectionId, sqlite3.Row | None] = field(default_factory=dict)
    _scopes: dict[int, tuple[int, int]] = field(default_factory=dict)

    def count(self, tallies: Iterable[Tally]) -> None:
        for tally in tallies:
            self._counted[tally.name, tally.labels] += tally.value

    def tallies(self) -> list[Tally]:
        return [Tally(name, labels, value) for (name, labels), value in self._counted.items()]

    def collection(self, home: CollectionId) -> sqlite3.Row | None:
        if home not in self._collections:
            self._collections[home] = collection_row(self.connection, home)
        return self._collections[home]

    def scope(self, collection: sqlite3.Row, build_key: int) -> tuple[int, int]:
        """(namespace_key, space_key) of the build's vectors."""
        if build_key not in self._scopes:
            found = self.connection.execute("SELECT space_key FROM builds WHERE build_key = ?", (build_key,)).fetchone()
            self._scopes[build_key] = collection["namespace_key"], found[0]
        return self._scopes[build_key]


def carry_out(job: Job, outcome: Outcome, prepared: tuple[PreparedCut, ...]) -> Verdict:
    row = document_row(job.connection, outcome.document)
    collection = job.collection(outcome.document.home)
    if row is None or collection is None or row["fence"] != outcome.fence or row["session_id"] != job.session_id:
        return refuse(job, outcome, row, _late_reason(row))
    if not row["wanted"]:
        return refuse(job, outcome, row, Refusal.WANTED_ABSENT)
    if outcome.version <= row["indexed_version"] and row["build_key"] == target_build(collection):
        return refuse(job, outcome, row, Refusal.VERSION_INDEXED)
    match outcome:
        case Indexed():
            return commit_indexed(job, outcome, prepared, row, collection)
        case Unchanged():
            return commit_unchanged(job, outcome, row, collection)
        case Failed():
            return commit_failed(job, outcome, row, collection)
        case Vanished():
            return commit_vanished(job.connection, outcome, row, collection, job.now)
        case _:
            assert_never(outcome)


def _late_reason(row: sqlite3.Row | None) -> Refusal:
    return Refusal.WANTED_ABSENT if row is None or not row["wanted"] else Refusal.FENCE_OLD


def refuse(job: Job, outcome: Outcome, row: sqlite3.Row | None, reason: Refusal) -> Refused:
    """A document's lease ends with its outcome, refused ones included; another lease is left alone, a later one of this session, too."""
    if row is not None:
        job.connection.execute(
            "UPDATE documents SET session_id = NULL WHERE document_key = ? AND session_id = ? AND fence = ?",
            (row["document_key"], job.session_id, outcome.fence),
        )
    job.count(outcome_tallies("superseded"))
    return Refused(reason)


def commit_indexed(job: Job, outcome: Indexed, prepared: tuple[PreparedCut, ...], row: sqlite3.Row, collection: sqlite3.Row) -> Verdict:
    connection = job.connection
    live_builds = {collection["served_build"], collection["growing_build"]} - {None}
    cuts = [ready for ready in prepared if ready.cut.build_id in live_builds]
    moved = _moved_row(connection, outcome, row)
    if not cuts or not _records_stand(connection, outcome, cuts, row, moved, collection):
        return refuse(job, outcome, row, Refusal.RECORDS_CHANGED)
    keys = [_keys_of_cut(connection, job.scope(collection, ready.cut.build_id), ready) for ready in cuts]
    if None in keys:
        return refuse(job, outcome, row, Refusal.VECTORS_MISSING)
    seq = next_number(connection, "seq")
    was_visible = bool(row["indexed_version"]) and is_visible(connection, row["document_key"])
    own_metadata = own_metadata_of(outcome, row)
    written = 0
    for ready, held in zip(cuts, keys, strict=True):
        assert held is not None
        scope = job.scope(collection, ready.cut.build_id)
        inserted = insert_vectors(connection, scope, ready.vectors, None)
        all_keys = held | vector_keys(connection, scope, [input_hash for input_hash, _, _ in ready.vectors])
        write_cut(connection, outcome, ready, row, own_metadata, all_keys, seq, job.now)
        if inserted < len(all_keys):
            _take_over(connection, all_keys.values())
        written += inserted
    end_waiting(connection, row, outcome.version)
    moved_away = None if moved is None else take_away(connection, moved, row, collection, job.now)
    shown = next((ready.cut for ready in cuts if ready.cut.build_id == collection["served_build"]), cuts[0].cut)
    plan = shown.plan
    _write_change(connection, outcome, row, collection, seq, job.now, first=not was_visible and moved is None, moved=moved, plan_cut=shown)
    _settle(connection, outcome, row, collection, outcome.builds_done, empty=not shown.layout.placements)
    name = "moved" if moved_away else "updated" if was_visible else "added"
    reused = max(0, len(plan.add) - outcome.embedded)
    job.count(outcome_tallies(name, embedded=outcome.embedded, reused=reused, vector_rows=written))
    if row["cause"] != Cause.RECUT:
        job.count(freshness_tallies(max(0.0, job.now - row["noticed_at"])))
    return Committed(Seq(seq))


def own_metadata_of(outcome: Indexed, row: sqlite3.Row) -> str | None:
    """The source's own metadata as the ledger has it now; of a version that is not wanted any more, as its lease had it."""
    if row["wanted_version"] > outcome.version:
        return encode_json(outcome.own_metadata) if outcome.own_metadata else None
    own: str | None = row["own_metadata"]
    return own


def _moved_row(connection: Connection, outcome: Indexed, row: sqlite3.Row) -> sqlite3.Row | None:
    """The document that leaves with this commit, when it still is to leave for this one."""
    if outcome.moved_from is None:
        return None
    old = document_row(connection, outcome.moved_from)
    return old if old is not None and old["moving_to"] == row["document_key"] else None


def _records_stand(
    connection: Connection,
    outcome: Indexed,
    cuts: Sequence[PreparedCut],
    row: sqlite3.Row,
    moved: sqlite3.Row | None,
    collection: sqlite3.Row,
) -> bool:
    """The rows that the plans were made from are the rows that are there now."""
    for ready in cuts:
        visible = _visible_version(connection, row["document_key"], ready.cut.build_id) if row["indexed_version"] else 0
        if visible != ready.cut.planned_from:
            return False
    if (outcome.moved_from is None) != (row["moved_from"] is None):
        return False
    if moved is None:
        return outcome.moved_from is None
    return _visible_version(connection, moved["document_key"], collection["served_build"]) == outcome.moved_from_version


def _visible_version(connection: Connection, document_key: int, build_key: int) -> int:
    found = connection.execute(
        "SELECT version FROM versions WHERE document_key = ? AND build_key = ? AND died IS NULL", (document_key, build_key)
    ).fetchone()
    return 0 if found is None else int(found[0])


def _keys_of_cut(connection: Connection, scope: tuple[int, int], ready: PreparedCut) -> dict[InputHash, int] | None:
    """The vectors that the cut refers to and does not bring; None when one of them is gone."""
    brought = ready.cut.vectors.keys()
    needed = [input_hash for input_hash in {chunk.input_hash for chunk in ready.cut.plan.born} if input_hash not in brought]
    keys = vector_keys(connection, scope, needed)
    return keys if len(keys) == len(needed) else None


def _take_over(connection: Connection, vector_keys: Iterable[int]) -> None:
    """What was staged belongs to the chunks that refer to it."""
    connection.executemany(
        "UPDATE vectors SET staged_by = NULL WHERE vector_key = ? AND staged_by IS NOT NULL", {(key,) for key in vector_keys}
    )


def take_away(connection: Connection, moved: sqlite3.Row, row: sqlite3.Row, collection: sqlite3.Row, now: Instant) -> bool:
    """The renamed document leaves its old uri in the same transaction; an alias keeps citations resolvable."""
    stay(connection, moved)
    bury(connection, row_by_key(connection, moved["document_key"]), collection, now, counted=False)
    connection.execute(
        "INSERT INTO aliases VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET document_key = excluded.document_key",
        (moved["collection_key"], moved["uri"], row["document_key"]),
    )
    return True


def _write_change(
    connection: Connection,
    outcome: Indexed,
    row: sqlite3.Row,
    collection: sqlite3.Row,
    seq: int,
    now: Instant,
    *,
    first: bool,
    moved: sqlite3.Row | None,
    plan_cut: Cut,
) -> None:
    plan = plan_cut.plan
    connection.execute(
        "INSERT INTO changes (seq, at, kind, collection_key, document_key, version, first, moved_from, added, kept, moved, dropped,"
        " embedded, reused) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            seq,
            now,
            ChangeKind.INDEXED,
            collection["collection_key"],
            row["document_key"],
            outcome.version,
            first,
            None if moved is None else moved["document_key"],
            len(plan.add),
            len(plan.keep),
            len(plan.move),
            len(plan.drop),
            outcome.embedded,
            max(0, len(plan.add) - outcome.embedded),
        ),
    )


def _settle(
    connection: Connection,
    outcome: Indexed | Unchanged,
    row: sqlite3.Row,
    collection: sqlite3.Row,
    builds_done: Several[BuildId],
    *,
    empty: bool,
) -> None:
    """The ledger row after success: served, its lease ended, pending again only for what was noticed (or began to grow) since.

    A document that was held meanwhile stays held: the outcome tells of the source as it was before.
    """
    served_state = "empty" if empty else "indexed"
    newer = row["wanted_version"] > outcome.version
    target = target_build(collection)
    complete = target in builds_done
    signature = outcome.signature
    remembered = "" if signature is None else ", bytes = ?, mtime_ns = ?, inode = ?, device = ?, proven = ?"
    held = row["state"] == DocumentState.HELD
    known = isinstance(outcome, Unchanged) and row["code"] == FAULTS_CODE
    remark = () if held or known else remark_of(outcome.faults if isinstance(outcome, Indexed) else ())
    remarked = ", code = ?, message = ?" if remark else ""
    connection.execute(
        "UPDATE documents SET indexed_version = ?, build_key = ?, served_state = ?, content_hash = ?, session_id = NULL, attempts = 0,"
        f" retry_at = NULL, moved_from = NULL, state = ?, wants_work = ?, noticed_at = ?{remarked}{remembered} WHERE document_key = ?",
        (
            outcome.version,
            target if complete else collection["served_build"],
            served_state,
            outcome.content_hash,
            DocumentState.HELD if held else DocumentState.PENDING if newer or not complete else served_state,
            not held and (newer or not complete),
            row["renoticed_at"] if newer else row["noticed_at"],
            *remark,
            *_remembered(signature, proven=outcome.proven and not newer),
            row["document_key"],
        ),
    )


def _remembered(signature: Signature | None, *, proven: bool) -> tuple[int | None, ...]:
    return () if signature is None else (signature.bytes, signature.mtime_ns, signature.inode, signature.device, proven)


def commit_unchanged(job: Job, outcome: Unchanged, row: sqlite3.Row, collection: sqlite3.Row) -> Verdict:
    builds_done = outcome.build_ids or (collection["served_build"],)
    _settle(job.connection, outcome, row, collection, builds_done, empty=row["served_state"] == "empty")
    job.count(outcome_tallies("unchanged"))
    return Committed(show_belongings(job, outcome.version, row, collection))


def show_belongings(job: Job, version: Version, row: sqlite3.Row, collection: sqlite3.Row) -> Seq | None:
    """What came with a version whose bytes turned out to be the ones that are served: they are its, too."""
    connection = job.connection
    seen = False
    if row["wanted_version"] <= version:
        own = encode_json(decode_json(row["own_metadata"]))
        seen = rewrite_metadata(connection, row, collection, job.now, lambda _own: own)
    waiting = waiting_acl(row)
    if waiting is not None and version >= waiting[0]:
        seen = permit(connection, row, collection, waiting[1], job.now) or seen
    return Seq(connection.execute("SELECT seq FROM meta").fetchone()[0]) if seen else None


def commit_failed(job: Job, outcome: Failed, row: sqlite3.Row, collection: sqlite3.Row) -> Verdict:
    """A failure of a version that is not wanted any more says nothing about the one that is."""
    connection = job.connection
    quarantined = outcome.retry_at is None
    job.count(outcome_tallies("failed" if quarantined else "retried", embedded=outcome.embedded))
    if row["wanted_version"] > outcome.version or (row["state"] == DocumentState.HELD and not quarantined):
        connection.execute("UPDATE documents SET session_id = NULL WHERE document_key = ?", (row["document_key"],))
        return Committed(None)
    connection.execute(
        "UPDATE documents SET session_id = NULL, attempts = attempts + 1, retry_at = ?, code = ?, message = ?, state = ?, wants_work = ?"
        " WHERE document_key = ?",
        (
            outcome.retry_at,
            outcome.code,
            outcome.message,
            DocumentState.QUARANTINED if quarantined else DocumentState.PENDING,
            not quarantined,
            row["document_key"],
        ),
    )
    if not quarantined or row["moved_from"] is None:
        return Committed(None)
    origin = row_by_key(connection, row["moved_from"])
    stay(connection, origin)
    bury(connection, origin, collection, job.now)
    return Committed(Seq(connection.execute("SELECT seq FROM meta").fetchone()[0]))


def commit_vanished(connection: Connection, outcome: Vanished, row: sqlite3.Row, collection: sqlite3.Row, now: Instant) -> Verdict:
    if row["wanted_version"] > outcome.version:
        connection.execute("UPDATE documents SET session_id = NULL WHERE document_key = ?", (row["document_key"],))
        return Committed(None)
    before = connection.execute("SELECT seq FROM meta").fetchone()[0]
    bury(connection, row, collection, now)
    after = connection.execute("SELECT seq FROM meta").fetchone()[0]
    return Committed(Seq(after) if after > before else None)
