"""Intents in memory: what is wanted, what is pending, what leaves at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from store.catalog.memory.tables import NO_VERSION, Claim, DocumentRow, Notice, Tables
from store.catalog.turns import take_turns
from store.catalog.visible import FAULTS_CODE, merged_patch, narrowed, patched_metadata
from store.errors import Misuse
from store.model import (
    Absent,
    Cause,
    CollectionId,
    Described,
    DocumentId,
    DocumentState,
    Held,
    Ignored,
    Instant,
    Intent,
    Metadata,
    PendingDocument,
    Present,
    Root,
    RootName,
    Seen,
    Sighting,
    SourceKind,
    Unset,
    Urgency,
    Version,
)
from store.ports import Tally


class MemoryLedger:
    """Implements ports.Ledger."""

    _tables: Tables

    def record(self, intents: Sequence[Intent]) -> list[Version | None]:
        tables = self._tables
        with tables.lock:
            for intent in intents:
                check_intent(tables, intent)
            now = tables.clock.now()
            batch = read_batch(tables, intents)
            return [record_intent(tables, intent, now, batch) for intent in intents]

    def pending(self, limit: int, now: Instant) -> list[PendingDocument]:
        tables = self._tables
        with tables.lock:
            due = [
                PendingDocument(row.document, row.wanted_version, row.noticed_at, row.urgency, row.cause, row.attempts)
                for row in tables.documents.values()
                if tables.wants_work(row) and (row.retry_at is None or row.retry_at <= now) and not has_live_lease(tables, row, now)
            ]
        return take_turns(due)[:limit]

    def sightings(self, root: Root, prefix: str = "") -> Iterable[Sighting]:
        """A document that is about to leave for its new uri is left out: its source no longer has it, and that is known."""
        tables = self._tables
        with tables.lock:
            claimed = [
                Sighting(claim.document.uri, DocumentState.CONFLICT, claim.signature, False, None, NO_VERSION)
                for claim in tables.claims
                if claim.document.home == root.home and claim.root == root.name
            ]
            rows = [
                Sighting(row.document.uri, tables.state(row), row.signature, row.proven, row.content_hash, row.wanted_version)
                for row in tables.documents_of(root.home)
                if row.root == root.name and row.mark is not DocumentState.DELETED and row.moving_to is None
            ]
        return sorted((row for row in rows + claimed if row.uri.startswith(prefix)), key=lambda row: row.uri)

    def retry(self, documents: Sequence[DocumentId] | None, home: CollectionId, now: Instant) -> int:
        tables = self._tables
        with tables.lock:
            tables.collection(home)
            rows = [row for row in tables.documents_of(home) if row.mark is DocumentState.QUARANTINED]
            chosen = [row for row in rows if documents is None or row.document in documents]
            for row in chosen:
                row.mark, row.cause, row.urgency = None, Cause.RETRIED, Urgency.URGENT
                row.wanted_version = tables.next_version()
                row.notices.append(Notice(row.wanted_version, now))
                row.forget_failures()
            return len(chosen)

    def add_tallies(self, tallies: Sequence[Tally]) -> None:
        with self._tables.lock:
            self._tables.add_tallies(tallies)


def has_live_lease(tables: Tables, row: DocumentRow, now: Instant) -> bool:
    """The lease's session exists and its beat is younger than the time the lease was taken for."""
    session = None if row.session_id is None else tables.sessions.get(row.session_id)
    return session is not None and session.beat_at > now - row.lease_seconds


