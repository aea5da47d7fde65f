"""Microseconds a chunk of the hashing embedder and chunks a second of the local one; JSON on standard output.

Run it with OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE unset: they slow the local model.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from pydoc_data.topics import topics

from indexer.embedding.port import Embedder
from indexer.embedding.wiring import embedder_for
from store.config import EmbeddingTable

CHINESE = "我们可以使用系统文件配置端口服务器重新启动索引文档更新删除用户权限数据备份恢复时间需要如果然后检查，。"


def english(chars: int, generator: random.Random) -> str:
    """A stretch of Python's own manual."""
    manual = "\n".join(topics.values())
    start = generator.randrange(len(manual) - chars)
    return manual[start : start + chars]


def chinese(chars: int, generator: random.Random) -> str:
    starts = (generator.randrange(len(CHINESE) - 2) for _ in range(chars // 2))
    return "".join(CHINESE[start : start + 2] for start in starts)


def chunks_of(chars: int, count: int) -> dict[str, list[str]]:
    generator = random.Random(7)
    return {
        "english": [english(chars, generator) for _ in range(count)],
        "chinese": [chinese(chars, generator) for _ in range(count)],
    }


def seconds_a_chunk(embedder: Embedder, chunks: list[str], batch: int, rounds: int) -> float:
    embedder.embed_documents(chunks[:2])
    measured = []
    for _ in range(rounds):
        start = time.perf_counter()
        for first in range(0, len(chunks), batch):
            embedder.embed_documents(chunks[first : first + batch])
        measured.append((time.perf_counter() - start) / len(chunks))
    return statistics.median(measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chars", type=int, default=1000)
    parser.add_argument("--local-chunks", type=int, default=100)
    asked = parser.parse_args()
    hashing, local = embedder_for(EmbeddingTable(provider="hashing")), embedder_for(EmbeddingTable(provider="local"))
    report: dict[str, object] = {"chars": asked.chars}
    for language, chunks in chunks_of(asked.chars, 640).items():
        report[f"hashing_{language}_us_a_chunk"] = {
            f"batch_{batch}": round(1e6 * seconds_a_chunk(hashing, chunks, batch, 7), 1) for batch in (1, 8, 64)
        }
    for language, chunks in chunks_of(asked.chars, asked.local_chunks).items():
        report[f"local_{language}_chunks_a_second"] = round(1 / seconds_a_chunk(local, chunks, 64, 3), 1)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
