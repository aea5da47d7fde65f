"""Held documents stay served until a person lets them go."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.product import Product

HASHING = {"EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing"}


@pytest.mark.process
def test_a_mass_disappearance_is_held_until_it_is_released(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(15):
        (docs / f"{number:02}.md").write_text(f"document number {number}\n", "utf-8")
    product = Product(tmp_path / "data", HASHING)
    product.succeed("sync", str(docs))
    for number in range(14):
        (docs / f"{number:02}.md").unlink()
    product.run("sync", str(docs))
    status = product.succeed("status", "--json").json
    assert (status["documents"]["held"], status["health"]["state"]) == (14, "degraded")
    assert len({row["document"] for row in product.succeed("export").lines}) == 15
    assert product.run("sources", "release", "nothing").code == 2
    assert len(product.succeed("sources", "release", "00.md", "--json").json["released"]) == 1
    assert len(product.succeed("sources", "release", "main", "--json").json["released"]) == 13
    assert {row["document"] for row in product.succeed("export").lines} == {"14.md"}
    assert product.succeed("sync", str(docs), "--json").json["documents"]["unchanged"] == 1


@pytest.mark.process
def test_a_file_whose_uri_another_root_owns_is_a_failure_and_not_silence(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "b").mkdir(parents=True)
    second.mkdir()
    (first / "b" / "x.md").write_text("of the first root\n", "utf-8")
    (second / "x.md").write_text("of the second root\n", "utf-8")
    (second / "y.md").write_text("alone\n", "utf-8")
    product = Product(tmp_path / "data", HASHING)
    product.succeed("sync", str(first))
    answer = product.run("sync", f"b={second}", "--json")
    assert (answer.code, answer.json["failures"][0]["document"], answer.json["failures"][0]["code"]) == (1, "b/x.md", "owned_by_source")
    assert (answer.json["documents"]["added"], answer.json["documents"]["failed"], answer.json["documents"]["unchanged"]) == (1, 1, 0)
    assert {row["document"]: row["text"] for row in product.succeed("export").lines} == {"b/x.md": "of the first root", "b/y.md": "alone"}
    again = product.run("sync", f"b={second}", "--json")
    assert (again.code, [failure["document"] for failure in again.json["failures"]]) == (1, ["b/x.md"])
    states = {(row["document"], row["root"]): row["state"] for row in product.succeed("documents", "--json").json["documents"]}
    assert states == {("b/x.md", "main"): "indexed", ("b/x.md", "b"): "conflict", ("b/y.md", "b"): "indexed"}
    (first / "b" / "x.md").unlink()
    (first / "kept.md").write_text("kept\n", "utf-8")
    product.succeed("sync", str(first))
    assert product.succeed("sync", f"b={second}", "--json").json["failures"] == []
    assert {row["document"]: row["text"] for row in product.succeed("export").lines} == {
        "b/x.md": "of the second root",
        "b/y.md": "alone",
        "kept.md": "kept",
    }
