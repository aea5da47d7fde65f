"""The spine's speeds, as whole commands and real processes: nothing changed, cold, save to searchable, catalog bytes. JSON on stdout.

`python bench/spine.py [--documents 10000] [--saves 200] [--only passes|saves] [--store]`. Each figure stands beside a floor and a peer of
the same run. Peers are sought in the Python that BENCH_PEERS_PYTHON names (`langchain-classic`, `langchain-community`, `xxhash`,
`chromadb`); an absent one is said by name.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from spine_parts import load, machine
from spine_passes import measure_passes
from spine_save import measure_saves

STORED = Path(__file__).parent / "results" / "spine.json"
BYTES_EACH = 4_096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000, help="2000 is enough to see a regression")
    parser.add_argument("--rounds", type=int, default=7, help="passes with nothing changed")
    parser.add_argument("--cold-rounds", type=int, default=3)
    parser.add_argument("--saves", type=int, default=200)
    parser.add_argument("--only", choices=("passes", "saves"))
    parser.add_argument("--store", action="store_true", help=f"also write bench/results/{STORED.name}")
    asked = parser.parse_args()
    report: dict[str, Any] = {
        "bench": "spine",
        "peer": "LangChain index() with SQL records; Chroma read by a fresh reader",
        "machine": machine(),
        "load_before": load(),
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        work = Path(folder)
        if asked.only != "saves":
            report["passes"] = measure_passes(work, asked.documents, BYTES_EACH, asked.rounds, asked.cold_rounds)
        if asked.only != "passes":
            report["saves"] = measure_saves(work, asked.saves)
    report["load_after"] = load()
    written = json.dumps(report, indent=2) + "\n"
    sys.stdout.write(written)
    if asked.store:
        STORED.write_text(written, "utf-8")


if __name__ == "__main__":
    main()
