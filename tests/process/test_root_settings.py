"""Settings of one root over the real product: its documents alone are cut anew, and a name that no root has is told."""

from __future__ import annotations

from pathlib import Path

from kit.product import Product

TEXT = "\n\n".join(
    f"Paragraph {number} of {{0}}, long enough that it stands alone as a chunk of its own." for number in ("one", "two", "three")
)


def test_a_root_that_is_cut_in_its_own_way_embeds_only_its_own_chunks_and_a_mistyped_name_is_told(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "text.md").write_text(TEXT.format(folder))
    config = tmp_path / "evercurrent.toml"
    config.write_text('[indexer.embedding]\nprovider = "hashing"\n')
    product = Product(tmp_path / "data", cwd=tmp_path)
    product.succeed("sync", "a", "other=b")
    config.write_text(config.read_text() + "\n[indexer.roots.other.split]\nchunk_chars_max = 100\n[indexer.roots.othr]\n")
    again = product.succeed("sync")
    assert "embedded 3 texts, reused 1," in again.stdout
    assert "there is no root 'othr'; did you mean 'other'?" in again.stderr
    assert "embedded 0 texts, reused 0," in product.succeed("sync").stdout


def test_front_matter_that_breaks_a_declaration_is_left_out_and_said(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "good.md").write_text("---\nstatus: final\n---\nA good one.\n")
    (docs / "odd.md").write_text("---\nstatus: finel\nteam: harbour\n---\nAn odd one.\n")
    (tmp_path / "evercurrent.toml").write_text(
        '[indexer.embedding]\nprovider = "hashing"\n[indexer.collections.main.fields.status]\nvalues = ["draft", "final"]\n'
    )
    product = Product(tmp_path / "data", cwd=tmp_path)
    planned = product.succeed("plan", "docs", "--json").json
    done = product.succeed("sync", "docs", "--json").json
    assert planned["documents"] == done["documents"]
    served = {row["document"]: row["metadata"] for row in product.succeed("export").lines}
    assert (served["good.md"]["status"], served["odd.md"].get("status"), served["odd.md"]["team"]) == ("final", None, "harbour")
    rows = {row["document"]: row for row in product.succeed("documents", "--json").json["documents"]}
    assert (rows["good.md"]["code"], rows["odd.md"]["code"]) == (None, "loaded_with_faults")
    assert "did you mean 'final'?" in rows["odd.md"]["message"]
