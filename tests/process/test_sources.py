"""Held documents stay served until a person lets them go."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.product import Product, Up, await_state, get_json

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
    (second / "x.md").unlink()
    planned = product.succeed("plan", f"b={second}", "--json").json["documents"]
    assert (planned["deleted"], planned["failed"]) == (0, 0)
    (second / "x.md").write_text("of the second root\n", "utf-8")
    (first / "b" / "x.md").unlink()
    (first / "kept.md").write_text("kept\n", "utf-8")
    product.succeed("sync", str(first))
    assert product.succeed("sync", f"b={second}", "--json").json["failures"] == []
    assert {row["document"]: row["text"] for row in product.succeed("export").lines} == {
        "b/x.md": "of the second root",
        "b/y.md": "alone",
        "kept.md": "kept",
    }


def folder_of(path: Path, **documents: str) -> Path:
    path.mkdir(parents=True)
    for name, text in documents.items():
        (path / f"{name}.md").write_text(text + "\n", "utf-8")
    return path


def exported(product: Product) -> set[str]:
    return {row["document"] for row in product.succeed("export").lines}


@pytest.mark.process
def test_a_root_leaves_with_its_documents_and_nothing_else_when_it_is_removed(tmp_path: Path) -> None:
    first, second = folder_of(tmp_path / "first", a="alpha"), folder_of(tmp_path / "second", b="beta", c="gamma")
    product = Product(tmp_path / "data", HASHING)
    product.succeed("sync", str(first))
    product.succeed("sync", f"more={second}")
    assert product.succeed("sources", "remove", "more", "--json").json == {"removed": "more", "documents": 2}
    assert exported(product) == {"a.md"}
    assert [row["root"] for row in product.succeed("sources", "--json").json["roots"]] == ["main"]
    assert sorted(path.name for path in second.iterdir()) == ["b.md", "c.md"]
    again = product.succeed("sync", f"more={second}", "--json").json
    assert (again["documents"]["added"], again["embedded"]) == (2, 0)


@pytest.mark.process
def test_a_root_that_nobody_has_is_named_with_the_nearest(tmp_path: Path) -> None:
    product = Product(tmp_path / "data", HASHING)
    product.succeed("sync", str(folder_of(tmp_path / "first", a="alpha")))
    refused = product.run("sources", "remove", "mian")
    assert refused.code == 2
    assert "did you mean 'main'?" in refused.stderr
    assert exported(product) == {"a.md"}


@pytest.mark.process
def test_a_root_that_is_no_longer_named_stays_until_it_is_removed(tmp_path: Path) -> None:
    first, second = folder_of(tmp_path / "first", a="alpha"), folder_of(tmp_path / "second", b="beta")
    product = Product(tmp_path / "data", HASHING)
    product.succeed("sync", str(first), f"more={second}")
    with product.up(str(first)) as up:
        up.settle()
        assert exported(product) == {"a.md", "more/b.md"}
        (second / "new.md").write_text("delta\n", "utf-8")
        up.settle()
        assert exported(product) == {"a.md", "more/b.md", "more/new.md"}


@pytest.mark.process
def test_roots_come_and_go_beside_a_running_up(tmp_path: Path) -> None:
    first, second = folder_of(tmp_path / "first", a="alpha"), folder_of(tmp_path / "second", b="beta")
    product = Product(tmp_path / "data", HASHING)
    with product.up(str(first)) as up:
        product.succeed("sync", f"more={second}")
        await_state(lambda: "more" in watched_roots(up), "the new root is watched")
        (second / "new.md").write_text("delta\n", "utf-8")
        up.settle()
        assert exported(product) == {"a.md", "more/b.md", "more/new.md"}
        product.succeed("sources", "remove", "more")
        assert exported(product) == {"a.md"}
        await_state(lambda: "more" not in watched_roots(up), "the removed root is watched no more")
        (second / "newer.md").write_text("epsilon\n", "utf-8")
        (first / "b.md").write_text("zeta\n", "utf-8")
        up.settle()
        assert exported(product) == {"a.md", "b.md"}


def watched_roots(up: Up) -> set[str]:
    return {row["root"] for row in get_json(f"{up.url('intake')}/v1/state")["roots"]}


@pytest.mark.process
def test_a_file_in_conflict_shows_in_a_running_up_and_is_indexed_once_the_owner_leaves(tmp_path: Path) -> None:
    first, second = folder_of(tmp_path / "first", a="alpha"), folder_of(tmp_path / "second", x="of the folder")
    product = Product(tmp_path / "data", HASHING)
    product.succeed("sync", str(first))
    with product.up(f"more={second}") as up:
        up.settle()
        (first / "more").mkdir()
        (first / "more" / "x.md").write_text("of the first root\n", "utf-8")
        await_state(lambda: ("more/x.md", "main") in conflicts(product), "the conflict is shown")
        assert {row["text"] for row in product.succeed("export").lines} == {"alpha", "of the folder"}
        (second / "x.md").unlink()
        up.settle()
        await_state(lambda: not conflicts(product), "the conflict is over")
        up.settle()
        assert {row["text"] for row in product.succeed("export").lines} == {"alpha", "of the first root"}


def conflicts(product: Product) -> set[tuple[str, str]]:
    rows = product.succeed("documents", "--json").json["documents"]
    return {(row["document"], row["root"]) for row in rows if row["state"] == "conflict"}