# --- intents ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a document takes along when it is renamed."""

    own_metadata: Metadata | None
    acl: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What the intents of one call say together: names may swap."""

    targets: frozenset[tuple[DocumentId, RootName]]
    """What the batch wants present, and for which root."""
    belongings: Mapping[DocumentId, Belongings]
    """Of the documents that the batch moves, as they were before it."""

    def leaves(self, intent: Present) -> DocumentId | None:
        """What leaves its uri with the intent. A batch is simultaneous: what it wants present, too (a swap, a rotation), stays, and
        the move is a copy, which costs no embedding either."""
        return None if (intent.moved_from, intent.root) in self.targets else intent.moved_from


def read_batch(tables: Tables, intents: Sequence[Intent]) -> Batch:
    presents = [intent for intent in intents if isinstance(intent, Present)]
    moved = [tables.documents.get(intent.moved_from) for intent in presents if intent.moved_from is not None]
    belongings = {row.document: Belongings(row.own_metadata, row.wanted_acl) for row in moved if row is not None}
    return Batch(frozenset((intent.document, intent.root) for intent in presents), belongings)


def check_intent(tables: Tables, intent: Intent) -> None:
    if isinstance(intent, Present | Ignored):
        tables.collection(intent.document.home)
        home = intent.document.home
        if live_root(tables, intent) is None and (home, intent.root) not in tables.left_roots:
            raise Misuse(f"There is no root {intent.root!r}; register it first.")
    if isinstance(intent, Described) and not isinstance(intent.metadata, Unset):
        row = tables.documents.get(intent.document)
        patched_metadata((row and row.own_metadata) or {}, intent.metadata)


def live_root(tables: Tables, intent: Present | Ignored) -> Root | None:
    """None: the root was removed."""
    home = intent.document.home
    return next((root for root in tables.roots if (root.home, root.name) == (home, intent.root)), None)


def record_intent(tables: Tables, intent: Intent, now: Instant, batch: Batch) -> Version | None:
    match intent:
        case Present():
            return record_present(tables, intent, now, batch)
        case Absent():
            return record_absent(tables, intent, now)
        case Ignored():
            record_ignored(tables, intent, now)
        case Held():
            record_held(tables, intent)
        case Seen():
            record_seen(tables, intent)
        case Described():
            return record_described(tables, intent, now)
        case _:
            assert_never(intent)
    return None


def owned_by_another(row: DocumentRow, root: RootName) -> bool:
    return row.root != root and row.mark not in (DocumentState.DELETED, DocumentState.IGNORED)


def record_present(tables: Tables, intent: Present, now: Instant, batch: Batch) -> Version | None:
    root = live_root(tables, intent)
    if root is None:
        return None
    row = tables.documents.setdefault(intent.document, DocumentRow(intent.document, intent.root, noticed_at=intent.noticed_at))
    if owned_by_another(row, intent.root):
        record_claim(tables, intent, root, now, batch)
        return None
    if is_wanted_already(row, intent):
        give_belongings(tables, row, intent.metadata, intent.acl, now)
        return row.wanted_version
    tables.stay(row)
    inherited = Belongings(row.own_metadata, row.wanted_acl)
    old = find_moved(tables, intent)
    if old is not None:
        inherited = batch.belongings.get(old.document, Belongings(old.own_metadata, old.wanted_acl))
    leaving = batch.leaves(intent)
    if leaving is not None:
        tables.withdraw(leaving, intent.root)
        if old is not None:
            move(tables, old, row, now)
    notice(tables, row, intent)
    row.own_metadata = inherited.own_metadata if intent.metadata is None else dict(intent.metadata)
    await_acl(tables, row, inherited.acl, intent.acl, now)
    return row.wanted_version


def record_claim(tables: Tables, intent: Present, root: Root, now: Instant, batch: Batch) -> None:
    """The file waits for the uri's owner. What it was renamed from is gone, whatever became of its new name.

    An upload is not remembered: whoever sent it was told. Noticed again a claim keeps its place in the line.
    """
    if root.kind is not SourceKind.UPLOADS:
        claim = Claim(intent.document, intent.root, intent.noticed_at, intent.cause, intent.signature)
        known = next((place for place, one in enumerate(tables.claims) if (one.document, one.root) == (claim.document, claim.root)), None)
        if known is None:
            tables.claims.append(claim)
        else:
            tables.claims[known] = replace(claim, noticed_at=tables.claims[known].noticed_at)
    leaving = batch.leaves(intent)
    if leaving is None:
        return
    tables.withdraw(leaving, intent.root)
    old = find_moved(tables, intent)
    if old is not None:
        tables.bury(old, now)


def record_absent(tables: Tables, intent: Absent, now: Instant) -> Version | None:
    row = tables.documents.get(intent.document)
    if row is None or row.mark is DocumentState.DELETED:
        return None
    if intent.root not in (None, row.root):
        tables.withdraw(intent.document, intent.root)
        return None
    return tables.bury(row, now)


def is_wanted_already(row: DocumentRow, intent: Present) -> bool:
    equal = intent.content_hash is not None and row.wanted_hash == intent.content_hash
    same = equal and intent.media_type in (None, row.media_type)
    return same and row.wanted and row.mark is None and row.code in (None, FAULTS_CODE) and intent.moved_from is None


def notice(tables: Tables, row: DocumentRow, intent: Present) -> None:
    """The document is wanted at a new version; the oldest unserved notice and the most urgent one go on counting."""
    unserved = bool(row.notices) and tables.wants_work(row)
    if not unserved:
        row.notices.clear()
    row.wanted_version = tables.next_version()
    row.notices.append(Notice(row.wanted_version, intent.noticed_at))
    row.noticed_at = min(notice.at for notice in row.notices)
    row.urgency = min(row.urgency, intent.urgency) if unserved else intent.urgency
    is_same_content = row.wanted and intent.content_hash is not None and row.wanted_hash == intent.content_hash
    row.media_type = intent.media_type or (row.media_type if is_same_content else None)
    row.root, row.wanted, row.mark, row.cause = intent.root, True, None, intent.cause
    row.signature, row.proven, row.wanted_hash = intent.signature, False, intent.content_hash
    remark = (row.code, row.message) if row.code == FAULTS_CODE else (None, None)
    row.forget_failures()
    row.code, row.message = remark


def give_belongings(tables: Tables, row: DocumentRow, metadata: Metadata | None, acl: tuple[str, ...] | None, now: Instant) -> None:
    """Metadata and permissions of a document whose content stays. What is served of that content changes at once."""
    is_served = tables.indexed_version(row) >= row.wanted_version
    if metadata is not None and dict(metadata) != dict(row.own_metadata or {}):
        row.own_metadata = after = dict(metadata)
        if is_served:
            rewrite_metadata(tables, row, now, lambda _own: after)
    if acl is not None and is_served:
        permit(tables, row, acl, now)
    elif acl is not None:
        await_acl(tables, row, row.wanted_acl, acl, now)


def rewrite_metadata(tables: Tables, row: DocumentRow, now: Instant, rewritten: Callable[[Metadata], Metadata]) -> bool:
    """The same version with other metadata of its source's own is born, where it differs: text, layout and chunks stay."""
    builds = tables.collection(row.document.home).builds
    living = [(build, version) for build in builds if (version := tables.living_version(row.document, build.build_id)) is not None]
    changed = [(build, version) for build, version in living if dict(rewritten(version.own_metadata)) != dict(version.own_metadata)]
    if not changed:
        return False
    seq = tables.next_seq()
    for build, version in changed:
        after = replace(version, born=seq, own_metadata=dict(rewritten(version.own_metadata)))
        tables.versions[row.document, build.build_id].append(after)
        version.died = seq
    tables.log_metadata(row, now, seq)
    return True


