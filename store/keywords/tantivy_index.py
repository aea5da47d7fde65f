"""The keyword index of one namespace and collection: BM25 (k1 1.2, b 0.75) in a tantivy folder. This is tantivy's only door.

It is derived: whatever is wrong with the folder, it is wiped and `position` is None, and the caller fills it again from the catalog.
One process writes it; any number of its threads search while one applies. It neither reads the catalog nor knows who may see what.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tantivy

from store.errors import Misuse, Transient
from store.keywords.analysis import ANALYSIS_VERSION, query_terms, row_terms
from store.keywords.segments import dead_rows, is_intact
from store.model import ChunkId, CollectionId, Position, Seq

FORMAT_VERSION = 1
DEAD_SHARE_MAX = 0.1
"""tantivy counts dead rows in its statistics: from this share on the live ones are written anew, so that scores stay true."""
QUERY_TERMS_MAX = 256
ALLOWED_PUSHED_MAX = 100
"""A smaller set of allowed chunks goes into the query itself (about 40 us a chunk); a larger one is asked hit by hit."""
SPARE_HITS = 16
WRITER_BYTES = 32_000_000
POSITION_FILE = "position.json"
LOCK_FILE = "lock"
STEMMED = "stemmed"


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


@dataclass(frozen=True, slots=True)
class _Terms:
    """A row as the engine holds it: enough to write it anew without its text."""

    chunk: str
    document: str
    words: str
    singles: str


@dataclass(slots=True)
class _Generation:
    """One tantivy folder with its only writer. What is searched is swapped whole, so a reader never sees one half filled."""

    number: int
    folder: Path
    index: Any
    writer: Any

    def add(self, rows: Iterable[_Terms]) -> None:
        for row in rows:
            self.writer.add_document(_document(row))

    def commit(self) -> None:
        self.writer.commit()
        self.index.reload()

    def close(self) -> None:
        self.writer.wait_merging_threads()


def folder_of(root: Path, home: CollectionId) -> Path:
    """The folder of a collection's index under `root`: any name is safe, and two names never share one."""
    named = json.dumps([home.namespace, home.collection]).encode()
    return root / hashlib.blake2b(named, digest_size=16).hexdigest()


