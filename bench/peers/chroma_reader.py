"""The peer of a save: a chunk put into a persistent Chroma, read by another process that opens the store anew for each question.

`python chroma_reader.py FOLDER SAVES`: milliseconds from the call of `upsert` to the reader's right answer; and of the reader's part.
JSON on stdout. An open reader's answer is given beside it, since it may be the old one.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import chromadb
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.config import Settings

DIMENSIONS = 256
ROWS = 500
SETTINGS = Settings(anonymized_telemetry=False)


def embedded(text: str) -> list[float]:
    return [byte / 255 for byte in hashlib.shake_128(text.encode()).digest(DIMENSIONS)]


def read(folder: str, pipe: Connection) -> None:
    while (text := pipe.recv()) is not None:
        started = time.perf_counter()
        SharedSystemClient.clear_system_cache()
        client = chromadb.PersistentClient(folder, settings=SETTINGS)
        found = client.get_collection("bench", embedding_function=None).query(query_embeddings=[embedded(text)], n_results=3)
        pipe.send((found["documents"][0], time.perf_counter() - started))


def main() -> None:
    folder, saves = sys.argv[1], int(sys.argv[2])
    Path(folder).mkdir(parents=True, exist_ok=True)
    client = chromadb.PersistentClient(folder, settings=SETTINGS)
    collection = client.create_collection("bench", embedding_function=None)
    texts = [f"row {number} {number * 7919 % 104729}" for number in range(ROWS)]
    collection.add(ids=[f"row-{number}" for number in range(ROWS)], embeddings=[embedded(text) for text in texts], documents=texts)
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    reader = multiprocessing.get_context("spawn").Process(target=read, args=(folder, theirs), daemon=True)
    reader.start()
    taken, reading, missed = [], [], 0
    for number in range(saves + 3):
        text = f"saved {number} {time.perf_counter_ns()}"
        started = time.perf_counter()
        collection.upsert(ids=[f"saved-{number % 50}"], embeddings=[embedded(text)], documents=[text])
        while True:
            mine.send(text)
            documents, seconds = mine.recv()
            if text in documents:
                break
            missed += 1
        if number >= 3:
            taken.append((time.perf_counter() - started) * 1e3)
            reading.append(seconds * 1e3)
    mine.send(None)
    taken.sort()
    said = {
        "name": "Chroma, persistent, read by a reader that opens it anew",
        "versions": {"chromadb": chromadb.__version__},
        "saves": saves,
        "searchable_ms": {"min": round(taken[0], 2), "p50": round(statistics.median(taken), 2), "p99": round(taken[int(0.99 * saves)], 2)},
        "of_which_open_and_query_p50_ms": round(statistics.median(reading), 2),
        "answers_without_the_save": missed,
    }
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
