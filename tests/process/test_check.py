"""`check` finds nothing in a sound index, and in one with a planted fault exactly that fault."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.pipeline import paragraphs
from kit.product import Product

HASHING = {"EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing", "EVERCURRENT_INDEXER__SPLIT__CHUNK_CHARS_MAX": "200"}


def sabotage_text(data: Path) -> None:
    with sqlite3.connect(data / "catalog.sqlite3") as catalog:
        key, text = catalog.execute(
            "SELECT text_key, text FROM texts JOIN versions USING (text_key) JOIN documents USING (document_key) WHERE uri = 'a.md'"
        ).fetchone()
        changed = zlib.decompress(text).decode().replace("MARK-A", "MARK-Z")
        catalog.execute("UPDATE texts SET text = ? WHERE text_key = ?", (zlib.compress(changed.encode()), key))


def sabotage_vector(data: Path) -> None:
    with sqlite3.connect(data / "catalog.sqlite3") as catalog:
        catalog.execute("UPDATE vectors SET vector = CAST(substr(vector, 5) || x'0000803f' AS BLOB) WHERE vector_key = 1")


def sabotage_ledger(data: Path) -> None:
    with sqlite3.connect(data / "catalog.sqlite3") as catalog:
        catalog.execute("UPDATE documents SET wanted = 0, state = 'deleted' WHERE uri = 'a.md'")


def plant_orphan(data: Path) -> None:
    with sqlite3.connect(data / "catalog.sqlite3") as catalog:
        catalog.execute(
            "INSERT INTO chunks (document_key, build_key, chunk_id, text_hash, occurrence, vector_key, born)"
            " SELECT document_key, build_key, randomblob(16), text_hash, 9, vector_key, born FROM chunks LIMIT 1"
        )


def plant_wrong_space(data: Path) -> None:
    with sqlite3.connect(data / "catalog.sqlite3") as catalog:
        other = catalog.execute(
            "INSERT INTO spaces (space_id, provider, model, dimensions, settings) VALUES ('other', 'hashing', 'other', 256, '{}')"
            " RETURNING space_key"
        ).fetchone()[0]
        catalog.execute("UPDATE vectors SET space_key = ? WHERE vector_key = 1", (other,))


def remove_keyword_entry(data: Path) -> None:
    """The keyword side loses a chunk and keeps its position, as a bug in following would leave it."""
    from kit.pipeline import HOME

    from store.keywords.tantivy_index import KeywordIndex, folder_of

    with sqlite3.connect(data / "catalog.sqlite3") as catalog:
        build = catalog.execute("SELECT build_key || ':' || recipe_id FROM builds").fetchone()[0]
    index = KeywordIndex.open(folder_of(data / "retriever" / "keywords", HOME), build)
    position = index.position
    assert position is not None, "the planted fault must not look like an index that is still being filled"
    (chunk_id, _), *_ = index.search("MARK-A", 1)
    index.apply(position, [chunk_id], [])
    index.close()


SABOTAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "keyword entry": (remove_keyword_entry, "keyword_missing"),
    "vector": (sabotage_vector, "vector_damaged"),
    "text": (sabotage_text, "text_mismatch"),
    "ledger row": (sabotage_ledger, "ledger_mismatch"),
    "orphan chunk": (plant_orphan, "orphan_chunk"),
    "wrong space": (plant_wrong_space, "wrong_space"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two documents whose keyword index is on disk."""
    folder = tmp_path_factory.mktemp("sound")
    docs = folder / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(paragraphs("A", "B"), "utf-8")
    (docs / "b.md").write_text(paragraphs("C"), "utf-8")
    product = Product(folder / "data", HASHING)
    product.succeed("sync", str(docs))
    product.succeed("search", "MARK-A", "--json")
    return product.data


@pytest.mark.process
def test_a_sound_index_has_no_finding(sound: Path) -> None:
    assert Product(sound, HASHING).succeed("check", "--json").json == {"ok": True, "findings": []}


@pytest.mark.process
@pytest.mark.parametrize("name", SABOTAGES)
def test_a_planted_fault_is_found_and_nothing_else(name: str, sound: Path, tmp_path: Path) -> None:
    plant, code = SABOTAGES[name]
    data = tmp_path / "data"
    shutil.copytree(sound, data, ignore=shutil.ignore_patterns("*.sock", "broker"))
    plant(data)
    answer = Product(data, HASHING).run("check", "--json")
    print(name, answer.json["findings"])
    assert (answer.code, [finding["code"] for finding in answer.json["findings"]]) == (1, [code])
