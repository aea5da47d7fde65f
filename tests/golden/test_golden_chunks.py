"""Golden chunks: what the samples are cut into. A change here moves cuts in every collection: it raises a version in the recipe.

`python tests/golden/test_golden_chunks.py` rewrites chunks.json; read the difference before it is committed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexer.identity import identify
from indexer.load.registry import LOADER_VERSIONS, load
from indexer.split.cut import SPLITTER_VERSION, SplitSettings, cut
from store.model import CollectionId, CollectionName, Namespace

HERE = Path(__file__).parent
GOLDEN = HERE / "chunks.json"
SAMPLES = sorted(path.name for path in (HERE / "samples").iterdir())
SETTINGS = SplitSettings(chars_max=240, chars_min=60)


def described(name: str) -> dict[str, Any]:
    loaded = load(name, (HERE / "samples" / name).read_bytes())
    home = CollectionId(Namespace("golden"), CollectionName("main"))
    chunks = identify(home.document(name), loaded, cut(loaded, SETTINGS))
    return {
        "title": loaded.title,
        "language": loaded.language,
        "metadata": dict(loaded.metadata),
        "chunks": [
            {"id": chunk.chunk_id.hex(), "start": chunk.start, "text": chunk.text, "metadata": dict(chunk.metadata)} for chunk in chunks
        ],
    }


def described_all() -> dict[str, Any]:
    versions = {"splitter": SPLITTER_VERSION, "loaders": dict(LOADER_VERSIONS)}
    return {"versions": versions, "documents": {name: described(name) for name in SAMPLES}}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_cut_into_its_golden_chunks(name: str) -> None:
    assert described(name) == json.loads(GOLDEN.read_text("utf-8"))["documents"][name]


def test_the_golden_chunks_were_made_by_these_versions() -> None:
    assert json.loads(GOLDEN.read_text("utf-8"))["versions"] == described_all()["versions"]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(described_all(), ensure_ascii=False, indent=1) + "\n", "utf-8")