def permit(tables: Tables, row: DocumentRow, acl: tuple[str, ...] | None, now: Instant) -> bool:
    """The permissions of what is served and of what is wanted; returns whether a reader sees the difference."""
    row.waiting_acl = None
    if acl == row.acl:
        return False
    row.acl = acl
    visible = tables.is_visible(row.document)
    if visible:
        tables.log_metadata(row, now, tables.next_seq())
    return visible


def await_acl(tables: Tables, row: DocumentRow, inherited: tuple[str, ...] | None, given: tuple[str, ...] | None, now: Instant) -> None:
    """Permissions of content that is wanted, from now on, and not served yet.

    What is served keeps its own, and loses at once whom an upload's new ones do not name. A worker that read before must not commit:
    it would show new bytes under the old permissions.
    """
    wanted, waiting = inherited if given is None else given, row.waiting_acl
    if not tables.is_visible(row.document):
        permit(tables, row, wanted, now)
        return
    kept = row.acl if given is None else narrowed(row.acl, given)
    permit(tables, row, kept, now)
    if wanted == kept:
        return
    since = row.wanted_version if waiting is None or waiting[1] != wanted else waiting[0]
    row.waiting_acl = (since, wanted)
    if since == row.wanted_version and row.session_id is not None:
        tables.free(row)


