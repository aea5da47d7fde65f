"""Keyword search speed over synthetic chunks of the shared texts, tantivy alone beside; also beside changes and rewrites. JSON on stdout.

`python bench/keywords.py [--chunks 100000] SHARED_DATA_FOLDER`. Common words are common, as in the texts.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tantivy

from store.keywords.pinned import Allowed
from store.keywords.tantivy_index import DEAD_SHARE_MAX, KeywordIndex, KeywordRow
from store.model import ChunkId, Position, Seq

K = 10
WORDS_A_CHUNK = 110
CHARACTERS_A_CHUNK = 300
BATCH_ROWS = 5_000
QUERIES = 200
CHINESE_SHARE = 0.2


def words_of(folder: Path) -> list[str]:
    return [word for line in (folder / "corpus.jsonl").open(encoding="utf-8") for word in json.loads(line)["text"].split()]


def synthetic_rows(english: Sequence[str], chinese: str, chunks: int, draw: random.Random) -> Iterator[KeywordRow]:
    """Stretches of real text where chance cuts them: neighbours, repetitions and frequencies are the texts' own."""
    for number in range(chunks):
        if draw.random() < CHINESE_SHARE:
            start = draw.randrange(len(chinese) - CHARACTERS_A_CHUNK)
            text = chinese[start : start + CHARACTERS_A_CHUNK]
        else:
            start = draw.randrange(len(english) - WORDS_A_CHUNK)
            text = " ".join(english[start : start + WORDS_A_CHUNK])
        yield KeywordRow(ChunkId(draw.randbytes(16)), f"document-{number // 10}.md", text)


def query_kinds(english: Sequence[str], chinese: str, draw: random.Random) -> dict[str, list[str]]:
    ranked = [word for word, _ in Counter(english).most_common() if word.isalpha()]
    common, rare = ranked[:60], ranked[2_000:6_000]

    def drawn(words: Sequence[str], count: int) -> str:
        return " ".join(draw.sample(words, count))

    starts = [draw.randrange(len(chinese) - 8) for _ in range(QUERIES)]
    return {
        "rare": [drawn(rare, 3) for _ in range(QUERIES)],
        "common": [drawn(common, 4) for _ in range(QUERIES)],
        "mixed": [f"{drawn(common, 3)} {drawn(rare, 2)}" for _ in range(QUERIES)],
        "chinese": [chinese[start : start + 8] for start in starts],
    }


def timed(search: Callable[[str], object], queries: Sequence[str]) -> dict[str, float]:
    return percentiles([_seconds(lambda query=query: search(query)) for query in queries])  # type: ignore[misc]


