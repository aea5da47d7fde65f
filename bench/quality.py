"""Retrieval quality on the shared collections, cut as by default: keyword, dense (`local`) and hybrid, a table or JSON.

`python bench/quality.py [--shape text|markdown] [--weights 0.5,0.6] [--queries-every N] [--cache FILE] [--check] SHARED_DATA_FOLDER`
A document's score is its best chunk's. Vectors are kept in the cache file, so that trying weights costs no embedding.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from indexer.embedding.port import Embedder
from indexer.embedding.wiring import embedder_for
from indexer.split.cut import SplitSettings, cut
from retriever.evaluate import Quality, evaluate
from retriever.fuse import fuse
from store.config import EmbeddingTable, RetrieverTable
from store.keywords.tantivy_index import KeywordIndex, KeywordRow
from store.model import ChunkId, Heading, LoadedText, Position, Seq

SETS = ("xquad-en", "xquad-zh", "cmrc2018-trial", "cranfield")
KEYWORD_BASELINES = {"cranfield": 0.360, "xquad-en": 0.965, "xquad-zh": 0.964, "cmrc2018-trial": 0.987}
"""nDCG@10 of bm25s on whole documents: stemmed English, Chinese character bigrams."""
BELOW_BASELINE_MAX = 0.02
BELOW_BETTER_PART_MAX = 0.01
RANK = 10
FETCH_K = RetrieverTable().fetch_k
CHUNKS_OF_A_DOCUMENT = 4
"""Chunks fetched for each document wanted, so that ten documents are left when only their best chunks count."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A retrieval collection in the BEIR layout."""

    name: str
    documents: Mapping[str, tuple[str, str]]
    """Id to (title, text)."""
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class CutSet:
    rows: tuple[KeywordRow, ...]
    document_of: Mapping[ChunkId, str]


def load_set(folder: Path, queries_every: int = 1) -> Judged:
    """The collection in `folder` with every n-th query."""
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")][::queries_every]
    asked = {query["_id"] for query in queries}
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if query in asked:
            grades.setdefault(query, {})[document] = int(grade)
    documents = {each["_id"]: (each["title"], each["text"]) for each in corpus}
    return Judged(folder.name, documents, {query["_id"]: query["text"] for query in queries}, grades)


def cut_set(judged: Judged, shape: str = "text") -> CutSet:
    """Each document as a file: `text` has the title as its first line and no structure, `markdown` as its heading."""
    rows, document_of = [], {}
    for document, (title, text) in judged.documents.items():
        loaded = _loaded(title, text, shape)
        for ordinal, (piece, metadata) in enumerate(cut(loaded, SplitSettings())):
            chunk_id = ChunkId(xxhash.xxh3_128_digest(f"{document}\0{ordinal}".encode()))
            piece_text = loaded.text[piece.start : piece.end]
            rows.append(KeywordRow(chunk_id, document, piece_text, loaded.title, tuple(metadata.get("headings", ()))))
            document_of[chunk_id] = document
    return CutSet(tuple(rows), document_of)


def _loaded(title: str, text: str, shape: str) -> LoadedText:
    if shape == "markdown":
        return LoadedText(f"# {title}\n\n{text}\n", "text/markdown", title=title, headings=(Heading(0, 1, title),))
    return LoadedText(f"{title}\n\n{text}\n", "text/plain")


Rankings = Mapping[str, list[tuple[ChunkId, float]]]
"""Query id to chunks, best first."""


def keyword_rankings(judged: Judged, cut_documents: CutSet, folder: Path, k: int = FETCH_K) -> Rankings:
    index = KeywordIndex.open(folder, "quality")
    try:
        index.apply(Position("quality", Seq(1)), (), cut_documents.rows)
        return {query: index.search(text, k) for query, text in judged.queries.items()}
    finally:
        index.close()


def dense_rankings(judged: Judged, cut_documents: CutSet, vectors: Vectors, k: int = FETCH_K) -> Rankings:
    rows = [row for row in cut_documents.rows if row.text.strip()]
    matrix = vectors.of([row.text for row in rows])
    asked = vectors.of(list(judged.queries.values()))
    rankings = {}
    for query, scores in zip(judged.queries, asked @ matrix.T, strict=True):
        best = np.argsort(-scores, kind="stable")[:k]
        rankings[query] = [(rows[at].chunk_id, float(scores[at])) for at in best]
    return rankings


