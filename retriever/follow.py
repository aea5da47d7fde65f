"""A collection in memory, level with the catalog: vectors, keyword index and document facts at one position.

Level-triggered and idempotent: a change names a document, and the replica makes its rows equal to what is visible of it now.
The keyword index lives in files with a cursor of its own; whatever is lapsed, of another build or missing is rebuilt from the catalog.
Nothing here answers a query, and nothing is written but the keyword files.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import structlog

from retriever.facts import DocumentFacts, facts_of, headings_in
from retriever.gate import Gate
from retriever.view import View
from store.clock import Clock
from store.errors import CursorLapsed, ReplicaBehind, UnknownCollection
from store.keywords.tantivy_index import KeywordIndex, KeywordRow, folder_of
from store.model import Build, ChunkId, Collection, CollectionId, DocumentId, Position, VisibleDocument
from store.ports import CatalogReader, Snapshot
from store.vectors.replica import Block

log = structlog.get_logger()

KEYWORD_ROWS_MAX = 4_096
"""Rows that a rebuild of the keyword index hands over at once."""
CAUGHT_UP_DOCUMENTS_MAX = 10_000
"""Changed documents above which everything is read anew rather than applied one by one."""
APPLIERS = 2
"""Threads that apply: a large load holds one, the others' changes go through the other."""
SWITCHES_MAX = 10
"""Times that a load begins again because the collection switched builds meanwhile."""


class CollectionReader(CatalogReader, Protocol):
    """A reader that also knows collections and the build each serves."""

    def collection(self, home: CollectionId) -> Collection | None: ...

    def collections(self) -> list[Collection]: ...


def covers(at: Position | None, head: Position) -> bool:
    """Whether a reader at `at` has applied all that was committed at `head`."""
    return at is not None and at.incarnation == head.incarnation and at.seq >= head.seq


class Replica:
    """One collection. `advance` is for one thread at a time; `reading` for any."""

    def __init__(self, home: CollectionId, catalog: CollectionReader, keywords_folder: Path) -> None:
        self.home = home
        self._catalog = catalog
        self._keywords_folder = folder_of(keywords_folder, home)
        self._keywords: KeywordIndex | None = None
        self._gate = Gate()
        self._view: View | None = None

    @property
    def position(self) -> Position | None:
        """Up to where every part is applied; None before the first load."""
        view = self._view
        return view.position if view is not None else None

    @contextmanager
    def reading(self) -> Iterator[View | None]:
        """The view, standing still at one position while it is read; None while there is none (before and during a load)."""
        with self._gate.reading():
            yield self._view

    def advance(self) -> None:
        """Applies what is committed by now. Running it twice changes nothing the second time.

        Raises UnknownCollection; KeywordsUnwritable and the catalog's errors, after which the view before stays and the next
        call goes on from it.
        """
        if covers(self.position, self._catalog.position()):
            return
        for _ in range(SWITCHES_MAX):
            served = self._served()
            with self._catalog.snapshot() as snapshot:
                if self._advance_to(snapshot, served):
                    return
        raise ReplicaBehind(at=self.position, head=self._catalog.position())

    def close(self) -> None:
        if self._keywords is not None:
            self._keywords.close()

    def remove(self) -> None:
        """Lets go of everything, the keyword files too; readers finish first. Only while nothing advances."""
        with self._gate.changing():
            self._view = None
        self.close()
        shutil.rmtree(self._keywords_folder, ignore_errors=True)

    def _served(self) -> Build:
        collection = self._catalog.collection(self.home)
        if collection is None:
            raise UnknownCollection(collection=self.home.collection, namespace=self.home.namespace)
        return collection.served

    def _advance_to(self, snapshot: Snapshot, served: Build) -> bool:
        """Returns False when the collection switched builds between the reading of `served` and the snapshot."""
        view = self._view
        changed = _changed(snapshot, view.position, self.home) if view is not None else None
        if view is None or changed is None or len(changed) > CAUGHT_UP_DOCUMENTS_MAX or view.keywords.position != view.position:
            return self._load(snapshot, served)
        self._apply(view, snapshot, changed)
        return True

    # --- a few documents changed ---------------------------------------------------------------------------------

    def _apply(self, view: View, snapshot: Snapshot, changed: Sequence[DocumentId]) -> None:
        visible = {document.document.uri: document for document in snapshot.documents(self.home, changed)} if changed else {}
        facts = {uri: facts_of(document) for uri, document in visible.items()}
        gone = [chunk_id for document in changed for chunk_id in _gone(view.documents.get(document.uri), facts.get(document.uri))]
        born = [row for row in snapshot.vectors(self.home, changed) if row.chunk_id not in view.owners] if changed else []
        reworded = [row for uri, document in visible.items() for row in _keyword_rows(document, view.documents.get(uri))]
        with self._gate.changing():
            view.keywords.apply(snapshot.position, gone, reworded)
            view.vectors.apply(gone, list(view.keyed(born)))
            for document in changed:
                view.replace(document.uri, facts.get(document.uri))
            view.position = snapshot.position

    # --- everything is read --------------------------------------------------------------------------------------

    def _load(self, snapshot: Snapshot, served: Build) -> bool:
        log.info("replica_loading", namespace=self.home.namespace, collection=self.home.collection, seq=snapshot.position.seq)
        with self._gate.changing():
            self._view = None
        view = View(snapshot.position, served, Block(self.home, served.space.dimensions), self._open_keywords(served), {})
        view.vectors.load(view.keyed(snapshot.vectors(self.home)))
        for document in snapshot.documents(self.home):
            view.replace(document.document.uri, facts_of(document))
        if self._served() != served:
            return False
        level_keywords(view.keywords, snapshot, self.home, len(view.owners))
        self._view = view
        log.info("replica_loaded", collection=self.home.collection, documents=len(view.documents), chunks=len(view.owners))
        return True

    def _open_keywords(self, served: Build) -> KeywordIndex:
        self.close()
        self._keywords = KeywordIndex.open(self._keywords_folder, f"{served.build_id}:{served.recipe.recipe_id}")
        return self._keywords


