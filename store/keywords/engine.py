"""One tantivy folder, as its only writer and as what one commit of it shows. This is tantivy's only door.

Rows come as terms, split already; stemming is done here. BM25 with k1 1.2 and b 0.75, tantivy's own. A commit's view never changes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tantivy

from store.keywords.fresh import Asked, FieldLength, Row
from store.keywords.segments import dead_rows
from store.model import ChunkId

WRITER_BYTES = 32_000_000
STEMMED = "stemmed"
SPARE_HITS = 16
PAGE_ROWS = 5_000
"""Rows read at once when all are read: a page is built while no other thread of this process runs."""


def _stemming_analyzer() -> Any:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(tantivy.Filter.stemmer("english")).build()


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("chunk", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("high", fast=True, indexed=True)
    builder.add_unsigned_field("low", fast=True)
    builder.add_text_field("document", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("words", stored=True, tokenizer_name=STEMMED, index_option="freq")
    builder.add_text_field("singles", stored=True, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


_STEMMER = _stemming_analyzer()
_SCHEMA = _schema()


def stem(words: str) -> list[str]:
    """The terms of words that stand between spaces, as the engine has them."""
    stems: list[str] = _STEMMER.analyze(words)
    return stems


class Generation:
    """A folder with its only writer. What is searched is swapped whole, so a reader never sees a generation half filled."""

    def __init__(self, folder: Path, number: int) -> None:
        """Opens the folder or creates it. Raises ValueError and OSError, as everything here that writes."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.number = folder, number
        self._index = _opened(folder)
        self._writer = self._index.writer(WRITER_BYTES, 1)

    def add(self, rows: Iterable[Row]) -> None:
        """Seen with the next `write`."""
        for row in rows:
            self._writer.add_document(_document(row))

    def write(self, latest: Mapping[str, Row | None]) -> Committed:
        """Makes each chunk what it is in `latest` (None: gone), in one durable commit, and returns what it shows."""
        for chunk in latest:
            self._writer.delete_documents_by_term("chunk", chunk)
        self.add(row for row in latest.values() if row is not None)
        self._writer.commit()
        self._index.reload()
        return self.committed()

    def committed(self) -> Committed:
        return Committed(self._index.searcher())

    def dead_rows(self) -> int:
        return dead_rows(self.folder)

    def close(self) -> None:
        """Waits for merges and gives up what was not committed."""
        self._writer.wait_merging_threads()


def open_committed(folder: Path) -> Committed:
    """What is committed in `folder`, beside whoever writes it. Raises ValueError when there is no whole index."""
    return Committed(_opened(folder, create=False).searcher())


def _opened(folder: Path, create: bool = True) -> Any:
    index = tantivy.Index(_SCHEMA, path=str(folder)) if create else tantivy.Index.open(str(folder))
    index.register_tokenizer(STEMMED, _STEMMER)
    index.config_reader("manual")
    index.reload()
    return index


