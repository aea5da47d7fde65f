"""The one commit point of a present document, in memory: each outcome is checked by itself and numbered by itself."""

from __future__ import annotations

from collections.abc import Collection as Several
from collections.abc import Mapping, Sequence
from typing import assert_never

from store.catalog.memory.ledger import permit, rewrite_metadata
from store.catalog.memory.sweeping import sweep
from store.catalog.memory.tables import ChunkRow, CollectionRow, DocumentRow, Tables, VectorKey, VectorRow, VersionRow
from store.catalog.tallying import freshness_tallies, outcome_tallies, vector_rows_tallies
from store.catalog.visible import FAULTS_CODE, remark_of
from store.model import (
    Build,
    BuildId,
    Cause,
    Change,
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
    Metadata,
    Outcome,
    Recorded,
    Refusal,
    Refused,
    Seq,
    SessionId,
    Space,
    Unchanged,
    Vanished,
    Verdict,
)


class MemoryCommits:
    """Implements ports.Commits."""

    _tables: Tables

    def recorded(self, documents: Sequence[tuple[DocumentId, Build]]) -> list[Recorded]:
        with self._tables.lock:
            return [read_recorded(self._tables, document, build) for document, build in documents]

    def missing(self, home: CollectionId, space: Space, inputs: Several[InputHash]) -> set[InputHash]:
        with self._tables.lock:
            return {key for key in inputs if (home.namespace, space.space_id, key) not in self._tables.vectors}

    def stage(self, session_id: SessionId, home: CollectionId, space: Space, vectors: Mapping[InputHash, bytes]) -> None:
        with self._tables.lock:
            before = len(self._tables.vectors)
            for input_hash, vector in vectors.items():
                self._tables.vectors.setdefault((home.namespace, space.space_id, input_hash), VectorRow(vector, session_id))
            self._tables.add_tallies(vector_rows_tallies(len(self._tables.vectors) - before))

    def commit(self, session_id: SessionId, outcomes: Sequence[Outcome], now: Instant) -> list[Verdict]:
        with self._tables.lock:
            return [carry_out(self._tables, session_id, outcome, now) for outcome in outcomes]

    def sweep(self, now: Instant, retention_seconds: float, lease_seconds: float) -> int:
        with self._tables.lock:
            return sweep(self._tables, now, retention_seconds, lease_seconds)


def read_recorded(tables: Tables, document: DocumentId, build: Build) -> Recorded:
    version = tables.living_version(document, build.build_id)
    if version is None:
        return Recorded()
    chunks = [row.chunk for row in tables.living_chunks(document, build.build_id)]
    return Recorded(
        version=version.version,
        content_hash=version.content_hash,
        layout=version.layout,
        metadata=version.metadata,
        own_metadata=version.own_metadata,
        title=version.title,
        media_type=version.media_type,
        chunks=tuple(ChunkRecord(chunk.chunk_id, chunk.text_hash, chunk.occurrence, chunk.input_hash) for chunk in chunks),
    )


def carry_out(tables: Tables, session_id: SessionId, outcome: Outcome, now: Instant) -> Verdict:
    row = tables.documents.get(outcome.document)
    reason = Refusal.WANTED_ABSENT if row is None else find_refusal(tables, session_id, outcome, row)
    if row is None or reason is not None:
        tables.add_tallies(outcome_tallies("superseded"))
        if row is not None and row.session_id == session_id and row.fence == outcome.fence:
            row.session_id = None
        return Refused(reason or Refusal.WANTED_ABSENT)
    row.session_id = None
    match outcome:
        case Indexed():
            return commit_indexed(tables, outcome, row, now)
        case Unchanged():
            return commit_unchanged(tables, outcome, row, now)
        case Failed():
            return commit_failed(tables, outcome, row, now)
        case Vanished():
            return commit_vanished(tables, outcome, row, now)
        case _:
            assert_never(outcome)


# --- refusing -----------------------------------------------------------------------------------------------


def find_refusal(tables: Tables, session_id: SessionId, outcome: Outcome, row: DocumentRow) -> Refusal | None:
    if not row.wanted and row.moving_to is None:
        return Refusal.WANTED_ABSENT
    if row.session_id != session_id or row.fence != outcome.fence:
        return Refusal.FENCE_OLD
    if tables.is_indexed(row, outcome.version):
        return Refusal.VERSION_INDEXED
    if not isinstance(outcome, Indexed):
        return None
    collection = tables.collection(outcome.document.home)
    if not records_stand(tables, outcome, row, collection):
        return Refusal.RECORDS_CHANGED
    return None if vectors_are_there(tables, outcome, collection) else Refusal.VECTORS_MISSING