def level_keywords(keywords: KeywordIndex, snapshot: Snapshot, home: CollectionId, chunks: int) -> None:
    """Makes the index hold exactly the `chunks` visible ones of `home`: by the change log from its own cursor, else from nothing."""
    if not _caught_up_by_log(keywords, snapshot, home, chunks):
        log.info("keywords_rebuilding", namespace=home.namespace, collection=home.collection, chunks=chunks)
        _fill_keywords(keywords, snapshot, home)


def _caught_up_by_log(keywords: KeywordIndex, snapshot: Snapshot, home: CollectionId, chunks: int) -> bool:
    """What a changed document had before is asked of the index itself. A wrong count in the end means that something else was amiss."""
    if keywords.position is None:
        return False
    changed = _changed(snapshot, keywords.position, home)
    if changed is None or len(changed) > CAUGHT_UP_DOCUMENTS_MAX:
        return False
    rows = [row for document in snapshot.documents(home, changed) for row in _keyword_rows(document)] if changed else []
    before = keywords.chunks_of([document.uri for document in changed])
    keywords.apply(snapshot.position, [chunk_id for chunk_ids in before.values() for chunk_id in sorted(chunk_ids)], rows)
    return keywords.count() == chunks


def _fill_keywords(keywords: KeywordIndex, snapshot: Snapshot, home: CollectionId) -> None:
    keywords.clear()
    rows: list[KeywordRow] = []
    for document in snapshot.documents(home):
        rows += _keyword_rows(document)
        if len(rows) >= KEYWORD_ROWS_MAX:
            keywords.apply(None, (), rows)
            rows = []
    keywords.apply(snapshot.position, (), rows)


def _changed(snapshot: Snapshot, since: Position, home: CollectionId) -> Sequence[DocumentId] | None:
    """The documents that changed after `since`; None when only a rebuild is sure to be right."""
    if not covers(snapshot.position, since):
        return None
    try:
        changes = snapshot.changes(since, home)
    except CursorLapsed as lapse:
        log.warning("replica_lapsed", namespace=home.namespace, collection=home.collection, reason=lapse.message)
        return None
    return None if changes.rebuild else changes.documents


def _gone(before: DocumentFacts | None, now: DocumentFacts | None) -> list[ChunkId]:
    if before is None:
        return []
    kept = now.chunk_fields if now is not None else {}
    return [chunk_id for chunk_id in before.chunk_fields if chunk_id not in kept]


def _keyword_rows(document: VisibleDocument, before: DocumentFacts | None = None) -> Iterator[KeywordRow]:
    """The rows that differ from what `before` led to: new chunks, and those that stand under other headings or another title."""
    title_kept = before is not None and before.title == document.title
    for placement in document.layout.placements:
        headings = headings_in(placement.metadata)
        known = title_kept and before is not None and placement.chunk_id in before.chunk_fields
        if not (known and before is not None and before.headings_of(placement.chunk_id) == headings):
            yield KeywordRow(placement.chunk_id, document.document.uri, document.chunk_text(placement), document.title, headings)


def remove_unknown_keywords(folder: Path, homes: Sequence[CollectionId]) -> None:
    """Removes the keyword files of collections that were dropped while nobody followed."""
    wanted = {folder_of(folder, home).name for home in homes}
    for place in folder.iterdir() if folder.is_dir() else ():
        if place.is_dir() and place.name not in wanted:
            log.info("keywords_removed", folder=place.name)
            shutil.rmtree(place, ignore_errors=True)


