"""`evercurrent split`: a person sees the cut of a file, and what an edit of it costs, without an index."""

from __future__ import annotations

from pathlib import Path

from kit.pdfs import pdf_of
from kit.pipeline import paragraphs
from kit.product import Product

SETTINGS = {"EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing", "EVERCURRENT_INDEXER__SPLIT__CHUNK_CHARS_MAX": "200"}


def test_the_chunks_of_a_file_are_those_that_an_index_would_hold(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Title\n\n" + paragraphs("1", "2", "3"), "utf-8")
    product = Product(tmp_path / "data", SETTINGS)
    shown = product.succeed("split", str(docs / "a.md"), "--json").json
    assert not (tmp_path / "data").exists()
    product.succeed("sync", str(docs))
    exported = product.succeed("export").lines
    assert [(row["chunk_id"], row["start"], row["end"], row["text"]) for row in shown["chunks"]] == [
        (row["chunk_id"], row["start"], row["end"], row["text"]) for row in exported
    ]
    assert (shown["title"], shown["media_type"], shown["embedded"]) == ("Title", "text/markdown", len(exported))


def test_a_diff_names_what_an_index_of_the_old_version_would_embed(tmp_path: Path) -> None:
    old, new = tmp_path / "old.bak", tmp_path / "new.md"
    old.write_text(paragraphs("1", "2", "3", "4"), "utf-8")
    new.write_text(paragraphs("1", "2", "changed", "4"), "utf-8")
    product = Product(tmp_path / "data", SETTINGS)
    shown = product.succeed("split", str(new), "--diff", str(old), "--json").json
    assert [row["embedded"] for row in shown["chunks"]] == [False, False, True, False]
    assert shown["embedded"] == 1
    piped = product.succeed("split", str(new), "--diff", str(old))
    assert [line[0] for line in piped.stdout.splitlines()] == [" ", " ", "+", " "]
    assert "1 of them would be embedded again" in piped.stderr


def test_what_could_not_be_read_is_said_and_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf_of([[]]))
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    product = Product(tmp_path / "data", SETTINGS)
    scan = product.succeed("split", str(tmp_path / "scan.pdf"))
    assert (scan.stdout, "no text" in scan.stderr) == ("", True)
    for name in ("photo.png", "missing.md"):
        refused = product.run("split", str(tmp_path / name))
        assert refused.code in (2, 3)
        assert len(refused.stderr.splitlines()) == 1
