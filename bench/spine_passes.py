"""Whole passes of `sync` over one tree: cold, and with nothing changed; and what the catalog weighs after it.

Beside each in the same run: a floor (what the file system alone costs a bare Python) and LangChain's `index()` with SQL records over
the same texts.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
from pathlib import Path
from typing import Any

from spine_parts import bare, command, peer, rounded, write_documents

WORKERS = 2
BUDGET_UNCHANGED_SECONDS = 1.5
BUDGET_COLD_DOCUMENTS_A_SECOND = 800
BUDGET_CATALOG_BYTES_A_CHUNK = 300

WALK = """
import os, sys
folders, total = [sys.argv[1]], 0
while folders:
    with os.scandir(folders.pop()) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                total += entry.stat(follow_symlinks=False).st_size
print(total)
"""
READ_AND_HASH = f"""
import sys
sys.path[:0] = [{str(Path(__import__("xxhash").__file__).parent.parent)!r}]
import os, xxhash
folders = [sys.argv[1]]
while folders:
    with os.scandir(folders.pop()) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                with open(entry.path, "rb") as file:
                    xxhash.xxh3_128_digest(file.read())
"""


def measure_passes(work: Path, documents: int, bytes_each: int, rounds: int, cold_rounds: int) -> dict[str, Any]:
    tree = work / "documents"
    total = write_documents(tree, documents, bytes_each)
    cold: list[float] = []
    hashed: list[float] = []
    peers: list[dict[str, Any]] = []
    for number in range(cold_rounds):
        data = work / f"data-{number}"
        seconds, said = command("sync", tree, data=data, workers=WORKERS)
        assert said["documents"]["added"] == documents, said
        cold.append(seconds)
        hashed.append(bare(READ_AND_HASH, tree)[0])
        peers.append(peer("langchain_index.py", tree))
        if number:
            shutil.rmtree(data)
    chunks = said["chunks"]["added"]
    return {
        "documents": documents,
        "bytes": total,
        "chunks": chunks,
        "cold": cold_figures(documents, cold, hashed, peers),
        "unchanged": measure_unchanged(tree, work / "data-0", rounds, documents, peers),
        "catalog": catalog_figures(work / "data-0" / "catalog.sqlite3"),
    }


def cold_figures(documents: int, cold: list[float], hashed: list[float], peers: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = statistics.median(cold)
    figures: dict[str, Any] = {
        "budget_documents_a_second": BUDGET_COLD_DOCUMENTS_A_SECOND,
        "documents_a_second": round(documents / seconds),
        "best_documents_a_second": round(documents / min(cold)),
        "whole_command_seconds": rounded(cold),
        "workers": WORKERS,
        "floor_read_and_hash_documents_a_second": round(documents / statistics.median(hashed)),
        "peer": peers[0],
    }
    if "absent" not in peers[0]:
        theirs = statistics.median(one["cold_seconds"] for one in peers)
        figures["peer_documents_a_second"] = round(documents / theirs)
        figures["times_the_peer"] = round(theirs / seconds, 2)
    return figures


def measure_unchanged(tree: Path, data: Path, rounds: int, documents: int, peers: list[dict[str, Any]]) -> dict[str, Any]:
    first, _ = command("sync", tree, data=data)
    ours: list[float] = []
    floor: list[float] = []
    for _ in range(rounds):
        seconds, said = command("sync", tree, data=data)
        assert said["documents"]["unchanged"] == documents, said
        assert said["embedded"] == 0, said
        ours.append(seconds)
        floor.append(bare(WALK, tree)[0])
    seconds = statistics.median(ours)
    figures: dict[str, Any] = {
        "budget_seconds": BUDGET_UNCHANGED_SECONDS,
        "whole_command_seconds": round(seconds, 3),
        "best_seconds": round(min(ours), 3),
        "first_pass_after_the_cold_one_seconds": round(first, 3),
        "rounds": rounded(ours),
        "floor_walk_and_stat_seconds": round(statistics.median(floor), 3),
    }
    if "absent" not in peers[0]:
        theirs = statistics.median(one["unchanged_seconds"] for one in peers)
        figures["peer_index_seconds"] = round(theirs, 3)
        figures["times_the_peer"] = round(theirs / seconds, 1)
    return figures


def catalog_figures(path: Path) -> dict[str, Any]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    (chunks,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
    (texts,) = connection.execute("SELECT sum(length(text)) FROM texts").fetchone()
    vectors, rows = connection.execute("SELECT sum(length(vector)), count(*) FROM vectors").fetchone()
    connection.close()
    wal = path.with_name(path.name + "-wal")
    total = path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    return {
        "budget_bytes_a_chunk": BUDGET_CATALOG_BYTES_A_CHUNK,
        "bytes_a_chunk_beyond_text_and_vector": round((total - texts - vectors) / chunks, 1),
        "chunks": chunks,
        "vector_rows": rows,
        "total_bytes": total,
        "text_bytes": texts,
        "vector_bytes": vectors,
    }