def hybrid_rankings(dense: Rankings, keyword: Rankings, dense_weight: float) -> Rankings:
    wanted = RANK * CHUNKS_OF_A_DOCUMENT
    return {
        query: [(hit.chunk_id, hit.score) for hit in fuse(dense[query], keyword[query], dense_weight=dense_weight, k=wanted)]
        for query in dense
    }


def quality(judged: Judged, cut_documents: CutSet, rankings: Rankings) -> Quality:
    runs = {query: list(dict.fromkeys(cut_documents.document_of[chunk] for chunk, _ in hits)) for query, hits in rankings.items()}
    return evaluate(runs, judged.grades, RANK)


class Vectors:
    """Vectors of texts, embedded once and kept in a file."""

    def __init__(self, path: Path, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept = sqlite3.connect(path)
        self._kept.execute(
            "CREATE TABLE IF NOT EXISTS vectors (space TEXT, text BLOB, vector BLOB, PRIMARY KEY (space, text)) WITHOUT ROWID"
        )

    def of(self, texts: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """One row a text."""
        space = self._embedder.space.space_id
        keys = [xxhash.xxh3_128_digest(text.encode()) for text in texts]
        known = {key: row[0] for key in set(keys) if (row := self._kept.execute(_KEPT, (space, key)).fetchone())}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for some in _batches(list(missing.items()), 64):
            embedded = self._embedder.embed_documents([text for _, text in some])
            unmade = bytes(4 * self._embedder.space.dimensions)
            known |= {key: vector or unmade for (key, _), vector in zip(some, embedded, strict=True)}
            self._kept.executemany("INSERT INTO vectors VALUES (?, ?, ?)", [(space, key, known[key]) for key, _ in some])
            self._kept.commit()
        return np.frombuffer(b"".join(known[key] for key in keys), "<f4").reshape(len(keys), -1)

    def close(self) -> None:
        self._kept.close()


def _batches(pairs: Sequence[tuple[bytes, str]], batch_texts: int) -> Iterable[Sequence[tuple[bytes, str]]]:
    return (pairs[at : at + batch_texts] for at in range(0, len(pairs), batch_texts))


_KEPT = "SELECT vector FROM vectors WHERE space = ? AND text = ?"


def measure(folder: Path, vectors: Vectors, weights: Iterable[float], shape: str, queries_every: int = 1) -> dict[str, object]:
    judged = load_set(folder, queries_every)
    cut_documents = cut_set(judged, shape)
    with tempfile.TemporaryDirectory() as scratch:
        keyword = keyword_rankings(judged, cut_documents, Path(scratch))
    dense = dense_rankings(judged, cut_documents, vectors)
    figures = {"keyword": quality(judged, cut_documents, keyword), "dense": quality(judged, cut_documents, dense)}
    for weight in weights:
        figures[f"hybrid {weight}"] = quality(judged, cut_documents, hybrid_rankings(dense, keyword, weight))
    better = max(figures["keyword"].ndcg, figures["dense"].ndcg)
    missed = [name for name, found in figures.items() if name.startswith("hybrid") and found.ndcg < better - BELOW_BETTER_PART_MAX]
    if figures["keyword"].ndcg < KEYWORD_BASELINES[judged.name] - BELOW_BASELINE_MAX:
        missed.append("keyword")
    return {
        "set": judged.name,
        "missed": missed,
        "shape": shape,
        "documents": len(judged.documents),
        "chunks": len(cut_documents.rows),
        "queries": len(judged.queries),
        "systems": {
            name: {"ndcg@10": round(found.ndcg, 4), "mrr@10": round(found.reciprocal_rank, 4), "recall@10": round(found.recall, 4)}
            for name, found in figures.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the shared collections' data folder")
    parser.add_argument("--shape", choices=("text", "markdown"), default="text")
    parser.add_argument("--weights", default=str(RetrieverTable().dense_weight))
    parser.add_argument("--queries-every", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "evercurrent-bench-vectors.db")
    parser.add_argument("--check", action="store_true", help="exit 1 when a set misses its baseline or hybrid its better part")
    asked = parser.parse_args()
    vectors = Vectors(asked.cache, embedder_for(EmbeddingTable()))
    weights = [float(weight) for weight in asked.weights.split(",")]
    missed = False
    for name in SETS:
        measured = measure(asked.folder / name, vectors, weights, asked.shape, asked.queries_every)
        json.dump(measured, sys.stdout)
        print(flush=True)
        missed = missed or bool(measured["missed"])
    vectors.close()
    if asked.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
