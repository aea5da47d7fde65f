"""Applying commits: the replica follows a dictionary through any interleaving, and a reader's view never changes under it."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from store.model import ChunkId, CollectionId, CollectionName, Namespace
from store.vectors import replica, rows
from store.vectors.replica import Block, Hit, Row, View

HOME = CollectionId(Namespace("default"), CollectionName("notes"))
DIMENSIONS = 4
numbers = st.integers(0, 40)


def chunk_id(number: int) -> ChunkId:
    return ChunkId(number.to_bytes(16, "little"))


def vector(seed: int) -> bytes:
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).astype("<f4").tobytes()


def row(number: int, seed: int, document_key: int = 0) -> Row:
    return chunk_id(number), document_key, vector(seed)


def expected_hits(model: dict[ChunkId, tuple[int, bytes]], query: bytes, k: int, keys: set[int] | None = None) -> list[Hit]:
    wide = np.frombuffer(query, "<f4").astype(np.float64)
    wide /= np.abs(wide).max()
    wide /= np.sqrt(np.einsum("i,i->", wide, wide))
    hits = [
        (found, float(np.einsum("ij,j->i", np.frombuffer(stored, "<f4").astype(np.float64)[None, :], wide)[0]))
        for found, (key, stored) in model.items()
        if keys is None or key in keys
    ]
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]


class ReplicaFollowsADictionary(RuleBasedStateMachine):
    """Small segments, so that growing, reusing and compacting happen within a few steps."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module, name, small in (
            (rows, "SEGMENT_ROWS", 8),
            (replica, "SEGMENT_ROWS", 8),
            (rows, "FIRST_ROWS", 2),
            (replica, "COMPACT_ROWS_MIN", 8),
            (replica, "LOAD_ROWS", 3),
            (replica, "EXACT_ROWS", 2),
        ):
            self.patch.setattr(module, name, small)
        self.block = Block(HOME, DIMENSIONS)
        self.model: dict[ChunkId, tuple[int, bytes]] = {}
        self.held: list[tuple[View, dict[ChunkId, tuple[int, bytes]]]] = []

    @initialize(count=st.integers(0, 20))
    def load(self, count: int) -> None:
        loaded = [row(number, number, number % 3) for number in range(count)]
        self.block.load(loaded)
        self.model = {found: (key, stored) for found, key, stored in loaded}

    @rule(removed=st.sets(numbers, max_size=20), added=st.lists(st.tuples(numbers, st.integers(0, 9), st.integers(0, 3)), max_size=12))
    def apply(self, removed: set[int], added: list[tuple[int, int, int]]) -> None:
        incoming = [row(*one) for one in added]
        self.block.apply([chunk_id(number) for number in removed], incoming)
        for number in removed:
            self.model.pop(chunk_id(number), None)
        self.model.update({found: (key, stored) for found, key, stored in incoming})

    @rule()
    def hold_a_view(self) -> None:
        self.held.append((self.block.view(), dict(self.model)))

    @rule(which=st.integers(0, 5))
    def let_a_view_go(self, which: int) -> None:
        if which < len(self.held):
            del self.held[which]

    @rule(seed=st.integers(0, 9), k=st.integers(1, 12), keys=st.sets(st.integers(0, 3)))
    def search(self, seed: int, k: int, keys: set[int]) -> None:
        view = self.block.view()
        assert view.search(vector(seed), k) == expected_hits(self.model, vector(seed), k)
        everything = np.ones(len(view.document_keys), dtype=np.bool_)
        assert view.search(vector(seed), k, everything) == expected_hits(self.model, vector(seed), k)
        assert view.search(vector(seed), k, view.mask_of(keys)) == expected_hits(self.model, vector(seed), k, keys)

    @invariant()
    def every_held_view_answers_as_when_it_was_taken(self) -> None:
        for view, model in [*self.held, (self.block.view(), self.model)]:
            assert view.search(vector(1), 100) == expected_hits(model, vector(1), 100)
            assert view.visible == len(model)
            assert {key: sorted(view.chunks_of(key)) for key in range(4)} == {
                key: sorted(found for found, (at, _) in model.items() if at == key) for key in range(4)
            }

    def teardown(self) -> None:
        self.patch.undo()


TestReplicaFollowsADictionary = ReplicaFollowsADictionary.TestCase
TestReplicaFollowsADictionary.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_slots_are_reused_once_no_older_view_is_held() -> None:
    block = Block(HOME, DIMENSIONS)
    block.load([row(number, number) for number in range(100)])
    for turn in range(500):
        block.apply([chunk_id(turn % 100)], [row(turn % 100, turn)])
    assert len(block.view().document_keys) <= 102


def test_a_held_view_keeps_its_slots_from_reuse() -> None:
    block = Block(HOME, DIMENSIONS)
    block.load([row(number, number) for number in range(100)])
    held = block.view()
    before = held.search(vector(3), 100)
    for turn in range(300):
        block.apply([], [row(turn % 100, 1000 + turn)])
    assert before == held.search(vector(3), 100)


def test_applying_twice_is_applying_once() -> None:
    block = Block(HOME, DIMENSIONS)
    for _ in range(2):
        block.apply([chunk_id(1)], [row(2, 2), row(3, 3)])
    assert len(block) == 2
    assert sorted([chunk_id(2), chunk_id(3)]) == block.view().chunks_of(0)


def test_a_block_that_lost_most_of_its_rows_gives_the_memory_back() -> None:
    block = Block(HOME, DIMENSIONS)
    block.load(row(number, number) for number in range(40_000))
    full = block.memory_bytes
    block.apply([chunk_id(number) for number in range(39_000)], [])
    assert block.memory_bytes < full / 30
    assert len(block.search(vector(1), 2000)) == 1000
    gc.collect()


def test_a_reader_sees_the_old_state_or_the_new_one_while_commits_are_applied() -> None:
    """Each commit swaps all five chunks of a document for those of the next generation: a view holds one generation."""
    block = Block(HOME, DIMENSIONS)
    generation_of = {chunk_id(number): number // 5 for number in range(5 * 400)}
    block.apply([], [row(number, number) for number in range(5)])
    torn: list[set[int]] = []
    finished = threading.Event()

    def read() -> None:
        while not finished.is_set():
            found = [generation_of[hit] for hit, _ in block.search(vector(1), 20)]
            if len(found) != 5 or len(set(found)) != 1:
                torn.append(set(found))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(1, 400):
        block.apply([chunk_id(5 * (turn - 1) + n) for n in range(5)], [row(5 * turn + n, turn + n) for n in range(5)])
    finished.set()
    for reader in readers:
        reader.join()
    assert torn == []
