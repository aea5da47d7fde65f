"""Collections over the real product: made on first use, listed, deleted beside a running `up`, and empty when they begin again."""

from __future__ import annotations

import urllib.error
from pathlib import Path

import pytest
from kit.product import Product, await_state

from evercurrent.client import Client, NotThere, Servers

HASHING = {"EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing", "EVERCURRENT_WORKERS__COUNT": "1"}


def test_a_collection_that_is_deleted_beside_up_is_found_by_no_search_and_begins_again_empty(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tides.md").write_text("The tide turns at noon.")
    product = Product(tmp_path / "data", HASHING)
    with product.up(str(notes)) as up:
        where = {"intake": up.url("intake"), "retriever": up.url("retriever"), "collection": "letters"}
        with Client(Servers(**where)) as mine, Client(Servers(**where, namespace="acme")) as other:
            for client in (mine, other):
                assert client.put("a.md", "A letter about tides.", wait=60).is_served
                assert len(client.search("tides")["hits"]) == 1
            assert [row["collection"] for row in mine.collections()] == ["letters", "main"]
            keywords = tmp_path / "data" / "retriever"
            folders = len([place for place in keywords.rglob("*") if place.is_dir()])
            answer = product.run("collections", "delete", "letters")
            assert (answer.code, "1 document and 1 chunk" in answer.stderr) == (2, True)
            assert mine.delete_collection("letters") == 1
            with pytest.raises(NotThere):
                mine.search("tides")
            with pytest.raises(NotThere):
                mine.get("a.md")
            assert [hit["document"] for hit in other.search("tides")["hits"]] == ["a.md"]
            await_state(lambda: len([place for place in keywords.rglob("*") if place.is_dir()]) < folders, "its keyword files are gone")
            mine.create_collection("letters")
            assert mine.search("tides")["hits"] == []
            assert mine.put("b.md", "Another letter.", wait=60).is_served
            up.settle()
            assert product.succeed("namespaces", "delete", "acme", "--yes", "--json").json == {
                "deleted": "acme",
                "collections": {"letters": 1},
            }
            assert [row["namespace"] for row in mine.namespaces()] == ["default"]
            assert up.found("tide") == ["tides.md"]


def test_main_is_emptied_beside_up_and_its_folder_is_watched_no_longer(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tides.md").write_text("The tide turns at noon.")
    product = Product(tmp_path / "data", HASHING)
    with product.up(str(notes)) as up:
        up.settle()
        assert up.found("tide") == ["tides.md"]
        assert product.succeed("collections", "delete", "main", "--yes", "--json").json == {"deleted": "main", "documents": 1}
        assert up.found("tide") == []
        (notes / "later.md").write_text("The tide turns again.")
        with Client(Servers(up.url("intake"), up.url("retriever"))) as client:
            await_state(lambda: get_roots(up.url("intake")) == [], "its root is watched no longer")
            up.settle()
            assert (up.found("tide"), list(client.documents())) == ([], [])
            assert client.put("new.md", "A new tide.", wait=60).is_served
            assert up.found("tide") == ["new.md"]


def get_roots(url: str) -> list[object]:
    from kit.product import get_json

    try:
        return list(get_json(f"{url}/v1/state")["roots"])
    except urllib.error.URLError:
        return [url]