@dataclass(frozen=True)
class Committed:
    """The rows of one commit."""

    searcher: Any
    _lengths: dict[str, FieldLength] = field(default_factory=dict, init=False, repr=False)

    @property
    def rows(self) -> int:
        return int(self.searcher.num_docs)

    def frequency(self, field: str, term: str) -> int:
        """Rows that hold the term, dead ones included, as the scores count them."""
        return int(self.searcher.doc_freq(field, term))

    def length(self, field: str, likely: Iterable[str]) -> FieldLength:
        """The rows and their length in a field as scores count them: dead ones included. `likely` are terms that a row may hold.

        The engine tells it where it explains a hit, so some hit is needed; to look for a term among all is slow.
        """
        if field not in self._lengths:
            self._lengths[field] = self._length(field, likely)
        return self._lengths[field]

    def _length(self, field: str, likely: Iterable[str]) -> FieldLength:
        for term in itertools.chain(likely, self._any_terms(field)):
            if self.frequency(field, term):
                query = tantivy.Query.term_query(_SCHEMA, field, term, index_option="freq")
                for _, address in self.searcher.search(query, 1, count=False).hits:
                    return _length_in(query.explain(self.searcher, address).to_json())
        return FieldLength(self.rows, 0.0)

    def _any_terms(self, field: str) -> Iterator[str]:
        for term, _ in self.searcher.terms_with_prefix(field, "", filter_query=tantivy.Query.all_query(), limit=1):
            yield term

    def live(self, chunks: Collection[str]) -> frozenset[str]:
        """Those of the chunks (hex) that have a row."""
        there = [chunk for chunk in chunks if self.searcher.doc_freq("chunk", chunk)]
        if not there:
            return frozenset()
        return frozenset(row.chunk for row in self._stored(tantivy.Query.term_set_query(_SCHEMA, "chunk", there), len(there)))

    def of_documents(self, documents: Collection[str]) -> Iterator[Row]:
        return self._stored(tantivy.Query.term_set_query(_SCHEMA, "document", list(documents)), max(1, self.rows))

    def pages(self) -> Iterator[list[Row]]:
        """Every row, a page at a time."""
        for start in range(0, self.rows, PAGE_ROWS):
            yield list(self._stored(tantivy.Query.all_query(), PAGE_ROWS, start))

    def terms(self, field: str, without: Collection[str]) -> list[str]:
        """The terms of the rows, those of the chunks `without` left out, in order."""
        these = tantivy.Query.all_query()
        if without:
            gone = tantivy.Query.term_set_query(_SCHEMA, "chunk", list(without))
            these = tantivy.Query.boolean_query([(tantivy.Occur.Must, these), (tantivy.Occur.MustNot, gone)])
        return [term for term, _ in self.searcher.terms_with_prefix(field, "", filter_query=these)]

    def best(
        self,
        wanted: Wanted,
        k: int,
        admits: Callable[[ChunkId], bool],
        *,
        looked_at_first: int = 0,
        first_halves: Collection[int] | None = None,
        rescore: Callable[[Row], float] | None = None,
        growth_max: float = 1.0,
    ) -> list[tuple[ChunkId, float]]:
        """The k best that are admitted, best first, ties by chunk id. `rescore` may raise a score by `growth_max` times at most.

        Asks for more until k are admitted and no row that could still be among them is left out (the engine breaks ties by its own
        row numbers). Only hits whose chunk id begins with one of `first_halves` (None: any) are asked whether they are admitted.
        """
        admitted: list[tuple[ChunkId, float]] = []
        seen, limit = 0, max(looked_at_first, k) + SPARE_HITS
        while True:
            hits = self.searcher.search(wanted.query, min(limit, max(1, self.rows)), count=False).hits
            for chunk_id, score, address in self._identified(hits[seen:], first_halves):
                if admits(chunk_id):
                    admitted.append((chunk_id, score if rescore is None else rescore(self._row(address))))
            ranked = sorted(admitted, key=lambda hit: (-hit[1], hit[0]))[:k]
            if len(hits) < limit or (len(ranked) == k and hits[-1][0] * growth_max < ranked[-1][1]):
                return ranked
            seen, limit = len(hits), limit * 4

    def _identified(self, hits: Sequence[tuple[float, Any]], first_halves: Collection[int] | None) -> Iterator[tuple[ChunkId, float, Any]]:
        """Asking two columns for all hits is quick; making a chunk id of each costs more than all the rest."""
        highs = self.searcher.fast_field_values("high", [address for _, address in hits])
        kept = [at for at, high in enumerate(highs) if first_halves is None or high in first_halves]
        lows = self.searcher.fast_field_values("low", [hits[at][1] for at in kept])
        for at, low in zip(kept, lows, strict=True):
            score, address = hits[at]
            yield ChunkId(highs[at].to_bytes(8, "big") + low.to_bytes(8, "big")), float(score), address

    def _stored(self, query: Any, limit: int, offset: int = 0) -> Iterator[Row]:
        for _, address in self.searcher.search(query, limit, count=False, offset=offset).hits:
            yield self._row(address)

    def _row(self, address: Any) -> Row:
        stored = self.searcher.doc(address)
        return Row(*(stored.get_first(field) for field in ("chunk", "document", "words", "singles")))


def _length_in(explanation: str) -> FieldLength:
    """The figures that the engine names when it explains a term's score."""
    found: dict[str, float] = {}

    def collect(part: Mapping[str, Any]) -> None:
        found[part["description"].split(",", 1)[0]] = part["value"]
        for inner in part.get("details") or ():
            collect(inner)

    collect(json.loads(explanation))
    return FieldLength(int(found["N"]), found["N"] * found["avgdl"])


# --- rows and queries in tantivy's terms --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query in the engine's terms."""

    query: Any


def _document(row: Row) -> Any:
    document = tantivy.Document()
    document.add_text("chunk", row.chunk)
    document.add_unsigned("high", int(row.chunk[:16], 16))
    document.add_unsigned("low", int(row.chunk[16:], 16))
    document.add_text("document", row.document)
    document.add_text("words", row.words)
    document.add_text("singles", row.singles)
    return document


def wanted(asked: Iterable[tuple[Asked, float]], only: Sequence[Wanted] = ()) -> Wanted:
    """The OR of the terms, each weighing so many times what it weighs by itself, among the rows that fulfil `only`."""
    parts = []
    for term, weight in asked:
        query = tantivy.Query.term_query(_SCHEMA, term.field, term.term, index_option="freq")
        parts.append((tantivy.Occur.Should, query if weight == 1.0 else tantivy.Query.boost_query(query, weight)))
    terms = tantivy.Query.boolean_query(parts)
    if not only:
        return Wanted(terms)
    filters = [tantivy.Query.const_score_query(each.query, 0.0) for each in only]
    return Wanted(tantivy.Query.boolean_query([(tantivy.Occur.Must, part) for part in (terms, *filters)]))


def one_of_documents(documents: Iterable[str]) -> Wanted:
    return _one_of("document", documents)


def one_of_chunks(chunk_ids: Iterable[ChunkId]) -> Wanted:
    """By the first half of the chunk id: a number is found quicker than a text. The caller asks each hit once more."""
    return _one_of("high", map(first_half, chunk_ids))


def first_half(chunk_id: ChunkId) -> int:
    return int.from_bytes(chunk_id[:8], "big")


def _one_of(field: str, values: Iterable[object]) -> Wanted:
    """An OR of single terms: four times as quick as the engine's set of terms, which walks the whole dictionary."""
    terms = [tantivy.Query.term_query(_SCHEMA, field, value, index_option="basic") for value in values]
    return Wanted(tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms]))