# --- all collections -----------------------------------------------------------------------------------------


class Replicas:
    """The replicas of one process, each loaded on first use. Thread-safe.

    A replica is advanced by one thread of a small pool at a time, however many queries wait for it.
    """

    def __init__(self, catalog: CollectionReader, keywords_folder: Path, clock: Clock, patience_seconds: float) -> None:
        self._catalog = catalog
        self._keywords_folder = keywords_folder
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._appliers = ThreadPoolExecutor(APPLIERS, thread_name_prefix="apply")
        self._guard = threading.Lock()
        self._replicas: dict[CollectionId, Replica] = {}
        self._advancing: dict[CollectionId, Future[None]] = {}
        self._stalled: dict[CollectionId, str] = {}

    @contextmanager
    def reading(self, home: CollectionId) -> Iterator[View]:
        """A view of `home` that has applied all that was committed before the call, standing still while it is read.

        Raises UnknownCollection; ReplicaBehind when that takes longer than the patience; what `Replica.advance` raises.
        """
        replica = self._replica(home)
        head = self._catalog.position()
        give_up_at = self._clock.monotonic() + self._patience_seconds
        while True:
            with replica.reading() as view:
                if view is not None and covers(view.position, head):
                    yield view
                    return
            if view is not None and view.position.incarnation != head.incarnation:
                head = self._catalog.position()
            self._wait(self._advance(replica), give_up_at, replica, head)

    def load_known(self) -> None:
        """Begins to load every collection that the catalog has; returns at once. Keyword files of others are removed."""
        homes = [collection.home for collection in self._catalog.collections()]
        remove_unknown_keywords(self._keywords_folder, homes)
        for home in homes:
            self._advance(self._replica(home))

    def advance_loaded(self) -> None:
        """Applies what is committed to every replica in use and waits for it; one that cannot is logged by name and tried again.

        The replica of a collection that was dropped leaves, with its keyword files."""
        head = self._catalog.position()
        with self._guard:
            behind = [replica for replica in self._replicas.values() if not covers(replica.position, head)]
        behind = [replica for replica in behind if not self._left(replica)]
        advancing = {replica.home: self._advance(replica) for replica in behind}
        wait(advancing.values())
        for home, advance in advancing.items():
            self._note(home, advance.exception())

    def positions(self) -> dict[CollectionId, Position | None]:
        """How far each replica in use is; None: not loaded yet."""
        with self._guard:
            return {home: replica.position for home, replica in self._replicas.items()}

    def close(self) -> None:
        """Waits for what is being applied and lets the keyword files go. Nothing is read after it."""
        self._appliers.shutdown(wait=True, cancel_futures=True)
        for replica in self._replicas.values():
            replica.close()

    def _replica(self, home: CollectionId) -> Replica:
        with self._guard:
            known = self._replicas.get(home)
        if known is not None:
            return known
        if self._catalog.collection(home) is None:
            raise UnknownCollection(collection=home.collection, namespace=home.namespace)
        with self._guard:
            return self._replicas.setdefault(home, Replica(home, self._catalog, self._keywords_folder))

    def _left(self, replica: Replica) -> bool:
        """Whether the replica's collection is gone; then so is the replica, unless it is just being advanced: the next look removes it."""
        if self._catalog.collection(replica.home) is not None:
            return False
        with self._guard:
            running = self._advancing.get(replica.home)
            if running is None or running.done():
                replica.remove()
                for known in (self._replicas, self._advancing, self._stalled):
                    known.pop(replica.home, None)
                log.info("replica_dropped", namespace=replica.home.namespace, collection=replica.home.collection)
        return True

    def _advance(self, replica: Replica) -> Future[None]:
        with self._guard:
            if self._replicas.get(replica.home) is not replica:  # it was removed meanwhile: its files are another's by now
                raise UnknownCollection(collection=replica.home.collection, namespace=replica.home.namespace)
            running = self._advancing.get(replica.home)
            if running is None or running.done():
                running = self._advancing[replica.home] = self._appliers.submit(replica.advance)
            return running

    def _wait(self, advance: Future[None], give_up_at: float, replica: Replica, head: Position) -> None:
        seconds_left = give_up_at - self._clock.monotonic()
        if seconds_left <= 0 or not wait([advance], seconds_left).done:
            at = replica.position
            raise ReplicaBehind(at=at.seq if at is not None else None, head=head.seq)
        advance.result()

    def _note(self, home: CollectionId, error: BaseException | None) -> None:
        """Logs a stall when it begins or changes, not at every look."""
        reason = str(error) if error is not None else ""
        if reason and self._stalled.get(home) != reason:
            log.warning("replica_stalled", namespace=home.namespace, collection=home.collection, reason=reason)
        self._stalled[home] = reason