def live_cuts(outcome: Indexed, collection: CollectionRow) -> list[tuple[Build, Cut]]:
    """The outcome's cuts whose build is still served or growing."""
    builds = {build.build_id: build for build in collection.builds}
    return [(builds[cut.build_id], cut) for cut in outcome.cuts if cut.build_id in builds]


def records_stand(tables: Tables, outcome: Indexed, row: DocumentRow, collection: CollectionRow) -> bool:
    """The rows that the plans were made from are the rows that are there now."""
    cuts = live_cuts(outcome, collection)
    if any(recorded_version(tables, outcome.document, cut.build_id) != cut.planned_from for _, cut in cuts):
        return False
    if outcome.moved_from != row.moved_from:
        return False
    served = collection.served.build_id
    moved = outcome.moved_from
    return bool(cuts) and (moved is None or recorded_version(tables, moved, served) == outcome.moved_from_version)


def recorded_version(tables: Tables, document: DocumentId, build_id: BuildId) -> int:
    version = tables.living_version(document, build_id)
    return 0 if version is None else version.version


def vectors_are_there(tables: Tables, outcome: Indexed, collection: CollectionRow) -> bool:
    return all(
        chunk.input_hash in cut.vectors or vector_key(outcome.document, build, chunk.input_hash) in tables.vectors
        for build, cut in live_cuts(outcome, collection)
        for chunk in cut.plan.born
    )


def vector_key(document: DocumentId, build: Build, input_hash: InputHash) -> VectorKey:
    return document.namespace, build.space.space_id, input_hash


# --- carrying out -------------------------------------------------------------------------------------------


def commit_indexed(tables: Tables, outcome: Indexed, row: DocumentRow, now: Instant) -> Verdict:
    collection = tables.collection(outcome.document.home)
    cuts = live_cuts(outcome, collection)
    was_visible = tables.is_visible(outcome.document)
    seq = tables.next_seq()
    own_metadata = (row.own_metadata or {}) if row.wanted_version <= outcome.version else outcome.own_metadata
    written = sum(write_cut(tables, outcome, build, cut, own_metadata, seq, now) for build, cut in cuts)
    if row.waiting_acl is not None and outcome.version >= row.waiting_acl[0]:
        row.acl, row.waiting_acl = row.waiting_acl[1], None
    shown = next((cut for build, cut in cuts if build == collection.served), cuts[0][1])
    reused = max(0, len(shown.plan.add) - outcome.embedded)
    first = not was_visible and outcome.moved_from is None
    tables.log.append(indexed_change(outcome, shown, seq, now, first=first, reused=reused))
    if outcome.moved_from is not None:
        take_away(tables, outcome.moved_from, row, now)
    if row.cause is not Cause.RECUT:
        tables.add_tallies(freshness_tallies(max(0.0, now - row.noticed_at)))
    settle(row, outcome, outcome.builds_done)
    name = "moved" if outcome.moved_from is not None else "updated" if was_visible else "added"
    tables.add_tallies(outcome_tallies(name, embedded=outcome.embedded, reused=reused, vector_rows=written))
    return Committed(seq)


def indexed_change(outcome: Indexed, shown: Cut, seq: Seq, now: Instant, *, first: bool, reused: int) -> Change:
    return Change(
        seq=seq,
        at=now,
        kind=ChangeKind.INDEXED,
        home=outcome.document.home,
        document=outcome.document,
        version=outcome.version,
        first=first,
        moved_from=outcome.moved_from,
        added=len(shown.plan.add),
        kept=len(shown.plan.keep),
        moved=len(shown.plan.move),
        dropped=len(shown.plan.drop),
        embedded=outcome.embedded,
        reused=reused,
    )