def record_described(tables: Tables, intent: Described, now: Instant) -> Version | None:
    row = tables.documents.get(intent.document)
    if row is None or row.mark is DocumentState.DELETED:
        return None
    if not isinstance(intent.metadata, Unset):
        describe(tables, row, intent.metadata, now)
    if not isinstance(intent.acl, Unset):
        permit(tables, row, intent.acl, now)
    if row.moving_to is not None:
        record_described(tables, replace(intent, document=row.moving_to), now)
    return row.wanted_version


def describe(tables: Tables, row: DocumentRow, patch: Metadata | None, now: Instant) -> None:
    """What is visible changes at once, an older version, too. A worker's commit takes what the ledger says by then, unless it is of a
    version that is not wanted any more: that one is refused, since it would show what the version came with."""
    before = row.own_metadata or {}
    after = patched_metadata(before, patch)
    if after != before:
        row.own_metadata = after
        if row.session_id is not None and row.wanted_version > row.leased_version:
            tables.free(row)
    rewrite_metadata(tables, row, now, lambda own: {} if patch is None else merged_patch(own, patch))


# --- moves --------------------------------------------------------------------------------------------------


def find_moved(tables: Tables, intent: Present) -> DocumentRow | None:
    """The ledger's row of what was renamed; None when nothing was, or when the old name is not known to hold anything of this root."""
    old = None if intent.moved_from is None or intent.moved_from == intent.document else tables.documents.get(intent.moved_from)
    return old if old is not None and old.root == intent.root and (old.wanted or old.moving_to is not None) else None


def move(tables: Tables, old: DocumentRow, row: DocumentRow, now: Instant) -> None:
    """Lets `row` take over what `old` shows; a chain a -> b -> c collapses to a -> c."""
    if old.moved_from is not None:
        start = tables.documents[old.moved_from]
        start.moving_to = old.moved_from = None
        tables.bury(old, now)
        let_leave(tables, start, row, now)
    elif tables.is_visible(old.document):
        let_leave(tables, old, row, now)
    else:
        tables.bury(old, now)


def let_leave(tables: Tables, origin: DocumentRow, row: DocumentRow, now: Instant) -> None:
    """`origin` stays served and wants nothing until the commit of `row` takes it away. What `row` waited for before leaves now."""
    tables.stay(origin)
    if row.moved_from is not None and row.moved_from != origin.document:
        tables.bury(tables.documents[row.moved_from], now)
    row.moved_from, origin.moving_to = origin.document, row.document
    origin.wanted, origin.mark = False, None
    origin.forget_failures()
    tables.free(origin)


# --- the others ---------------------------------------------------------------------------------------------


def record_ignored(tables: Tables, intent: Ignored, now: Instant) -> None:
    if live_root(tables, intent) is None:
        return
    row = tables.documents.setdefault(intent.document, DocumentRow(intent.document, intent.root, noticed_at=intent.noticed_at))
    if row.root != intent.root and row.mark is not DocumentState.DELETED:
        tables.withdraw(intent.document, intent.root)
        return
    if row.mark is not DocumentState.DELETED:
        tables.bury(row, now)
        if row.wanted:
            return
    row.mark, row.root, row.signature = DocumentState.IGNORED, intent.root, intent.signature
    row.code, row.message = "ignored", intent.reason


def record_held(tables: Tables, intent: Held) -> None:
    row = tables.documents.get(intent.document)
    if row is not None and row.wanted:
        row.mark, row.code, row.message = DocumentState.HELD, "held", intent.reason


def record_seen(tables: Tables, intent: Seen) -> None:
    row = tables.documents.get(intent.document)
    if row is None or not (row.wanted or row.mark is DocumentState.IGNORED):
        return
    row.signature, row.proven = intent.signature, intent.proven
    if row.mark is DocumentState.HELD:
        row.mark = row.code = row.message = None
