"""The keyword index of one namespace and collection: BM25 over a folder of its own, the newest rows served from memory at first.

It is derived: whatever is wrong with the folder, it is wiped and `position` is None, and the caller fills it again from the catalog.
One process writes it; any number of its threads search while one applies. It neither reads the catalog nor knows who may see what.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from store.errors import Misuse, Transient
from store.keywords.analysis import row_terms
from store.keywords.engine import Committed, Generation, stem
from store.keywords.flusher import Flusher
from store.keywords.fresh import Pending, Row
from store.keywords.pinned import Allowed, Pinned
from store.keywords.position_file import Recorded, generation_folder, read_recorded, remove_recorded, write_recorded
from store.keywords.rewriting import Journal, Rewriter, written_anew
from store.keywords.segments import is_intact
from store.model import ChunkId, CollectionId, Position

log = structlog.get_logger()

DEAD_SHARE_MAX = 0.1
"""The engine counts dead rows in its statistics: from this share on the live ones are written anew, so that scores stay true."""
FRESH_ROWS_MAX = 256
"""Changed chunks in memory from which on they are written out at once."""
WAITING_ROWS_MAX = 1_024
"""A change that would leave more than this in memory is written out before `apply` returns."""
LOCK_FILE = "lock"


class KeywordFolderTaken(Misuse):
    code = "keyword_folder_taken"
    sentence = "Another process writes the keyword index {path}; stop it, or give this retriever another --data."


class KeywordsUnwritable(Transient):
    code = "keywords_unwritable"
    sentence = "The keyword index {path} cannot be written: {reason}."


@dataclass(frozen=True, slots=True)
class KeywordRow:
    chunk_id: ChunkId
    document: str
    """The uri, for `documents=` of a search."""
    text: str
    title: str | None = None
    headings: tuple[str, ...] = ()


def folder_of(root: Path, home: CollectionId) -> Path:
    """The folder of a collection's index under `root`: any name is safe, and two names never share one."""
    named = json.dumps([home.namespace, home.collection]).encode()
    return root / hashlib.blake2b(named, digest_size=16).hexdigest()


