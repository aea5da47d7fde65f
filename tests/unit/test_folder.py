"""Claims about a folder as a source, on a real file system."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.guard import RootState
from indexer.ignore import Rules
from indexer.sources import folder as folder_module
from indexer.sources.folder import Folder, fetch, path_of, root_alive, scan, uri_of
from indexer.sources.names import path_of_uri, uri_of_path
from store.clock import SystemClock
from store.errors import DocumentTooLarge, DocumentUnreadable, SourceUnstable, SourceVanished
from store.model import CollectionId, CollectionName, Instant, Namespace, Root, RootName, SourceKind, check_uri

HOME = CollectionId(Namespace("default"), CollectionName("main"))
CLOCK = SystemClock()


def root_at(path: Path, prefix: str = "", kind: SourceKind = SourceKind.FOLDER) -> Root:
    return Root(HOME, RootName("docs"), kind, str(path), prefix)


def write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def uris(root: Root, rules: Rules | None = None, scope: str = "") -> list[str]:
    return sorted(scan(root, rules, scope).found)


# --- names --------------------------------------------------------------------------------------------------


@given(st.binary(min_size=1, max_size=12).filter(lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")))
def test_every_file_name_has_a_way_to_its_uri_and_back(name: bytes) -> None:
    uri = uri_of_path(os.fsdecode(name))
    check_uri(uri)
    assert os.fsencode(path_of_uri(uri)) == name


names = st.lists(st.sampled_from([b"%", b"2", b"5", b"25", b"F", b"FF", b"\xff", b"ff", b"\xc3", b"\xc3\xa9"]), min_size=1, max_size=7)


@given(names.map(b"".join), names.map(b"".join))
def test_no_two_file_names_share_a_uri(one: bytes, other: bytes) -> None:
    assert os.fsencode(path_of_uri(uri_of_path(os.fsdecode(one)))) == one
    assert (uri_of_path(os.fsdecode(one)) == uri_of_path(os.fsdecode(other))) is (one == other)


def test_an_ordinary_name_is_its_own_uri() -> None:
    for name in ["guide/install.md", "100%.md", "%20.md", "%e4.md", "über/日本.md", "back\\slash.md", "line\nbreak.md", "e\u0301.md"]:
        assert uri_of_path(name) == name
    assert uri_of_path(os.fsdecode(b"caf\xe9.md")) == "caf%E9.md"
    assert uri_of_path("caf%E9.md") == "caf%25E9.md"


def test_a_file_is_found_and_fetched_under_the_uri_of_its_bytes(tmp_path: Path) -> None:
    for name, text in [(b"caf\xe9.md", b"latin"), (b"caf%E9.md", b"literal"), (b"caf\xc3\xa9.md", b"utf-8"), (b"a\\b.md", b"slash")]:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(text)
    root = root_at(tmp_path)
    assert {uri: fetch(root, uri, 100, CLOCK).content for uri in scan(root).found} == {
        "caf%E9.md": b"latin",
        "caf%25E9.md": b"literal",
        "café.md": b"utf-8",
        "a\\b.md": b"slash",
    }


# --- scan ---------------------------------------------------------------------------------------------------


def test_a_scan_finds_documents_and_no_litter(tmp_path: Path) -> None:
    write(
        tmp_path, "doc.md", "sub/deep/b.md", ".hidden.md", ".git/index.md", "doc.md~", "~$doc.docx", "Thumbs.db", "notes~2024.md", "x.tmp"
    )
    seen = scan(root_at(tmp_path))
    assert sorted(seen.found) == ["doc.md", "notes~2024.md", "sub/deep/b.md"]
    assert seen.root_state is RootState.ALIVE
    assert seen.found["doc.md"].bytes == 1


def test_a_further_root_has_its_prefix(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/b.md")
    root = root_at(tmp_path, "wiki/")
    assert uris(root) == ["wiki/a.md", "wiki/sub/b.md"]
    assert path_of(root, "wiki/sub/b.md") == str(tmp_path / "sub/b.md")
    assert uri_of(root, str(tmp_path / "sub/b.md")) == "wiki/sub/b.md"
    assert uri_of(root, str(tmp_path) + "2/b.md") is None


def test_a_root_whose_own_name_begins_with_a_dot_is_scanned(tmp_path: Path) -> None:
    write(tmp_path / ".notes", "a.md")
    assert uris(root_at(tmp_path / ".notes")) == ["a.md"]


def test_a_single_file_is_a_root(tmp_path: Path) -> None:
    write(tmp_path, "only.md", "other.md")
    root = root_at(tmp_path / "only.md", kind=SourceKind.FILE)
    assert uris(root) == ["only.md"]
    assert fetch(root, "only.md", 100, CLOCK).content == b"x"
    (tmp_path / "only.md").unlink()
    assert scan(root).root_state is RootState.ALIVE
    assert uris(root) == []


def test_a_scope_limits_the_scan_to_a_folder_or_a_document(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/b.md", "sub/deep/c.md", "sub2/d.md", ".git/e.md")
    root = root_at(tmp_path, "wiki/")
    assert uris(root, scope="wiki/sub") == ["wiki/sub/b.md", "wiki/sub/deep/c.md"]
    assert uris(root, scope="wiki/a.md") == ["wiki/a.md"]
    assert uris(root, scope="wiki/.git") == []
    assert uris(root, scope="wiki/gone") == []


def test_an_absent_an_empty_and_another_root_are_told_apart(tmp_path: Path) -> None:
    root = root_at(tmp_path / "docs")
    assert scan(root).root_state is RootState.ABSENT
    assert not root_alive(root)
    (tmp_path / "docs" / "folder").mkdir(parents=True)
    assert scan(root).root_state is RootState.EMPTY
    write(tmp_path / "docs", "a.md")
    device = scan(root).device
    assert device == (tmp_path / "docs").stat().st_dev
    assert scan(replace(root, device=device)).root_state is RootState.ALIVE
    assert scan(replace(root, device=device + 1)).root_state is RootState.OTHER_DEVICE
    assert root_alive(replace(root, device=device))


def test_links_are_followed_to_files_inside_only(tmp_path: Path) -> None:
    write(tmp_path / "docs", "ok.md", "sub/b.md")
    write(tmp_path, "secret.md", "docs2/near.md")
    docs = tmp_path / "docs"
    for name, target in [
        ("inside.md", "sub/b.md"),
        ("leak.md", "../secret.md"),
        ("near.md", "../docs2/near.md"),
        ("dangling.md", "missing.md"),
        ("loop", "."),
        ("self.md", "self.md"),
        ("folder", "sub"),
    ]:
        (docs / name).symlink_to(target)
    seen = scan(root_at(docs))
    assert sorted(seen.found) == ["inside.md", "ok.md", "sub/b.md"]
    assert seen.links == {"sub/b.md": ("inside.md",)}
    assert sorted(refusal.uri for refusal in seen.refusals) == ["dangling.md", "folder", "leak.md", "loop", "near.md", "self.md"]
    for name in ["leak.md", "near.md", "dangling.md", "self.md", "folder", "folder/b.md"]:
        assert Folder(root_at(docs), Rules()).look(name) is None
    for name in ["leak.md", "near.md", "dangling.md", "self.md", "folder"]:
        with pytest.raises(SourceVanished):
            fetch(root_at(docs), name, 100, CLOCK)


def test_special_files_are_neither_found_nor_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    write(tmp_path, "a.md")
    assert uris(root_at(tmp_path)) == ["a.md"]
    with pytest.raises(SourceVanished):
        fetch(root_at(tmp_path), "pipe.md", 100, CLOCK)


def test_a_name_longer_than_a_uri_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, "/".join(["d" * 200] * 5) + "/" + "x" * 100 + ".md", "a.md")
    seen = scan(root_at(tmp_path))
    assert sorted(seen.found) == ["a.md"]
    assert [refusal.reason for refusal in seen.refusals] == ["its name is longer than 1024 bytes"]


def test_patterns_of_the_configuration_and_of_nested_ignore_files_hold(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.txt", "drafts/c.md", "sub/d.md", "sub/e.md", "sub/deep/e.md", "own/f.md")
    write(tmp_path, ".evercurrentignore", text="drafts/\n")
    write(tmp_path, "sub/.evercurrentignore", text="/e.md\n")
    rules = Rules(exclude=("*.txt",), own_paths=(str(tmp_path / "own"),))
    root = root_at(tmp_path)
    assert uris(root, rules) == ["a.md", "sub/d.md", "sub/deep/e.md"]
    folder = Folder(root, rules)
    everything = ["a.md", "b.txt", "drafts/c.md", "sub/d.md", "sub/e.md", "sub/deep/e.md", "own/f.md"]
    assert [uri for uri in everything if folder.look(uri)] == ["a.md", "sub/d.md", "sub/deep/e.md"]
    assert [uri for uri in everything if folder.excludes(uri)] == ["b.txt", "drafts/c.md", "sub/e.md", "own/f.md"]
    assert uris(root, rules, scope="drafts") == []


def test_look_and_scan_see_the_same(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/b.md", ".hidden/c.md", "sub/d.tmp")
    found = scan(root_at(tmp_path)).found
    folder = Folder(root_at(tmp_path), Rules())
    assert {uri: folder.look(uri) for uri in ["a.md", "sub/b.md"]} == found
    assert [folder.look(uri) for uri in [".hidden/c.md", "sub/d.tmp", "gone.md", "sub"]] == [None] * 4


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser reads everything")
def test_an_unreadable_folder_is_a_fault_of_the_scan(tmp_path: Path) -> None:
    write(tmp_path, "closed/a.md", "b.md")
    (tmp_path / "closed").chmod(0)
    try:
        seen = scan(root_at(tmp_path))
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert sorted(seen.found) == ["b.md"]
    assert [fault.uri for fault in seen.faults] == ["closed"]


def test_a_folder_that_cannot_be_listed_is_a_fault_of_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "closed/a.md", "b.md")
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, lambda path: str(path).endswith("closed")))
    seen = scan(root_at(tmp_path))
    assert sorted(seen.found) == ["b.md"]
    assert [(fault.uri, fault.reason) for fault in seen.faults] == [("closed", "Permission denied")]


def refusing(call: Callable[..., object], refused: Callable[[object], bool]) -> Callable[..., object]:
    def wrapped(path: object, *rest: object) -> object:
        if refused(path):
            raise PermissionError(13, "Permission denied")
        return call(path, *rest)

    return wrapped


def test_a_scan_imports_nothing_heavy() -> None:
    check = (
        "import sys; import indexer.sources.reconciling; "
        "print([name for name in ('numpy','pathspec','watchdog','redis','rq','fastapi','tantivy','openai') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip() == "[]"


# --- fetch --------------------------------------------------------------------------------------------------


class Later:
    """A clock `seconds` ahead of the real one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> Instant:
        return Instant(CLOCK.now() + self._seconds)

    def monotonic(self) -> float:
        return CLOCK.monotonic()

    def new_id(self) -> str:
        return CLOCK.new_id()


