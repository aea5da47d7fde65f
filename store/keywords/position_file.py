"""The small file that says which generation of a keyword folder is served, and up to where the change log is in it.

Written whole or not at all, last of all: what it names is on disk. Without it the folder holds nothing to be believed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from store.keywords.analysis import ANALYSIS_VERSION
from store.model import Position, Seq

FORMAT_VERSION = 2
POSITION_FILE = "position.json"


@dataclass(frozen=True, slots=True)
class Recorded:
    generation: int
    position: Position
    must_match: str


def read_recorded(folder: Path, must_match: str) -> Recorded | None:
    """None when nothing is recorded, or by another version of the program or under another `must_match`."""
    try:
        found = json.loads((folder / POSITION_FILE).read_text("utf-8"))
        position = Position(str(found["incarnation"]), Seq(int(found["seq"])))
        recorded = Recorded(int(found["generation"]), position, found["must_match"])
        known = (found["format"], found["analysis"], recorded.must_match)
    except (ValueError, KeyError, TypeError, OSError):
        return None
    return recorded if known == (FORMAT_VERSION, ANALYSIS_VERSION, must_match) else None


def write_recorded(folder: Path, recorded: Recorded) -> None:
    """Raises OSError."""
    found = {
        "format": FORMAT_VERSION,
        "analysis": ANALYSIS_VERSION,
        "must_match": recorded.must_match,
        "generation": recorded.generation,
        "incarnation": recorded.position.incarnation,
        "seq": recorded.position.seq,
    }
    unfinished = folder / (POSITION_FILE + ".new")
    unfinished.write_text(json.dumps(found), "utf-8")
    unfinished.replace(folder / POSITION_FILE)


def remove_recorded(folder: Path) -> None:
    (folder / POSITION_FILE).unlink(missing_ok=True)


def generation_folder(folder: Path, number: int) -> Path:
    return folder / f"generation-{number}"
