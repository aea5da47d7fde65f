"""Laws of `plan_document`: by Hypothesis, and exhaustively for every list of at most four chunks over three texts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from indexer.plan import plan_document
from store.model import Chunk, ChunkId, ChunkRecord, InputHash, Plan, TextHash

Rows = frozenset[tuple[ChunkId, InputHash]]


def chunks_of(texts: Sequence[str], document: str = "d", prefix: str = "") -> tuple[Chunk, ...]:
    """One chunk a text, identified as the catalog does: (document, text, n-th occurrence). `prefix` changes only the input."""
    seen: Counter[str] = Counter()
    chunks = []
    for position, text in enumerate(texts):
        chunk_id = ChunkId(f"{document}/{text}/{seen[text]}".encode())
        chunks.append(
            Chunk(chunk_id, TextHash(text.encode()), seen[text], InputHash((prefix + text).encode()), position, position + 1, text)
        )
        seen[text] += 1
    return tuple(chunks)


def records_of(texts: Sequence[str], document: str = "d", prefix: str = "") -> tuple[ChunkRecord, ...]:
    return tuple(ChunkRecord(c.chunk_id, c.text_hash, c.occurrence, c.input_hash) for c in chunks_of(texts, document, prefix))


def rows_of(chunks: Sequence[Chunk] | Sequence[ChunkRecord]) -> Rows:
    return frozenset((chunk.chunk_id, chunk.input_hash) for chunk in chunks)


def apply(plan: Plan, rows: Rows) -> Rows:
    """What a commit does to the document's own rows."""
    return frozenset(row for row in rows if row[0] not in plan.drop) | rows_of(plan.born)


SMALL = [texts for length in range(5) for texts in itertools.product("abc", repeat=length)]


def small_cases() -> Iterator[tuple[tuple[ChunkRecord, ...], tuple[Chunk, ...]]]:
    records, chunks = [records_of(texts) for texts in SMALL], [chunks_of(texts) for texts in SMALL]
    return itertools.product(records, chunks)


def check_laws(records: Sequence[ChunkRecord], chunks: Sequence[Chunk], moved_from: Sequence[ChunkRecord] = ()) -> None:
    plan = plan_document(records, chunks, moved_from)
    once = apply(plan, rows_of(records))
    assert once == rows_of(chunks), "convergence"
    assert apply(plan, once) == once, "replay"
    again = [ChunkRecord(c.chunk_id, c.text_hash, c.occurrence, c.input_hash) for c in chunks]
    assert plan_document(again, chunks).is_noop, "idempotence"
    check_partition(plan, records, chunks)
    check_minimality(plan, records, chunks, moved_from)


def check_partition(plan: Plan, records: Sequence[ChunkRecord], chunks: Sequence[Chunk]) -> None:
    wanted = [*plan.keep, *(chunk.chunk_id for chunk in plan.born)]
    assert sorted(wanted) == sorted(chunk.chunk_id for chunk in chunks)
    assert sorted([*plan.keep, *plan.drop]) == sorted(record.chunk_id for record in records)


def check_minimality(plan: Plan, records: Sequence[ChunkRecord], chunks: Sequence[Chunk], moved_from: Sequence[ChunkRecord]) -> None:
    unrecorded = rows_of(chunks) - rows_of(records)
    lacking = Counter((c.text_hash, c.input_hash) for c in chunks if (c.chunk_id, c.input_hash) in unrecorded)
    lent = Counter((r.text_hash, r.input_hash) for r in moved_from)
    assert Counter((c.text_hash, c.input_hash) for c in plan.add) == lacking - lent
    assert Counter((r.text_hash, r.input_hash) for r, _ in plan.move) == lacking & lent


def test_every_small_plan_keeps_the_laws() -> None:
    for records, chunks in small_cases():
        check_laws(records, chunks)


def test_a_small_plan_adds_exactly_the_multiset_difference_of_the_texts() -> None:
    for records, chunks in small_cases():
        difference = Counter(c.text_hash for c in chunks) - Counter(r.text_hash for r in records)
        assert Counter(c.text_hash for c in plan_document(records, chunks).add) == difference


def test_every_small_move_keeps_the_laws() -> None:
    few = [texts for texts in SMALL if len(texts) <= 2]
    for own, wanted, old in itertools.product(few, SMALL, few):
        check_laws(records_of(own), chunks_of(wanted), records_of(old, "old"))


texts = st.lists(st.sampled_from("abcdefgh"), max_size=30)
prefixes = st.sampled_from(["", "p"])


@given(texts, texts, texts, prefixes, prefixes, prefixes)
def test_any_plan_keeps_the_laws(own: list[str], wanted: list[str], old: list[str], p: str, q: str, r: str) -> None:
    check_laws(records_of(own, prefix=p), chunks_of(wanted, prefix=q), records_of(old, "old", prefix=r))


@given(texts, texts)
def test_no_chunks_drop_every_row(own: list[str], old: list[str]) -> None:
    records = records_of(own)
    assert plan_document(records, (), records_of(old, "old")) == Plan(drop=tuple(record.chunk_id for record in records))


@given(texts)
def test_reordering_chunks_without_changing_their_number_is_a_noop(own: list[str]) -> None:
    plan = plan_document(records_of(own), chunks_of(own[::-1]))
    assert plan.is_noop
    assert len(plan.keep) == len(own)


@given(texts)
def test_a_pure_rename_moves_every_row_and_adds_nothing(own: list[str]) -> None:
    plan = plan_document((), chunks_of(own, "new"), records_of(own, "old"))
    assert (plan.add, plan.keep, plan.drop) == ((), (), ())
    assert [chunk for _, chunk in plan.move] == list(chunks_of(own, "new"))


def test_moved_rows_pair_with_chunks_in_order_of_occurrence_each_once() -> None:
    plan = plan_document((), chunks_of("aaa", "new"), records_of("aa", "old")[::-1])
    assert [(row.occurrence, chunk.occurrence) for row, chunk in plan.move] == [(0, 0), (1, 1)]
    assert [chunk.occurrence for chunk in plan.add] == [2]


def test_a_row_of_its_own_is_kept_before_one_is_taken_over() -> None:
    plan = plan_document(records_of("a"), chunks_of("a"), records_of("a", "old"))
    assert plan == Plan(keep=(chunks_of("a")[0].chunk_id,))


def test_a_changed_input_kills_the_row_and_bears_the_same_id_again() -> None:
    plan = plan_document(records_of("a", prefix="old heading"), chunks_of("a", prefix="new heading"))
    assert plan == Plan(add=chunks_of("a", prefix="new heading"), drop=(chunks_of("a")[0].chunk_id,))
