"""Exact search over 100,000 x 384 beside numpy's float32 product, in one run; JSON on standard output.

Run it with OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE unset: they slow the peer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from store.model import ChunkId, CollectionId, CollectionName, Namespace
from store.vectors.replica import Block, Row, View

K = 10
HOME = CollectionId(Namespace("default"), CollectionName("bench"))


def clustered(rows: int, dimensions: int, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """Unit vectors around 500 centres: nearer to each other than chance, as embedded text is."""
    centres = generator.standard_normal((500, dimensions), dtype=np.float32)
    vectors = centres[generator.integers(0, 500, rows)] + generator.standard_normal((rows, dimensions), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def rows_of(vectors: npt.NDArray[np.float32]) -> Iterator[Row]:
    for number, vector in enumerate(vectors):
        yield ChunkId(number.to_bytes(16, "big")), number // 10, vector.tobytes()


def timed_in_turn(contestants: dict[str, Callable[[Any], object]], queries: Any) -> dict[str, dict[str, float]]:
    """Each contestant answers each query, one after the other, so that a busy machine is equally unkind to all."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for query in queries:
        for name, answer in contestants.items():
            start = time.perf_counter()
            answer(query)
            seconds[name].append(time.perf_counter() - start)
    return {name: quantiles(measured) for name, measured in seconds.items()}


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    spots = {"min_ms": ordered[0], "p50_ms": statistics.median(ordered), "p99_ms": ordered[int(0.99 * len(ordered))]}
    return {name: round(1e3 * value, 3) for name, value in spots.items()}


def numpy_search(matrix: npt.NDArray[np.float32], query: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    scores = matrix @ query
    reached = np.argpartition(scores, -K)[-K:]
    return reached[np.argsort(-scores[reached])]


def agree(view: View, matrix: npt.NDArray[np.float32], query: npt.NDArray[np.float32]) -> bool:
    found = {int.from_bytes(chunk_id, "big") for chunk_id, _ in view.search(query.tobytes(), K)}
    return found == set(numpy_search(matrix, query).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--queries", type=int, default=300)
    asked = parser.parse_args()
    generator = np.random.default_rng(7)
    matrix = clustered(asked.rows, asked.dimensions, generator)
    picked = matrix[generator.integers(0, asked.rows, asked.queries)]
    queries = picked + 0.05 * generator.standard_normal(picked.shape, dtype=np.float32)

    block = Block(HOME, asked.dimensions)
    start = time.perf_counter()
    block.load(rows_of(matrix))
    load_seconds = time.perf_counter() - start
    view = block.view()
    narrow = view.mask_of(range(0, asked.rows // 10, 100))
    wide = view.mask_of(range(0, asked.rows // 10, 2))
    chunk = [(ChunkId(b"\xff" * 16), 0, matrix[0].tobytes())]

    contestants: dict[str, Callable[[Any], object]] = {
        "replica": lambda query: view.search(query.tobytes(), K),
        "replica_filter_1_percent": lambda query: view.search(query.tobytes(), K, narrow),
        "replica_filter_50_percent": lambda query: view.search(query.tobytes(), K, wide),
        "numpy_float32": lambda query: numpy_search(matrix, query),
    }
    timed_in_turn(contestants, queries[:20])
    report = {
        "rows": asked.rows,
        "dimensions": asked.dimensions,
        "queries": asked.queries,
        "k": K,
        "load_seconds": round(load_seconds, 3),
        **timed_in_turn(contestants, queries),
        **timed_in_turn({"apply_one_chunk": lambda _: block.apply([], chunk)}, range(200)),
        "queries_that_agree_with_numpy": sum(agree(view, matrix, query) for query in queries),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