def percentiles(seconds: list[float]) -> dict[str, float]:
    taken = sorted(seconds)
    ranks = {"p50": len(taken) // 2, "p99": len(taken) * 99 // 100, "max": len(taken) - 1}
    return {f"{name}_ms": round(taken[rank] * 1e3, 3) for name, rank in ranks.items()}


class TantivyAlone:
    """The peer: tantivy's own English analyzer and query parser over the same texts; hits are its row addresses."""

    def __init__(self, folder: str, rows: Sequence[KeywordRow]) -> None:
        schema = tantivy.SchemaBuilder().add_text_field("text", tokenizer_name="en_stem").build()
        self._index: Any = tantivy.Index(schema, path=folder)
        writer = self._index.writer(64_000_000, 1)
        for row in rows:
            document = tantivy.Document()
            document.add_text("text", row.text)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def search(self, query: str) -> object:
        parsed, _ = self._index.parse_query_lenient(query, ["text"])
        return self._index.searcher().search(parsed, K, count=False).hits


def measure(folder: Path, chunks: int) -> dict[str, object]:
    draw = random.Random(7)
    english = words_of(folder / "cranfield") + words_of(folder / "xquad-en")
    chinese = "".join(words_of(folder / "cmrc2018-trial") + words_of(folder / "xquad-zh"))
    kinds = query_kinds(english, chinese, draw)
    rows = list(synthetic_rows(english, chinese, chunks, draw))
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        began = time.perf_counter()
        index = KeywordIndex.open(Path(ours), "bench")
        for start in range(0, chunks, BATCH_ROWS):
            index.apply(Position("bench", Seq(start)), (), rows[start : start + BATCH_ROWS])
        filled = time.perf_counter() - began
        figures: dict[str, object] = {
            "chunks": chunks,
            "k": K,
            "fill_seconds": round(filled, 2),
            "disk_mb": round(_bytes_of(Path(ours)) / 1e6, 1),
        }
        index.flush()
        figures["one_chunk_applied"] = timed(_applier(index, rows), [str(number) for number in range(50)])
        figures["with_50_fresh_chunks"] = {
            kind: {f"k_{k}": timed(_searcher(index, k), queries[:50]) for k in (K, 100)} for kind, queries in kinds.items()
        }
        figures["flush_of_50"] = timed(lambda _: index.flush(), [""])
        figures["flush_of_one"] = timed(_one_flushed(index, rows), [str(number) for number in range(50)])
        alone = TantivyAlone(theirs, rows)
        for kind, queries in kinds.items():
            figures[kind] = {"ours": timed(lambda query: index.search(query, K), queries), "tantivy_alone": timed(alone.search, queries)}
        for share in (10, 100, 1_000):
            figures[f"mixed_filtered_1_in_{share}"] = filtered(index, rows, share, kinds["mixed"])
        figures["while_rewriting"] = while_rewriting(index, rows, kinds["mixed"])
        index.close()
        began = time.perf_counter()
        KeywordIndex.open(Path(ours), "bench").close()
        figures["open_and_verify_seconds"] = round(time.perf_counter() - began, 2)
    return figures


def filtered(index: KeywordIndex, rows: Sequence[KeywordRow], share: int, queries: Sequence[str]) -> dict[str, object]:
    """Chunks drawn one by one, and whole documents; each the first time (its names are made) and again (they are known)."""
    lone = random.Random(1).sample(rows, len(rows) // share)
    owners = {row.document for row in lone[: max(1, len(lone) // 10)]}
    whole = [row for row in rows if row.document in owners]
    figures: dict[str, object] = {}
    for name, admitted in (("chunks", lone), ("documents", whole)):
        chunks, documents = frozenset(row.chunk_id for row in admitted), frozenset(row.document for row in admitted)
        known = Allowed(chunks, documents)
        figures[name] = {
            "first": timed(lambda query, c=chunks, d=documents: index.search(query, K, Allowed(c, d)), queries),  # type: ignore[misc]
            "again": timed(lambda query, known=known: index.search(query, K, known), queries),  # type: ignore[misc]
        }
    return figures


def while_rewriting(index: KeywordIndex, rows: Sequence[KeywordRow], queries: Sequence[str]) -> dict[str, object]:
    """An eighth of the rows dies; queries and changes go on until the rest stands in files of its own."""
    dead = [row.chunk_id for row in rows[: len(rows) // 8]]
    began = time.perf_counter()
    index.apply(Position("bench", Seq(1)), dead, ())
    figures: dict[str, object] = {"removal_seconds": round(time.perf_counter() - began, 2), "dead_share": round(index.dead_share(), 3)}
    searched: list[float] = []
    applied: list[float] = []
    began = time.perf_counter()
    while index.dead_share() > DEAD_SHARE_MAX:
        number = len(searched) % len(queries)
        searched.append(_seconds(lambda number=number: index.search(queries[number], K)))  # type: ignore[misc]
        changed = rows[len(rows) // 2 + number]
        applied.append(_seconds(lambda row=changed: index.apply(Position("bench", Seq(2)), [row.chunk_id], [row])))  # type: ignore[misc]
        time.sleep(0.005)
    figures["seconds"] = round(time.perf_counter() - began, 2)
    return figures | {"search": percentiles(searched), "apply": percentiles(applied)}


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _searcher(index: KeywordIndex, k: int) -> Callable[[str], object]:
    return lambda query: index.search(query, k)


def _one_flushed(index: KeywordIndex, rows: Sequence[KeywordRow]) -> Callable[[str], None]:
    apply = _applier(index, rows)

    def apply_and_flush(number: str) -> None:
        apply(number)
        index.flush()

    return apply_and_flush


def _applier(index: KeywordIndex, rows: Sequence[KeywordRow]) -> Callable[[str], None]:
    def apply(number: str) -> None:
        row = rows[int(number)]
        index.apply(Position("bench", Seq(int(number))), [row.chunk_id], [row])

    return apply


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the shared collections' data folder")
    parser.add_argument("--chunks", type=int, default=100_000)
    asked = parser.parse_args()
    json.dump(measure(asked.folder, asked.chunks), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