class KeywordIndex:
    """Made by `open`. `apply` is for one caller at a time (a lock sees to it); `search` for any thread at any time."""

    def __init__(self, folder: Path, must_match: str, lock_file: int) -> None:
        self._folder = folder
        self._must_match = must_match
        self._lock_file = lock_file
        self._writing = threading.RLock()
        self._position: Position | None = None
        self._analyzer = _stemming_analyzer()
        self._current: _Generation

    @classmethod
    def open(cls, folder: Path, must_match: str) -> KeywordIndex:
        """Opens or creates the index in `folder`; one that is damaged, foreign or was filled under another `must_match` is emptied.

        Raises KeywordFolderTaken when another process has it open.
        """
        folder.mkdir(parents=True, exist_ok=True)
        index = cls(folder, must_match, _lock(folder))
        try:
            index._open_recorded_or_anew(1)
        except BaseException:
            os.close(index._lock_file)
            raise
        return index

    @property
    def position(self) -> Position | None:
        """Up to where the change log is in here; None: nothing is known, fill it from the catalog."""
        return self._position

    def apply(self, position: Position | None, removed: Sequence[ChunkId], added: Sequence[KeywordRow]) -> None:
        """Takes chunks out and puts chunks in (in this order; a chunk that is there is replaced): one durable commit, then visible.

        Idempotent: applying again changes nothing. A crash in between leaves the older position, so it is applied again. With
        `position` None the index is still being filled and says so when it is opened again. Raises KeywordsUnwritable.
        """
        rows = {row.chunk_id: row for row in added}
        with self._writing:
            try:
                self._apply_rows({*removed, *rows}, [_terms_of(row) for row in rows.values()])
                self._record(position)
            except (ValueError, OSError) as error:
                self._recover()
                raise KeywordsUnwritable(path=str(self._folder), reason=str(error)) from error

    def search(
        self,
        query: str,
        k: int,
        allowed: Collection[ChunkId] | Callable[[ChunkId], bool] | None = None,
        *,
        documents: Collection[str] | None = None,
    ) -> list[tuple[ChunkId, float]]:
        """The k best chunks that hold any of the query's terms, best first, ties by chunk id: exactly k when k are admitted.

        `query` is plain text; nothing in it is syntax. `allowed` admits chunks (a set or a predicate), `documents` uris.
        """
        searcher, schema = self._searcher()
        pushed = _pushed_filters(schema, allowed, documents)
        wanted = _query_of(schema, query_terms(query), self._analyzer.analyze)
        if wanted is None or k < 1:
            return []
        admits = _predicate(allowed)
        full = tantivy.Query.boolean_query([(tantivy.Occur.Must, part) for part in (wanted, *pushed)]) if pushed else wanted
        return _best(searcher, full, k, admits)

    def count(self) -> int:
        return int(self._current.index.searcher().num_docs)

    def holds(self, chunk_ids: Sequence[ChunkId]) -> set[ChunkId]:
        """Those of `chunk_ids` that a search could return."""
        searcher, schema = self._searcher()
        query = tantivy.Query.term_set_query(schema, "chunk", [chunk_id.hex() for chunk_id in chunk_ids])
        return {ChunkId(bytes.fromhex(row.chunk)) for row in _stored(searcher, query)}

    def vocabulary(self) -> Iterator[str]:
        """Every term of a live row, as the engine has it (stemmed), in order."""
        searcher = self._current.index.searcher()
        for field in ("words", "singles"):
            for term, _ in searcher.terms_with_prefix(field, "", filter_query=tantivy.Query.all_query()):
                yield term

    def dead_share(self) -> float:
        """Share of rows that are gone and still counted by the statistics."""
        live, dead = self.count(), dead_rows(self._current.folder)
        return dead / (live + dead) if dead else 0.0

    def rewrite(self) -> None:
        """Writes the live rows into fresh files and removes the old ones: nothing of a removed row stays on disk."""
        with self._writing:
            old = self._current
            self._remove_other_generations()
            fresh = self._new_generation(old.number + 1)
            fresh.add(_stored(old.index.searcher(), tantivy.Query.all_query()))
            fresh.commit()
            self._current = fresh
            self._record(self._position)
            old.close()
            self._remove_other_generations()

    def clear(self) -> None:
        """Empties the index: position None, no rows, no files of the old ones."""
        with self._writing:
            self._current.close()
            self._start_anew(self._current.number + 1)

    def close(self) -> None:
        """Lets go of the folder. A second time does nothing."""
        with self._writing:
            if self._lock_file >= 0:
                self._current.close()
                os.close(self._lock_file)
                self._lock_file = -1

    # --- writing --------------------------------------------------------------------------------------------

    def _apply_rows(self, gone: set[ChunkId], new: list[_Terms]) -> None:
        current, searcher = self._current, self._current.index.searcher()
        there = [chunk for chunk in (chunk_id.hex() for chunk_id in gone) if searcher.doc_freq("chunk", chunk)]
        if not there and not new:
            return
        dead = dead_rows(current.folder)
        if there and dead + len(there) > DEAD_SHARE_MAX * (searcher.num_docs + dead + len(new)):
            absent = set(there)
            new = [row for row in _stored(searcher, tantivy.Query.all_query()) if row.chunk not in absent] + new
            current.writer.delete_documents_by_query(tantivy.Query.all_query())
        else:
            for chunk in there:
                current.writer.delete_documents_by_term("chunk", chunk)
        current.add(new)
        current.commit()

    def _record(self, position: Position | None) -> None:
        """Writes the position last: a crash before leaves an older one, which is applied again."""
        if position is not None:
            recorded = {
                "format": FORMAT_VERSION,
                "analysis": ANALYSIS_VERSION,
                "must_match": self._must_match,
                "generation": self._current.number,
                "incarnation": position.incarnation,
                "seq": position.seq,
            }
            unfinished = self._folder / (POSITION_FILE + ".new")
            unfinished.write_text(json.dumps(recorded), "utf-8")
            unfinished.replace(self._folder / POSITION_FILE)
        else:
            (self._folder / POSITION_FILE).unlink(missing_ok=True)
        self._position = position

    def _recover(self) -> None:
        """After a failed write: back to what was committed, or, when even that cannot be opened, to nothing."""
        with contextlib.suppress(ValueError):
            self._current.close()
        self._open_recorded_or_anew(self._current.number + 1)

    def _searcher(self) -> tuple[Any, Any]:
        index = self._current.index
        return index.searcher(), index.schema

    # --- opening and closing --------------------------------------------------------------------------------

    def _open_recorded_or_anew(self, number: int) -> None:
        if not self._open_recorded():
            self._start_anew(number)

    def _open_recorded(self) -> bool:
        try:
            recorded = json.loads((self._folder / POSITION_FILE).read_text("utf-8"))
            position = Position(str(recorded["incarnation"]), Seq(int(recorded["seq"])))
            known = (recorded["format"], recorded["analysis"], recorded["must_match"])
            number = int(recorded["generation"])
            if known != (FORMAT_VERSION, ANALYSIS_VERSION, self._must_match) or not is_intact(self._generation_folder(number)):
                return False
            self._current = self._new_generation(number)
        except (ValueError, KeyError, TypeError, OSError):
            return False
        self._position = position
        self._remove_other_generations()
        return True

    def _start_anew(self, number: int) -> None:
        self._position = None
        for path in self._folder.iterdir():
            if path.name != LOCK_FILE:
                _remove(path)
        self._current = self._new_generation(number)

    def _new_generation(self, number: int) -> _Generation:
        folder = self._generation_folder(number)
        folder.mkdir(parents=True, exist_ok=True)
        index = tantivy.Index(_schema(), path=str(folder))
        index.register_tokenizer(STEMMED, self._analyzer)
        index.config_reader("manual")
        index.reload()
        return _Generation(number, folder, index, index.writer(WRITER_BYTES, 1))

    def _generation_folder(self, number: int) -> Path:
        return self._folder / f"generation-{number}"

    def _remove_other_generations(self) -> None:
        for path in self._folder.glob("generation-*"):
            if path != self._current.folder:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _lock(folder: Path) -> int:
    lock_file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock_file)
        raise KeywordFolderTaken(path=str(folder)) from error
    return lock_file