def test_a_fetch_proves_its_signature_only_some_time_after_the_last_write(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    root = root_at(tmp_path)
    assert not fetch(root, "a.md", 100, CLOCK).proven
    assert not fetch(root, "a.md", 100, Later(1.0)).proven
    fetched = fetch(root, "a.md", 100, Later(3.0))
    assert fetched.proven
    assert fetched.signature == scan(root).found["a.md"]


def test_a_fetch_reads_no_more_than_the_limit(tmp_path: Path) -> None:
    write(tmp_path, "a.md", text="x" * 101)
    with pytest.raises(DocumentTooLarge):
        fetch(root_at(tmp_path), "a.md", 100, CLOCK)
    assert len(fetch(root_at(tmp_path), "a.md", 101, CLOCK).content) == 101


def test_a_fetch_of_what_is_gone_says_vanished(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/b.md")
    for uri in ["gone.md", "a.md/below.md", "sub", "no/such/folder.md"]:
        with pytest.raises(SourceVanished):
            fetch(root_at(tmp_path), uri, 100, CLOCK)


def test_a_fetch_without_permission_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.md")
    monkeypatch.setattr(os, "open", refusing(os.open, lambda path: str(path).endswith("a.md")))
    with pytest.raises(DocumentUnreadable, match="Permission denied"):
        fetch(root_at(tmp_path), "a.md", 100, CLOCK)


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.md", text="one")
    read, texts = folder_module._read, iter(["two!", "three"])

    def read_then_change(descriptor: int, bytes_max: int) -> bytes:
        content = read(descriptor, bytes_max)
        if text := next(texts, None):
            write(tmp_path, "a.md", text=text)
        return content

    monkeypatch.setattr(folder_module, "_read", read_then_change)
    fetched = fetch(root_at(tmp_path), "a.md", 100, CLOCK)
    assert fetched.content == b"three"
    assert fetched.signature == scan(root_at(tmp_path)).found["a.md"]


def test_a_file_that_never_holds_still_is_unstable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.md")
    read = folder_module._read

    def read_then_append(descriptor: int, bytes_max: int) -> bytes:
        content = read(descriptor, bytes_max)
        with open(tmp_path / "a.md", "a") as file:
            file.write("more")
        return content

    monkeypatch.setattr(folder_module, "_read", read_then_append)
    with pytest.raises(SourceUnstable):
        fetch(root_at(tmp_path), "a.md", 1000, CLOCK)


def test_reading_leaves_the_access_time_alone(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    os.utime(tmp_path / "a.md", (1.0, 2.0))
    fetch(root_at(tmp_path), "a.md", 100, CLOCK)
    assert os.stat(tmp_path / "a.md").st_atime == 1.0
    assert stat.S_ISREG(os.stat(tmp_path / "a.md").st_mode)
