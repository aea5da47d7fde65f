"""The replica's top k equals a float64 brute force, in every order and bit, for every kind of vectors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from store.errors import Corrupt, QueryRejected, SpaceMismatch
from store.model import ChunkId, CollectionId, CollectionName, Namespace
from store.vectors import kernel
from store.vectors.replica import Block, Row, View

HOME = CollectionId(Namespace("default"), CollectionName("notes"))
Matrix = np.ndarray
Make = Callable[[np.random.Generator, int, int], Matrix]


def unit(rows: Matrix) -> Matrix:
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros(rows.shape), where=norms > 0).astype("<f4")


def random_rows(generator: np.random.Generator, rows: int, dimensions: int) -> Matrix:
    return unit(generator.standard_normal((rows, dimensions)))


def clustered_rows(generator: np.random.Generator, rows: int, dimensions: int) -> Matrix:
    centres = generator.standard_normal((5, dimensions))
    return unit(centres[generator.integers(0, 5, rows)] + 0.01 * generator.standard_normal((rows, dimensions)))


def duplicate_rows(generator: np.random.Generator, rows: int, dimensions: int) -> Matrix:
    return random_rows(generator, 20, dimensions)[generator.integers(0, 20, rows)]


def outlier_rows(generator: np.random.Generator, rows: int, dimensions: int) -> Matrix:
    """A few huge dimensions, the same in all rows: what distinguishes them drowns in the quantisation."""
    spread = generator.standard_normal((rows, dimensions))
    spread[:, :3] += 1000
    return unit(spread)


def near_tie_rows(generator: np.random.Generator, rows: int, dimensions: int) -> Matrix:
    """One vector, each row off by a last bit or so."""
    base = np.repeat(random_rows(generator, 1, dimensions), rows, axis=0)
    return (base * (1 + generator.integers(-2, 3, base.shape) * 2.0**-23)).astype("<f4")


def sparse_rows(generator: np.random.Generator, rows: int, dimensions: int) -> Matrix:
    """Mostly zeros, some rows nothing else."""
    return unit(generator.integers(-1, 2, (rows, dimensions)) * (generator.random((rows, dimensions)) < 0.03))


def any_scale_rows(generator: np.random.Generator, rows: int, dimensions: int) -> Matrix:
    """Not of unit length at all, from 1e-35 to 1e6: the bound holds regardless."""
    return (generator.standard_normal((rows, dimensions)) * 10.0 ** generator.integers(-35, 7, (rows, 1))).astype("<f4")


MAKERS: list[Make] = [random_rows, clustered_rows, duplicate_rows, outlier_rows, near_tie_rows, sparse_rows, any_scale_rows]


def chunk_id(number: int) -> ChunkId:
    """Scattered, so that the order of ids is not the order of arrival."""
    return ChunkId((int(number) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)).to_bytes(16, "big"))


def block_of(rows: Matrix) -> Block:
    block = Block(HOME, rows.shape[1])
    block.load((chunk_id(number), number // 3, row.tobytes()) for number, row in enumerate(rows))
    return block


def brute_force(rows: Matrix, query: Matrix, k: int, numbers: Matrix) -> list[tuple[ChunkId, float]]:
    wide = query.astype(np.float64)
    peak = np.abs(wide).max()
    if peak > 0:
        wide = wide / peak
        wide = wide / np.sqrt(np.einsum("i,i->", wide, wide))
    hits = [(chunk_id(number), float(np.einsum("ij,j->i", rows[number : number + 1].astype(np.float64), wide)[0])) for number in numbers]
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]


def queries_for(rows: Matrix, generator: np.random.Generator, count: int) -> Iterator[Matrix]:
    for number in range(count):
        picked = rows[generator.integers(0, len(rows))]
        noise = generator.standard_normal(rows.shape[1]).astype("<f4")
        yield (picked, picked + np.float32(0.03) * noise, noise, -picked)[number % 4].astype("<f4")


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize(("count", "dimensions"), [(700, 16), (2500, 96)])
def test_the_top_k_is_that_of_a_float64_brute_force(make: Make, count: int, dimensions: int) -> None:
    generator = np.random.default_rng(count)
    rows = make(generator, count, dimensions)
    view = block_of(rows).view()
    everything = np.arange(count)
    for query in queries_for(rows, generator, 24):
        k = int(generator.choice([1, 3, 10, 50, 400]))
        assert view.search(query.tobytes(), k) == brute_force(rows, query, k, everything)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("share", [0.0, 0.002, 0.04, 0.3, 0.9])
def test_under_a_mask_the_top_k_is_that_of_the_masked_rows(make: Make, share: float) -> None:
    generator = np.random.default_rng(5)
    rows = make(generator, 2500, 48)
    view = block_of(rows).view()
    for query in queries_for(rows, generator, 8):
        mask = generator.random(2500) < share
        k = int(generator.choice([1, 3, 10]))
        assert view.search(query.tobytes(), k, mask) == brute_force(rows, query, k, np.flatnonzero(mask))


def test_thousands_of_queries_over_several_segments_agree() -> None:
    generator = np.random.default_rng(11)
    rows = np.concatenate([make(generator, 6000, 24) for make in (random_rows, clustered_rows, duplicate_rows)])
    view = block_of(rows).view()
    wide = rows.astype(np.float64)
    ids = [chunk_id(number) for number in range(len(rows))]
    for query in queries_for(rows, generator, 2000):
        unit_query = query.astype(np.float64)
        unit_query /= np.sqrt(np.einsum("i,i->", unit_query, unit_query))
        scores = np.einsum("ij,j->i", wide, unit_query)
        near = np.flatnonzero(scores >= np.partition(scores, -10)[-10] - 1e-9)
        expected = brute_force(rows, query, 10, near)
        assert view.search(query.tobytes(), 10) == expected
    assert len(ids) == len(view.search(rows[0].tobytes(), 10**6))


def test_without_simsimd_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    for dimensions in (40, 1500):
        rows = outlier_rows(generator, 900, dimensions)
        view = block_of(rows).view()
        queries = [query.tobytes() for query in queries_for(rows, generator, 8)]
        with_simsimd = [view.search(query, 10) for query in queries]
        monkeypatch.setattr(kernel, "simsimd", None)
        assert with_simsimd == [view.search(query, 10) for query in queries]
        monkeypatch.undo()


@pytest.mark.skipif(kernel.simsimd is None, reason="simsimd has no wheel for this platform")
def test_simsimd_and_numpy_scan_to_equal_dots() -> None:
    generator = np.random.default_rng(4)
    query = kernel.query_of(generator.standard_normal(384))
    assert query is not None
    codes = kernel.quantise(random_rows(generator, 5000, 384)).codes
    by_simsimd, by_numpy = np.empty(5000, np.float32), np.empty(5000, np.float32)
    kernel.scan(codes, query, by_simsimd)
    kernel.scan_numpy(codes, query, by_numpy)
    np.testing.assert_array_equal(by_simsimd, by_numpy)


@pytest.mark.parametrize("dimensions", [384, 1040, 1041, 4096])
def test_dots_of_the_largest_codes_are_whole_numbers_rounded_once(dimensions: int) -> None:
    generator = np.random.default_rng(5)
    codes = generator.integers(120, 128, (50, dimensions), dtype=np.int8)
    query = kernel.Query(np.zeros(dimensions), codes[0], 1.0, 0.0)
    expected = (codes.astype(np.int64) @ codes[0].astype(np.int64)).astype(np.float32)
    for scan in (kernel.scan, kernel.scan_numpy):
        dots = np.empty(50, np.float32)
        scan(codes, query, dots)
        np.testing.assert_array_equal(dots, expected)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_interval_holds_the_true_score(make: Make) -> None:
    generator = np.random.default_rng(6)
    rows = make(generator, 1500, 64)
    coded = kernel.quantise(rows)
    for values in queries_for(rows, generator, 20):
        query = kernel.query_of(values.astype(np.float64))
        if query is None:
            continue
        dots = np.empty(len(rows), np.float32)
        kernel.scan(coded.codes, query, dots)
        lower, upper = kernel.interval(dots, coded.scales, coded.residuals, coded.norms, query)
        scores = kernel.exact_scores(rows, query)
        assert (lower <= scores).all()
        assert (scores <= upper).all()


def test_the_interval_is_narrow_for_ordinary_vectors() -> None:
    generator = np.random.default_rng(8)
    coded = kernel.quantise(random_rows(generator, 500, 384))
    assert coded.residuals.max() < 0.02
    assert abs(coded.norms - 1).max() < 0.02


def test_equal_vectors_have_equal_scores_and_are_ordered_by_id() -> None:
    rows = np.repeat(random_rows(np.random.default_rng(9), 1, 384), 5000, axis=0)
    hits = block_of(rows).search(rows[0].tobytes(), 50)
    assert len({score for _, score in hits}) == 1
    assert sorted(chunk_id(number) for number in range(5000))[:50] == [found for found, _ in hits]


def test_a_zero_query_scores_0_with_every_chunk() -> None:
    view = block_of(random_rows(np.random.default_rng(1), 300, 8)).view()
    expected = sorted(chunk_id(number) for number in range(300))
    assert [(found, 0.0) for found in expected[:7]] == view.search(bytes(32), 7)
    assert [(found, 0.0) for found in expected] == view.search(bytes(32), 500)


def test_the_length_of_a_query_does_not_matter() -> None:
    rows = random_rows(np.random.default_rng(2), 200, 16)
    view = block_of(rows).view()
    near = view.search((rows[0] * np.float32(0.5)).tobytes(), 5)
    assert near == view.search(rows[0].tobytes(), 5) == view.search((rows[0] * np.float32(2.0**100)).tobytes(), 5)


def test_an_empty_block_answers_no_hits() -> None:
    block = Block(HOME, 8)
    assert [] == block.search(bytes(32), 3) == block.search(np.ones(8, "<f4").tobytes(), 3)


def test_a_query_of_another_space_is_refused() -> None:
    with pytest.raises(SpaceMismatch, match=r"'notes' holds vectors of 8 dimensions, the query has 9"):
        Block(HOME, 8).search(bytes(36), 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_query_that_is_not_finite_is_refused_with_its_place(value: float) -> None:
    with pytest.raises(QueryRejected, match="vector: "):
        Block(HOME, 2).search(np.array([1, value], "<f4").tobytes(), 3)


def test_k_below_1_is_refused() -> None:
    with pytest.raises(QueryRejected, match="k: "):
        Block(HOME, 2).search(bytes(8), 0)


def test_a_mask_of_another_view_is_a_mistake() -> None:
    view = block_of(random_rows(np.random.default_rng(2), 10, 4)).view()
    with pytest.raises(ValueError, match="not of this view"):
        view.search(bytes(16), 3, np.ones(9, dtype=np.bool_))


def test_a_mask_of_documents_shows_their_chunks_alone() -> None:
    rows = random_rows(np.random.default_rng(2), 30, 4)
    view = block_of(rows).view()
    mask = view.mask_of([2, 7, 99])
    assert {chunk_id(number) for number in (6, 7, 8, 21, 22, 23)} == {found for found, _ in view.search(rows[0].tobytes(), 30, mask)}
    assert sorted(chunk_id(number) for number in (6, 7, 8)) == view.chunks_of(2)


@pytest.mark.parametrize("fill", [Block.load, lambda block, rows: block.apply([], rows)], ids=["load", "apply"])
def test_a_stored_vector_that_is_wrong_changes_nothing(fill: Callable[[Block, list[Row]], None]) -> None:
    block = Block(HOME, 2)
    good: Row = (chunk_id(0), 0, np.ones(2, "<f4").tobytes())
    with pytest.raises(SpaceMismatch, match="a stored one has 3"):
        fill(block, [good, (chunk_id(1), 0, bytes(12))])
    with pytest.raises(Corrupt, match="evercurrent check"):
        fill(block, [good, (chunk_id(1), 0, np.array([1, np.nan], "<f4").tobytes())])
    assert len(block) == 0
    assert chunk_id(0) not in block
    fill(block, [good])
    assert len(block) == 1


def test_a_chunk_without_a_vector_is_not_found_by_vector() -> None:
    block = Block(HOME, 2)
    block.load([(chunk_id(0), 0, b""), (chunk_id(1), 0, bytes(8))])
    assert [(chunk_id(1), 0.0)] == block.search(np.ones(2, "<f4").tobytes(), 5)


def test_loading_fails_whole_or_is_seen_whole() -> None:
    block = Block(HOME, 2)
    seen: list[View] = []

    def rows(fail: bool) -> Iterator[Row]:
        for number in range(3000):
            seen.append(block.view())
            yield chunk_id(number), 0, np.ones(2, "<f4").tobytes()
        if fail:
            raise OSError("the catalog went away")

    with pytest.raises(OSError, match="went away"):
        block.load(rows(fail=True))
    assert len(block) == 0
    block.load(rows(fail=False))
    assert {0} == {view.visible for view in seen}
    assert len(block) == 3000


def test_only_an_empty_block_is_loaded_and_no_id_twice() -> None:
    block = Block(HOME, 2)
    row: Row = (chunk_id(0), 0, bytes(8))
    with pytest.raises(ValueError, match="twice"):
        block.load([row, row])
    block.load([row])
    with pytest.raises(ValueError, match="empty"):
        block.load([row])


def test_scanning_costs_no_reference_to_none() -> None:
    rows = random_rows(np.random.default_rng(2), 200, 16)
    view = block_of(rows).view()
    query = rows[0].tobytes()
    before = sys.getrefcount(None)
    for _ in range(300):
        view.search(query, 3)
    assert abs(sys.getrefcount(None) - before) < 100
