from __future__ import annotations

from pathlib import Path

import pytest

from evercurrent.targets import Target, split_name, targets_of
from store.errors import FolderMissing, Misuse
from store.model import CollectionId, CollectionName, Namespace, Root, RootName, SourceKind

HOME = CollectionId(Namespace("default"), CollectionName("main"))


def root(path: Path, name: str = "main", prefix: str = "", kind: SourceKind = SourceKind.FOLDER) -> Root:
    return Root(HOME, RootName(name), kind, str(path), prefix)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    (tmp_path / "docs" / "guide" / "a.md").write_text("a")
    (tmp_path / "other").mkdir()
    return tmp_path / "docs"


def test_the_first_root_has_no_prefix(docs: Path) -> None:
    (target,) = targets_of([str(docs)], [], HOME)
    assert (target.root.prefix, target.root.kind, target.is_new, target.scope) == ("", SourceKind.FOLDER, True, "")


def test_a_further_root_needs_a_name_and_has_it_as_prefix(docs: Path) -> None:
    other = docs.parent / "other"
    with pytest.raises(Misuse, match="NAME="):
        targets_of([str(other)], [root(docs)], HOME)
    (target,) = targets_of([f"notes={other}"], [root(docs)], HOME)
    assert (target.root.name, target.root.prefix) == ("notes", "notes/")


@pytest.mark.parametrize("place", ["", "memory://bucket"])
def test_no_root_takes_the_name_of_the_uploads(docs: Path, place: str) -> None:
    for known in ([], [root(docs)]):
        with pytest.raises(Misuse, match="uploaded"):
            targets_of([f"uploads={place or docs.parent / 'other'}"], known, HOME)


def test_a_path_inside_a_known_root_is_a_scoped_pass(docs: Path) -> None:
    (target,) = targets_of([str(docs / "guide")], [root(docs)], HOME)
    assert (target.root, target.scope, target.is_new) == (root(docs), "guide", False)


def test_a_root_s_own_path_is_not_taken_for_a_further_root_of_a_longer_one(docs: Path) -> None:
    (longer := docs.parent / "docs-elsewhere").mkdir()
    first, further = root(docs), root(longer, prefix="n/", name="n")
    (target,) = targets_of([str(docs)], [first, further], HOME)
    assert (target.root, target.scope, target.is_new) == (first, "", False)


def test_a_file_inside_a_known_root_is_its_uri(docs: Path) -> None:
    (target,) = targets_of([str(docs / "guide" / "a.md")], [root(docs, prefix="n/", name="n")], HOME)
    assert target.scope == "n/guide/a.md"


def test_a_file_alone_is_a_root_of_that_file(docs: Path) -> None:
    (target,) = targets_of([str(docs / "guide" / "a.md")], [], HOME)
    assert (target.root.kind, target.is_new) == (SourceKind.FILE, True)


def test_a_missing_path_is_refused(docs: Path) -> None:
    for path in (docs.parent / "nowhere", docs / "nowhere.md"):
        with pytest.raises(FolderMissing):
            targets_of([str(path)], [root(docs)], HOME)


def test_a_missing_path_that_the_ledger_knows_is_a_deletion(docs: Path) -> None:
    (target,) = targets_of([str(docs / "gone.md")], [root(docs)], HOME, lambda _root, uri: uri == "gone.md")
    assert (target.scope, target.is_there) == ("gone.md", False)


def test_a_known_root_reached_through_a_link_is_the_same_root(docs: Path) -> None:
    link = docs.parent / "link"
    link.symlink_to(docs)
    assert [target.root for target in targets_of([str(link)], [root(docs)], HOME)] == [root(docs)]
    assert [target.scope for target in targets_of([str(link / "guide")], [root(docs)], HOME)] == ["guide"]


def test_without_a_path_every_known_root_is_meant(docs: Path) -> None:
    roots = [root(docs), root(docs.parent / "other", "o", "o/")]
    assert [target.root for target in targets_of([], roots, HOME)] == roots
    with pytest.raises(Misuse, match="Name the folder"):
        targets_of([], [], HOME)


def test_a_folder_that_is_really_named_so_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a=b").mkdir()
    assert split_name("a=b") == (None, "a=b")
    assert split_name("a=c") == ("a", "c")


def test_a_target_holds_its_scope_and_nothing_of_other_roots(docs: Path) -> None:
    target = Target(root(docs), foreign=("o/",))
    assert target.holds("guide/a.md")
    assert not target.holds("o/a.md")
    scoped = Target(root(docs), scope="guide")
    assert (scoped.holds("guide/a.md"), scoped.holds("guide2.md"), scoped.holds("guide")) == (True, False, True)