def write_cut(tables: Tables, outcome: Indexed, build: Build, cut: Cut, own_metadata: Metadata, seq: Seq, now: Instant) -> int:
    """Chunks die and are born, the old version dies, the new one is born: all at `seq`. Returns how many vectors are new."""
    key = (outcome.document, build.build_id)
    drop = frozenset(cut.plan.drop)
    for row in tables.living_chunks(*key):
        if row.chunk.chunk_id in drop:
            row.died = seq
    for chunk in cut.plan.born:
        tables.chunks[key].append(ChunkRow(chunk, seq))
        tables.holders[chunk.chunk_id].add(outcome.document)
    before = tables.living_version(*key)
    if before is not None:
        before.died = seq
    tables.versions[key].append(
        VersionRow(
            version=outcome.version,
            born=seq,
            title=cut.title,
            media_type=cut.media_type,
            language=cut.language,
            metadata=dict(cut.metadata),
            own_metadata=dict(own_metadata),
            content_hash=outcome.content_hash,
            layout=cut.layout,
            text=cut.text,
            indexed_at=now,
        )
    )
    return write_vectors(tables, outcome.document, build, cut)


def write_vectors(tables: Tables, document: DocumentId, build: Build, cut: Cut) -> int:
    held = len(tables.vectors)
    for input_hash, vector in cut.vectors.items():
        tables.vectors.setdefault(vector_key(document, build, input_hash), VectorRow(vector, None))
    for chunk in cut.plan.born:
        tables.vectors[vector_key(document, build, chunk.input_hash)].staged_by = None
    return len(tables.vectors) - held


def take_away(tables: Tables, old: DocumentId, row: DocumentRow, now: Instant) -> None:
    """The renamed document leaves its old uri in the same transaction; an alias keeps citations resolvable."""
    origin = tables.documents[old]
    row.moved_from = origin.moving_to = None
    tables.bury(origin, now, counted=False)
    tables.aliases[old] = row.document


def settle(row: DocumentRow, outcome: Indexed | Unchanged, builds_done: Several[BuildId]) -> None:
    """The ledger row after success: pending again only for what was noticed (or began to grow) since."""
    for build_id in builds_done:
        row.indexed[build_id] = outcome.version
    row.notices = [notice for notice in row.notices if notice.version > outcome.version]
    if row.notices:
        row.noticed_at = min(notice.at for notice in row.notices)
    row.content_hash = outcome.content_hash
    if outcome.signature is not None:
        row.signature, row.proven = outcome.signature, outcome.proven and not row.notices
    if row.mark is not DocumentState.HELD:
        known = isinstance(outcome, Unchanged) and row.code == FAULTS_CODE
        remark = (row.code, row.message) if known else remark_of(outcome.faults if isinstance(outcome, Indexed) else ())
        row.forget_failures()
        row.code, row.message = remark


def commit_unchanged(tables: Tables, outcome: Unchanged, row: DocumentRow, now: Instant) -> Verdict:
    settle(row, outcome, outcome.build_ids or (tables.collection(outcome.document.home).served.build_id,))
    tables.add_tallies(outcome_tallies("unchanged"))
    return Committed(tables.seq if show_belongings(tables, outcome, row, now) else None)


def show_belongings(tables: Tables, outcome: Unchanged, row: DocumentRow, now: Instant) -> bool:
    """What came with a version whose bytes turned out to be the ones that are served: they are its, too."""
    seen, waiting = False, row.waiting_acl
    if row.wanted_version <= outcome.version:
        seen = rewrite_metadata(tables, row, now, lambda _own: row.own_metadata or {})
    if waiting is not None and outcome.version >= waiting[0]:
        seen = permit(tables, row, waiting[1], now) or seen
    return seen


def commit_failed(tables: Tables, outcome: Failed, row: DocumentRow, now: Instant) -> Verdict:
    """A failure of a version that is not wanted any more says nothing about the one that is."""
    quarantined = outcome.retry_at is None
    tables.add_tallies(outcome_tallies("failed" if quarantined else "retried", embedded=outcome.embedded))
    if row.wanted_version > outcome.version:
        return Committed(None)
    row.attempts += 1
    row.code, row.message, row.retry_at = outcome.code, outcome.message, outcome.retry_at
    if not quarantined:
        return Committed(None)
    row.mark = DocumentState.QUARANTINED
    if row.moved_from is None:
        return Committed(None)
    origin, row.moved_from = tables.documents[row.moved_from], None
    origin.moving_to = None
    tables.bury(origin, now)
    return Committed(tables.seq)


def commit_vanished(tables: Tables, outcome: Vanished, row: DocumentRow, now: Instant) -> Verdict:
    if row.wanted_version > outcome.version:
        return Committed(None)
    before = tables.seq
    tables.bury(row, now)
    return Committed(tables.seq if tables.seq > before else None)
