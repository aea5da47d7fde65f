"""Buckets through the command and a running `up`, over file:// since that is there everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.product import Product

pytestmark = pytest.mark.process

SETTINGS = {"EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing", "EVERCURRENT_INDEXER__BUCKETS__POLL_SECONDS": "600"}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "bucket"
    (folder / "sub").mkdir(parents=True)
    for number in range(12):
        (folder / f"d{number}.md").write_text(f"# Document {number}\n\nkiwi{number} grows here\n", "utf-8")
    (folder / "x.zzz").write_text("nobody reads this", "utf-8")
    return folder


def product_at(tmp_path: Path) -> Product:
    return Product(tmp_path / "data", SETTINGS)


def states(product: Product) -> dict[str, str]:
    return {row["document"]: row["state"] for row in product.succeed("documents", "--json").json["documents"]}


def test_a_running_up_follows_a_bucket_through_edit_delete_rename_and_mass_disappearance(tmp_path: Path, docs: Path) -> None:
    product = product_at(tmp_path)
    with product.up(f"file://{docs}") as up:
        up.settle()
        assert up.found("kiwi3") == ["d3.md"]
        embedded = up.metric("evercurrent_embedded_texts_total")
        (docs / "d0.md").rename(docs / "sub" / "moved.md")
        (docs / "d1.md").unlink()
        up.settle()
        assert (up.found("kiwi0"), up.found("kiwi1")) == (["sub/moved.md"], [])
        assert up.metric("evercurrent_embedded_texts_total") == embedded
        (docs / "d2.md").write_text("a mango instead", "utf-8")
        (docs / "new.md").write_text("a papaya is new", "utf-8")
        up.settle()
        assert (up.found("mango"), up.found("papaya"), up.found("kiwi2")) == (["d2.md"], ["new.md"], [])
        docs.rename(tmp_path / "away")
        docs.mkdir()
        product.run("status", "--wait", "60", "--json")
        assert up.found("kiwi3") == ["d3.md"]
        status = product.succeed("status", "--json").json
        assert (status["documents"]["held"], status["health"]["state"]) == (12, "degraded")
        docs.rmdir()
        (tmp_path / "away").rename(docs)
        up.settle()
        status = product.succeed("status", "--json").json
        assert (status["documents"]["held"], status["health"]["state"]) == (0, "ok")


def test_the_command_takes_a_bucket_as_it_takes_a_folder(tmp_path: Path, docs: Path) -> None:
    product, url = product_at(tmp_path), f"file://{docs}"
    assert product.succeed("plan", url, "--json").json["documents"]["added"] == 12
    assert not product.data.exists()
    done = product.succeed("sync", url, "--json").json["documents"]
    assert (done["added"], done["ignored"]) == (12, 1)
    (docs / "sub" / "deep.md").write_text("a lychee", "utf-8")
    (docs / "outside.md").write_text("a guava", "utf-8")
    assert product.succeed("sync", f"{url}/sub", "--json").json["documents"]["added"] == 1
    further = product.run("sync", "memory://bucket")
    assert (further.code, "NAME=memory://bucket" in further.stderr) == (2, True)
    (root,) = product.succeed("sources", "--json").json["roots"]
    assert (root["kind"], root["path"]) == ("bucket", url)
    assert states(product)["x.zzz"] == "ignored"


def test_held_documents_of_a_bucket_are_let_go_by_release(tmp_path: Path, docs: Path) -> None:
    product, url = product_at(tmp_path), f"file://{docs}"
    product.succeed("sync", url)
    for number in range(11):
        (docs / f"d{number}.md").unlink()
    product.succeed("sync")
    assert sum(state == "held" for state in states(product).values()) == 11
    product.succeed("sources", "release", "main")
    assert [name for name, state in states(product).items() if state in ("indexed", "held")] == ["d11.md"]


def test_what_cannot_be_a_bucket_is_refused_in_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    product = product_at(tmp_path)
    for given, said in (
        ("ftp://host/x", "is no bucket"),
        ("s3://key:secret@bucket/x", "holds no credentials"),
        ("s3://", "names no bucket"),
        (f"file://{tmp_path}/nowhere", "no file or folder"),
    ):
        answer = product.run("sync", given)
        assert (answer.code, said in answer.stderr, "secret" in answer.stderr.replace("s3://", "")) == (2, True, False)
    assert not product.data.exists()