# --- rows and queries in tantivy's terms --------------------------------------------------------------------


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("chunk", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("high", fast=True)
    builder.add_unsigned_field("low", fast=True)
    builder.add_text_field("document", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("words", stored=True, tokenizer_name=STEMMED, index_option="freq")
    builder.add_text_field("singles", stored=True, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


def _stemming_analyzer() -> Any:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(tantivy.Filter.stemmer("english")).build()


def _terms_of(row: KeywordRow) -> _Terms:
    terms = row_terms("\n".join((row.title or "", *row.headings, row.text)))
    return _Terms(row.chunk_id.hex(), row.document, " ".join(terms.words), " ".join(terms.singles))


def _document(row: _Terms) -> Any:
    document = tantivy.Document()
    document.add_text("chunk", row.chunk)
    document.add_unsigned("high", int(row.chunk[:16], 16))
    document.add_unsigned("low", int(row.chunk[16:], 16))
    document.add_text("document", row.document)
    document.add_text("words", row.words)
    document.add_text("singles", row.singles)
    return document


def _stored(searcher: Any, query: Any) -> Iterator[_Terms]:
    for _, address in searcher.search(query, max(1, searcher.num_docs), count=False).hits:
        stored = searcher.doc(address)
        yield _Terms(*(stored.get_first(field) for field in ("chunk", "document", "words", "singles")))


def _query_of(schema: Any, terms: Any, stem: Callable[[str], list[str]]) -> Any:
    """The OR of the terms, a repeated one counting as often as it stands there; None when there is none."""
    counted = Counter([("words", term) for term in stem(" ".join(terms.words))] + [("singles", term) for term in terms.singles])
    parts = []
    for (field, term), times in list(counted.items())[:QUERY_TERMS_MAX]:
        query = tantivy.Query.term_query(schema, field, term, index_option="freq")
        parts.append((tantivy.Occur.Should, tantivy.Query.boost_query(query, float(times)) if times > 1 else query))
    return tantivy.Query.boolean_query(parts) if parts else None


def _pushed_filters(schema: Any, allowed: object, documents: Collection[str] | None) -> list[Any]:
    pushed = []
    if documents is not None:
        pushed.append(tantivy.Query.term_set_query(schema, "document", list(documents)))
    if isinstance(allowed, Collection) and len(allowed) <= ALLOWED_PUSHED_MAX:
        pushed.append(tantivy.Query.term_set_query(schema, "chunk", [chunk_id.hex() for chunk_id in allowed]))
    return [tantivy.Query.const_score_query(query, 0.0) for query in pushed]


def _predicate(allowed: Collection[ChunkId] | Callable[[ChunkId], bool] | None) -> Callable[[ChunkId], bool]:
    if allowed is None:
        return lambda _: True
    if callable(allowed):
        return allowed
    return (allowed if isinstance(allowed, (set, frozenset, dict)) else frozenset(allowed)).__contains__


def _best(searcher: Any, query: Any, k: int, admits: Callable[[ChunkId], bool]) -> list[tuple[ChunkId, float]]:
    """Asks for more until k are admitted and no row of the last one's score is left out (tantivy breaks ties by its own row numbers)."""
    admitted: list[tuple[ChunkId, float]] = []
    seen, limit = 0, k + SPARE_HITS
    while True:
        hits = searcher.search(query, min(limit, max(1, searcher.num_docs)), count=False).hits
        admitted += [hit for hit in _identified(searcher, hits[seen:]) if admits(hit[0])]
        exhausted = len(hits) < limit
        if exhausted or (len(admitted) >= k and hits[-1][0] < admitted[k - 1][1]):
            return sorted(admitted, key=lambda hit: (-hit[1], hit[0]))[:k]
        seen, limit = len(hits), limit * 4


def _identified(searcher: Any, hits: list[tuple[float, Any]]) -> Iterator[tuple[ChunkId, float]]:
    addresses = [address for _, address in hits]
    highs = searcher.fast_field_values("high", addresses)
    lows = searcher.fast_field_values("low", addresses)
    for (score, _), high, low in zip(hits, highs, lows, strict=True):
        yield ChunkId(high.to_bytes(8, "big") + low.to_bytes(8, "big")), float(score)
