"""Bad input: what cannot be indexed is named with a sentence, and its neighbours are indexed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit.commands import Said, command, environment

pytestmark = pytest.mark.process


def as_ordinary_user() -> list[str]:
    """What to put before a command so that file permissions hold for it; skips where root cannot lay its powers down."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root is not bound by file permissions, and setpriv is missing")
    without = "-dac_override,-dac_read_search"
    return [setpriv, f"--bounding-set={without}", f"--inh-caps={without}"]


def bound(*arguments: object, data: Path) -> Said:
    line = [*as_ordinary_user(), sys.executable, "-P", "-m", "evercurrent", *map(str, arguments), "--json", "--data", str(data)]
    done = subprocess.run(line, env=environment(), cwd=data.parent, capture_output=True, text=True, timeout=180, check=False)
    return Said(done.returncode, json.loads(done.stdout), done.stderr)


def states(data: Path) -> dict[str, str]:
    said = command("documents", data=data)
    return {row["document"]: row["state"] for row in said.words["documents"]}


def test_what_cannot_be_indexed_is_named_and_the_rest_is_indexed(tmp_path: Path) -> None:
    source, data = tmp_path / "source", tmp_path / "data"
    (source / "loop").mkdir(parents=True)
    (source / "fine.md").write_text("# Fine\n\nA good document.")
    (source / "empty.md").write_text("")
    (source / "picture.png").write_bytes(b"%PDF-1.4")
    (source / "bytes.txt").write_bytes(bytes(range(256)) * 8)
    (source / "large.txt").write_text("word " * 1000)
    (source / "loop" / "again").symlink_to(source)
    (source / "nowhere.md").symlink_to(source / "missing.md")
    (source / "self").symlink_to(source / "self")
    os.mkfifo(source / "pipe.md")
    said = command("sync", source, data=data, EVERCURRENT_INDEXER__DOCUMENT_BYTES_MAX="3000")
    assert said.code == 1
    assert {row["document"]: row["code"] for row in said.words["failures"]} == {
        "bytes.txt": "text_undecodable",
        "large.txt": "document_too_large",
    }
    assert all(row["message"].endswith(".") for row in said.words["failures"])
    assert said.words["documents"] == {
        **dict.fromkeys(("updated", "unchanged", "moved", "deleted"), 0),
        **{"added": 2, "failed": 2, "empty": 1, "ignored": 1},
    }
    assert "Traceback" not in said.stderr
    assert "names were passed over" in said.stderr
    assert states(data) == {
        "fine.md": "indexed",
        "empty.md": "empty",
        "picture.png": "ignored",
        "bytes.txt": "quarantined",
        "large.txt": "quarantined",
    }


def test_every_name_that_a_file_system_allows_is_a_document(tmp_path: Path) -> None:
    source, data = tmp_path / "source", tmp_path / "data"
    source.mkdir()
    names = [
        b"two words.md",
        "gr\u00fcn.md".encode(),
        b"line\nbreak.md",
        b"50%.md",
        b"a%2Fb.md",
        b"\xff\xfe.md",
        b"q?#&.md",
        b"x" * 240 + b".md",
    ]
    for name in names:
        (source / os.fsdecode(name)).write_text(f"# {name!r}\n\nThe marker zebra stands here.")
    assert command("sync", source, data=data).code == 0
    found = states(data)
    assert (len(found), set(found.values())) == (len(names), {"indexed"})
    assert {"%FF%FE.md", "grün.md", "line\nbreak.md"} <= found.keys()
    hits = command("search", "zebra", "-k", 20, data=data).words["hits"]
    assert {hit["document"] for hit in hits} == found.keys()
    again = command("sync", source, data=data).words
    assert (again["documents"]["unchanged"], again["embedded"]) == (len(names), 0)


def test_what_the_user_may_not_read_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    source, data = tmp_path / "source", tmp_path / "data"
    (source / "closed").mkdir(parents=True)
    (source / "fine.md").write_text("# Fine")
    (source / "secret.md").write_text("# Secret")
    (source / "closed" / "inside.md").write_text("# Inside")
    (source / "secret.md").chmod(0)
    (source / "closed").chmod(0)
    try:
        planned, said = bound("plan", source, data=data), bound("sync", source, data=data)
        assert (planned.code, planned.words["documents"]["failed"], data.exists()) == (0, 2, True)
        assert (said.code, said.words["documents"]["added"], said.words["documents"]["failed"]) == (1, 1, 2)
        assert {row["document"]: row["code"] for row in said.words["failures"]} == {
            "secret.md": "document_unreadable",
            "closed": "folder_unreadable",
        }
        root = bound("sync", source / "closed", data=tmp_path / "other")
        assert (root.code, root.words["error"]["code"]) == (2, "folder_unreadable")
    finally:
        (source / "closed").chmod(0o700)
    (source / "secret.md").chmod(0o600)
    assert command("retry", data=data).code == 0
    assert command("sync", source, data=data).words["documents"]["added"] == 1
    assert states(data) == {"fine.md": "indexed", "secret.md": "indexed", "closed/inside.md": "indexed"}


def test_a_folder_that_closes_after_it_was_indexed_is_no_deletion(tmp_path: Path) -> None:
    source, data = tmp_path / "source", tmp_path / "data"
    (source / "closed").mkdir(parents=True)
    (source / "closed" / "inside.md").write_text("# Inside")
    assert bound("sync", source, data=data).code == 0
    (source / "closed").chmod(0)
    try:
        assert bound("sync", source, data=data).code == 1
    finally:
        (source / "closed").chmod(0o700)
    assert states(data) == {"closed/inside.md": "indexed"}


def test_a_root_that_is_gone_is_one_error_and_its_documents_stay(tmp_path: Path) -> None:
    source, data = tmp_path / "source", tmp_path / "data"
    source.mkdir()
    (source / "a.md").write_text("# A")
    assert command("sync", source, data=data).code == 0
    source.rename(tmp_path / "elsewhere")
    said = command("sync", source, data=data)
    assert (said.code, said.words["error"]["code"]) == (2, "folder_missing")
    assert states(data) == {"a.md": "held"}
    assert [hit["document"] for hit in command("search", "A", data=data).words["hits"]] == ["a.md"]
