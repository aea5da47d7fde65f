"""Case: where the system does not tell names apart by it, the index goes by the name that is listed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.events import Event, EventKind
from indexer.ignore import Rules
from indexer.sources import folder as folders
from indexer.sources.folder import Folder
from indexer.sources.spelling import Exact, Listed, spelling_of
from indexer.sources.watched import WatchedRoot
from store.catalog.memory import MemoryCatalog
from store.clock import SystemClock
from store.config import WatchTable
from store.model import CollectionId, CollectionName, Namespace, Present, Root, RootName, Signature, SourceKind

HOME = CollectionId(Namespace("default"), CollectionName("main"))
CLOCK = SystemClock()


class FoldingFolder(Folder):
    """A folder of a system that finds every spelling of a name, as macOS does; the real one below it tells them apart."""

    def __init__(self, root: Root, rules: Rules) -> None:
        super().__init__(root, rules)
        self._spelling = Listed()

    def follow(self, path: str) -> Signature | None:
        return super().follow(as_stored(path, self.root.path))

    def _stands_in_place(self, path: str) -> bool:
        return super()._stands_in_place(as_stored(path, self.root.path))


def as_stored(path: str, root: str) -> str:
    """The path in the spelling that is stored, whichever it was asked for in."""
    found = root
    for name in path.removeprefix(root).strip("/").split("/"):
        names = os.listdir(found) if os.path.isdir(found) else []
        found = os.path.join(found, next((stored for stored in names if stored.casefold() == name.casefold()), name))
    return found


def root_at(path: Path) -> Root:
    return Root(HOME, RootName("docs"), SourceKind.FOLDER, str(path), "")


names = st.sampled_from(["a", "A", "b", "ß", "SS", "É", "é"])
uris = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/".join(parts) + ".md")


@given(st.lists(uris, max_size=6), st.lists(uris, max_size=6))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_document_is_found_exactly_when_a_scan_lists_it(
    tmp_path_factory: pytest.TempPathFactory, kept: list[str], asked: list[str]
) -> None:
    place = tmp_path_factory.mktemp("docs")
    for uri in kept:
        path = Path(as_stored(str(place / uri), str(place)))
        if not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():
                path.write_text("x")
    folder = FoldingFolder(root_at(place), Rules())
    found = folder.scan().found
    assert {uri for uri in {*asked, *kept} if folder.look(uri) is not None} == {*asked, *kept} & set(found)


@pytest.mark.parametrize(("old", "new"), [("a.md", "A.md"), ("d/a.md", "D/a.md"), ("straße.md", "STRASSE.md")])
def test_a_rename_of_case_alone_is_one_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    monkeypatch.setattr("indexer.sources.watched.Folder", FoldingFolder)
    (tmp_path / old).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / old).write_text("text")
    table = WatchTable(settle_seconds=0.1, settle_seconds_max=1)
    watched = WatchedRoot(root_at(tmp_path), MemoryCatalog(CLOCK), Rules(), table, lambda uri: uri.endswith(".md"), CLOCK)
    watched.reconcile()
    (tmp_path / old).rename(tmp_path / "between")
    (tmp_path / new).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "between").rename(tmp_path / new)
    if (tmp_path / old).parent != (tmp_path / new).parent:
        (tmp_path / old).parent.rmdir()
    watched.take([Event(EventKind.MOVED, old, 1.0, moved_to=new)], 1.0)
    intents = watched.take([], 9.0)
    assert [(intent.document.uri, intent.moved_from and intent.moved_from.uri) for intent in intents if isinstance(intent, Present)] == [
        (new, old)
    ]
    assert len(intents) == 1


def test_the_system_is_asked_once_whether_case_matters_to_it(tmp_path: Path) -> None:
    place = tmp_path / "Docs"
    place.mkdir()
    assert isinstance(spelling_of(str(place)), Exact)
    asked: list[tuple[str, str]] = []

    def same(path: str, other: str) -> bool:
        asked.append((path, other))
        return True

    assert isinstance(spelling_of(str(place), same), Listed)
    assert asked == [(str(place), str(tmp_path / "dOCS"))]


def test_a_folder_whose_name_has_no_case_is_taken_as_it_is(tmp_path: Path) -> None:
    assert isinstance(spelling_of(str(tmp_path / "文档"), lambda *_: True), Exact)


def test_a_folder_that_has_its_swapped_name_beside_it_tells_names_apart(tmp_path: Path) -> None:
    for name in ("docs", "DOCS"):
        (tmp_path / name).mkdir()
    assert isinstance(spelling_of(str(tmp_path / "docs")), Exact)


def test_telling_names_apart_costs_no_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("x")
    folder = folders.Folder(root_at(tmp_path), Rules())
    monkeypatch.setattr("os.listdir", lambda *_: pytest.fail("a folder was listed"))
    assert folder.look("a.md") is not None
