"""Nothing changed: scan and comparison of 10,000 and 100,000 files, as JSON. `python bench/reconcile.py [COUNT…]`.

Beside it `find`'s work in the same run: a bare walk with stat. Budget: the whole command 0.8 s and 3 s.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from indexer.reconcile import compare
from indexer.sources.folder import scan
from indexer.sources.reconciling import looked, reconcile_root
from store.clock import SystemClock
from store.model import (
    CollectionId,
    CollectionName,
    ContentHash,
    DocumentState,
    Namespace,
    Root,
    RootName,
    Sighting,
    SourceKind,
    Uri,
    Version,
)

ROUNDS = 5


def claims(uri: str) -> bool:
    return uri.endswith(".md")


def measure(count: int, folder: Path) -> dict[str, object]:
    write_files(folder, count)
    root = Root(CollectionId(Namespace("default"), CollectionName("main")), RootName("docs"), SourceKind.FOLDER, str(folder), "")
    seen = scan(root)
    sightings = [
        Sighting(Uri(uri), DocumentState.INDEXED, signature, True, ContentHash(bytes(16)), Version(1))
        for uri, signature in seen.found.items()
    ]
    clock = SystemClock()
    assert reconcile_root(root, sightings, clock, claims).reconciled.intents == ()
    return {
        "files": count,
        "walk_and_stat_seconds": median_seconds(lambda: walk(str(folder))),
        "scan_seconds": median_seconds(lambda: scan(root)),
        "compare_seconds": median_seconds(lambda: compare(sightings, looked(seen), claims)),
        "whole_seconds": median_seconds(lambda: reconcile_root(root, sightings, clock, claims)),
    }


def write_files(folder: Path, count: int) -> None:
    for number in range(count):
        path = folder / f"d{number // 500:04d}" / f"document-{number}.md"
        if number % 500 == 0:
            path.parent.mkdir()
        path.write_text(f"document {number}\n")


def walk(folder: str) -> int:
    """The floor: what any scan must ask of the file system."""
    total, folders = 0, [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def median_seconds(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return round(statistics.median(seconds), 4)


def main() -> None:
    counts = [int(argument) for argument in sys.argv[1:]] or [10_000, 100_000]
    rows = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(count, Path(folder)))
    print(json.dumps({"bench": "reconcile", "rounds": ROUNDS, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