class KeywordIndex:
    """Made by `open`. `apply` is for one caller at a time (a lock sees to it); `search` for any thread at any time.

    Locks are taken in the order they stand in `__init__`. `_pinned` and `_position` are replaced together under the last one and
    read without any.
    """

    def __init__(self, folder: Path, must_match: str, lock_file: int) -> None:
        self._folder = folder
        self._must_match = must_match
        self._lock_file = lock_file
        self._applying = threading.Lock()
        self._writing = threading.RLock()
        self._swapping = threading.Lock()
        self._pinned: Pinned
        self._position: Position | None = None
        self._on_disk: Position | None = None
        self._generation: Generation
        self._numbers = itertools.count(1)
        self._journal: Journal | None = None
        self._growing: Path | None = None
        self._flusher = Flusher(self.flush, str(folder))
        self._rewriter = Rewriter(self._write_anew, self.dead_share, DEAD_SHARE_MAX)

    @classmethod
    def open(cls, folder: Path, must_match: str) -> KeywordIndex:
        """Opens or creates the index in `folder`; one that is damaged, foreign or was filled under another `must_match` is emptied.

        Raises KeywordFolderTaken when another process has it open.
        """
        folder.mkdir(parents=True, exist_ok=True)
        index = cls(folder, must_match, _lock(folder))
        try:
            index._open_recorded_or_anew()
        except BaseException:
            os.close(index._lock_file)
            raise
        return index

    @property
    def position(self) -> Position | None:
        """Up to where the change log is in what is searched; None: nothing is known, fill it from the catalog."""
        return self._position

    # --- reading ---------------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        k: int,
        allowed: Allowed | Collection[ChunkId] | Callable[[ChunkId], bool] | None = None,
        *,
        documents: Collection[str] | None = None,
    ) -> list[tuple[ChunkId, float]]:
        """The k best chunks that hold any of the query's terms, best first, ties by chunk id: exactly k when k are admitted.

        `query` is plain text; nothing in it is syntax. `allowed` admits chunks (a set or a predicate), `documents` uris.
        """
        if isinstance(allowed, Collection):
            allowed = Allowed(frozenset(allowed))
        return self._pinned.search(query, k, allowed, documents)

    def count(self) -> int:
        return self._pinned.count()

    def holds(self, chunk_ids: Sequence[ChunkId]) -> set[ChunkId]:
        """Those of `chunk_ids` that a search could return."""
        return {ChunkId(bytes.fromhex(chunk)) for chunk in self._pinned.holds([chunk_id.hex() for chunk_id in chunk_ids])}

    def chunks_of(self, documents: Collection[str]) -> dict[str, set[ChunkId]]:
        """The chunks that a search could return of each document (uri); of an unknown one none."""
        return self._pinned.chunks_of(documents)

    def vocabulary(self) -> Iterator[str]:
        """Every term of a row, as the engine has it (stemmed), in order a field."""
        return self._pinned.vocabulary()

    def dead_share(self) -> float:
        """Share of the rows on disk that are gone and still counted by the statistics."""
        live, dead = self._pinned.committed.rows, self._generation.dead_rows()
        return dead / (live + dead) if dead else 0.0

    # --- writing ---------------------------------------------------------------------------------------------

    def apply(self, position: Position | None, removed: Sequence[ChunkId], added: Sequence[KeywordRow]) -> None:
        """Takes chunks out and puts chunks in (in this order; a chunk that is there is replaced): visible when it returns.

        Idempotent: applying again changes nothing. It is on disk some 200 ms later, or at once when it is large; a crash before leaves
        the older position, so it is applied again. With `position` None the index is still being filled, and says so when it is opened
        again. Raises KeywordsUnwritable, and nothing is changed then.
        """
        changes = {chunk_id.hex(): Pending(None, stem) for chunk_id in removed}
        changes |= {row.chunk_id.hex(): Pending(_row_of(row), stem) for row in added}
        with self._applying:
            if position is None or len(self._pinned.overlay.latest) + len(changes) > WAITING_ROWS_MAX:
                self._write_through(position, changes)
            else:
                self._take_in(position, changes)

    def flush(self) -> None:
        """Writes out what is only in memory: one durable commit. Raises KeywordsUnwritable; what is searched stays as it is."""
        with self._writing:
            with self._swapping:
                latest, position = self._pinned.overlay.latest, self._position
            if latest or position != self._on_disk:
                self._write(latest, position)

    def rewrite(self) -> None:
        """Writes the live rows into fresh files and removes the old ones: nothing of a row removed before the call stays on disk."""
        self.flush()
        self._rewriter.run_now()

    def clear(self) -> None:
        """Empties the index: position None, no rows, no files of the old ones."""
        with self._applying, self._writing:
            self._generation.close()
            self._start_anew()

    def close(self) -> None:
        """Writes out what is left and lets go of the folder. A second time does nothing."""
        self._flusher.close()
        self._rewriter.close()
        with self._applying, self._writing:
            if self._lock_file >= 0:
                try:
                    self.flush()
                except KeywordsUnwritable as error:
                    log.warning("keywords_not_flushed", path=str(self._folder), reason=error.message)
                self._generation.close()
                os.close(self._lock_file)
                self._lock_file = -1

    def _take_in(self, position: Position, changes: Mapping[str, Pending]) -> None:
        with self._swapping:
            self._pinned = self._pinned.with_changes(changes)
            self._position = position
            waiting = len(self._pinned.overlay.latest)
        self._flusher.waiting(urgent=waiting >= FRESH_ROWS_MAX)

    def _write_through(self, position: Position | None, changes: Mapping[str, Pending]) -> None:
        with self._writing:
            self._write({**self._pinned.overlay.latest, **changes}, position)
            self._position = position

    def _write(self, latest: Mapping[str, Pending], position: Position | None) -> None:
        """Writes the position last: a crash before leaves an older one, which is applied again."""
        try:
            committed = self._commit(latest)
            self._record(position)
        except (ValueError, OSError) as error:
            self._recover()
            raise KeywordsUnwritable(path=str(self._folder), reason=str(error)) from error
        with self._swapping:
            self._pinned = self._pinned.over(committed, latest)
        self._rewriter.wear()

    def _commit(self, latest: Mapping[str, Pending]) -> Committed:
        if not latest:
            return self._generation.committed()
        rows = {chunk: pending.row for chunk, pending in latest.items()}
        committed = self._generation.write(rows)
        if self._journal is not None:
            self._journal.note(rows)
        return committed

    def _record(self, position: Position | None, generation: Generation | None = None) -> None:
        if position is not None:
            number = (generation or self._generation).number
            write_recorded(self._folder, Recorded(number, position, self._must_match))
        else:
            remove_recorded(self._folder)
        self._on_disk = position

    def _recover(self) -> None:
        """After a failed write: back to what was committed with the rest still in memory, or, when that cannot be opened, to nothing.

        What cannot be had now is tried again by the next write: it fails at once on a closed generation.
        """
        with contextlib.suppress(ValueError, OSError):
            self._generation.close()
        try:
            recorded = self._opened_recorded()
            if recorded is None:
                self._start_anew()
            else:
                with self._swapping:
                    self._pinned = self._pinned.over(self._generation.committed(), {})
        except (ValueError, OSError) as error:
            log.warning("keywords_not_reopened", path=str(self._folder), reason=str(error))

    # --- writing anew ----------------------------------------------------------------------------------------

    def _write_anew(self, pause: Callable[[], bool]) -> None:
        """Copies the live rows into the next generation while the current one goes on, makes up for what changed, and switches.

        A crash before the switch leaves the current generation recorded; the other folder is removed when the index is opened.
        Raises KeywordsUnwritable.
        """
        with self._writing:
            old, (folder, number), journal = self._generation, self._next_folder(), Journal()
            source, self._growing, self._journal = old.committed(), folder, journal
        fresh, switched = None, False
        try:
            fresh = written_anew(source, folder, number, journal, pause)
            switched = fresh is not None and self._switch(old, fresh, journal)
        except (ValueError, OSError) as error:
            raise KeywordsUnwritable(path=str(self._folder), reason=str(error)) from error
        finally:
            unused = old if switched else fresh
            if unused is not None:
                with contextlib.suppress(ValueError):
                    unused.close()
            with self._writing:
                self._growing = self._journal = None
                _remove(old.folder if switched else folder)

    def _switch(self, old: Generation, fresh: Generation, journal: Journal) -> bool:
        """Returns False when the index was cleared or reopened meanwhile."""
        with self._writing:
            if self._generation is not old or self._lock_file < 0:
                return False
            committed = fresh.write(journal.taken())
            self._record(self._on_disk, fresh)
            with self._swapping:
                self._generation = fresh
                self._pinned = self._pinned.over(committed, {})
        return True

    def _next_folder(self) -> tuple[Path, int]:
        """A folder that nothing stands in."""
        while True:
            number = next(self._numbers)
            if not (folder := generation_folder(self._folder, number)).exists():
                return folder, number

    # --- opening ---------------------------------------------------------------------------------------------

    def _open_recorded_or_anew(self) -> None:
        recorded = self._opened_recorded()
        if recorded is None:
            self._start_anew()
        else:
            self._pinned, self._position = Pinned(self._generation.committed()), recorded.position

    def _opened_recorded(self) -> Recorded | None:
        """None when nothing whole is recorded."""
        recorded = read_recorded(self._folder, self._must_match)
        if recorded is None:
            return None
        folder = generation_folder(self._folder, recorded.generation)
        try:
            if not is_intact(folder):
                return None
            self._generation = Generation(folder, recorded.generation)
        except (ValueError, OSError):
            return None
        self._on_disk = recorded.position
        for path in self._folder.glob("generation-*"):
            if path not in (folder, self._growing):
                _remove(path)
        return recorded

    def _start_anew(self) -> None:
        self._on_disk = None
        for path in self._folder.iterdir():
            if path.name != LOCK_FILE and path != self._growing:
                _remove(path)
        self._generation = Generation(*self._next_folder())
        with self._swapping:
            self._pinned, self._position = Pinned(self._generation.committed()), None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _lock(folder: Path) -> int:
    lock_file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock_file)
        raise KeywordFolderTaken(path=str(folder)) from error
    return lock_file


def _row_of(row: KeywordRow) -> Row:
    terms = row_terms("\n".join((row.title or "", *row.headings, row.text)))
    return Row(row.chunk_id.hex(), row.document, " ".join(terms.words), " ".join(terms.singles))
