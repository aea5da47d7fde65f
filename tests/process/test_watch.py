"""Claims about watching real folders: whatever is done to the files, the ledger ends equal to them."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from kit.commands import wait_until

from indexer.events import Event, EventKind
from indexer.identity import content_hash
from indexer.ignore import Rules
from indexer.sources.folder import fetch, scan
from indexer.sources.inbox import Inbox
from indexer.sources.mounts import file_system_of, is_remote
from indexer.sources.watched import WatchedRoot
from indexer.watching import Watching
from store.clock import SystemClock
from store.config import WatchTable
from store.errors import CatalogBusy, SourceVanished
from store.model import (
    Absent,
    CollectionId,
    CollectionName,
    DocumentId,
    DocumentState,
    Held,
    Ignored,
    Instant,
    Intent,
    Namespace,
    PendingDocument,
    Present,
    Root,
    RootName,
    Seen,
    Sighting,
    SourceKind,
    Version,
)
from store.ports import Tally

HOME = CollectionId(Namespace("default"), CollectionName("main"))
CLOCK = SystemClock()
PATIENCE = 30.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify")
MODES = pytest.mark.parametrize("mode", ["native", "polling"])


class LevelLedger:
    """A ledger whose worker is instant: a present document is fetched while its intent is recorded."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.rows: dict[str, Sighting] = {}
        self.texts: dict[str, bytes] = {}
        self.intents: list[Intent] = []
        self.refusals = 0

    def record(self, intents: Sequence[Intent]) -> list[Version | None]:
        if self.refusals:
            self.refusals -= 1
            raise CatalogBusy(seconds=0)
        for intent in intents:
            self._apply(intent)
        self.intents += intents
        return [None] * len(intents)

    def _apply(self, intent: Intent) -> None:
        uri = intent.document.uri
        match intent:
            case Present(moved_from=old):
                if old is not None:
                    self._drop(old.uri)
                self._fetch(uri)
            case Absent():
                self._drop(uri)
            case Ignored(signature=signature):
                self._drop(uri)
                self.rows[uri] = Sighting(uri, DocumentState.IGNORED, signature, False, None, Version(1))
            case Held():
                self.rows[uri] = replace(self.rows[uri], state=DocumentState.HELD)
            case Seen(signature=signature, proven=proven):
                self.rows[uri] = replace(self.rows[uri], state=DocumentState.INDEXED, signature=signature, proven=proven)

    def _fetch(self, uri: str) -> None:
        try:
            fetched = fetch(self.root, uri, 1 << 20, CLOCK)
        except SourceVanished:
            self._drop(uri)
            return
        hashed = content_hash(fetched.content)
        self.texts[uri] = fetched.content
        self.rows[uri] = Sighting(HOME.document(uri).uri, DocumentState.INDEXED, fetched.signature, fetched.proven, hashed, Version(1))

    def _drop(self, uri: str) -> None:
        self.rows.pop(uri, None)
        self.texts.pop(uri, None)

    def sightings(self, root: Root, prefix: str = "") -> Iterable[Sighting]:
        return [row for uri, row in sorted(self.rows.items()) if uri.startswith(prefix)]

    def pending(self, limit: int, now: Instant) -> list[PendingDocument]:
        return []

    def retry(self, documents: Sequence[DocumentId] | None, home: CollectionId, now: Instant) -> int:
        return 0

    def add_tallies(self, tallies: Sequence[Tally]) -> None:
        return None


class Stage:
    """A folder, a ledger, and watching that can be started and stopped."""

    def __init__(self, folder: Path, mode: str, **table: object) -> None:
        self.folder = folder / "docs"
        self.folder.mkdir()
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.root = Root(HOME, RootName("docs"), SourceKind.FOLDER, str(self.folder), "")
        self.ledger = LevelLedger(self.root)
        settings = {"mode": mode, "settle_seconds": 0.05, "settle_seconds_max": 0.5, "poll_seconds": 0.05, "reconcile_seconds": 0}
        self.table = WatchTable.model_validate(settings | table)
        self.watching: Watching | None = None
        self.bells = 0

    def start(self) -> Watching:
        self.watching = Watching([self.root], self.ledger, self.table, claims, self.ring, CLOCK, Rules())
        self.watching.start()
        assert self.watching.ready.wait(PATIENCE)
        return self.watching

    def ring(self) -> None:
        self.bells += 1

    def stop(self) -> None:
        if self.watching is not None:
            self.watching.stop()
            self.watching = None

    def settle(self) -> list[Intent]:
        """Waits until all is told and returns the intents since the last time, those of unchanged documents left out."""
        assert self.watching is not None
        assert self.watching.settled(PATIENCE)
        told: list[Intent] = [intent for intent in self.ledger.intents if not isinstance(intent, Seen)]
        self.ledger.intents.clear()
        return told

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def texts(self) -> dict[str, str]:
        return {uri: text.decode() for uri, text in self.ledger.texts.items()}

    def moves(self, intents: Iterable[Intent]) -> list[tuple[str, str]]:
        presents = [intent for intent in intents if isinstance(intent, Present)]
        return sorted((present.moved_from.uri, present.document.uri) for present in presents if present.moved_from is not None)


def claims(uri: str) -> bool:
    return uri.endswith((".md", ".txt"))


@pytest.fixture
def stage(tmp_path: Path, mode: str) -> Iterator[Stage]:
    stage = Stage(tmp_path, mode)
    yield stage
    stage.stop()


@pytest.fixture
def mode() -> str:
    return "native"


# --- one thing at a time, natively and by polling -----------------------------------------------------------


@MODES
def test_a_save_is_told_with_its_signature(stage: Stage) -> None:
    stage.start()
    path = stage.write("a.md", "one")
    *_, intent = stage.settle()
    assert isinstance(intent, Present)
    assert intent.signature is not None
    assert intent.signature.inode == path.stat().st_ino
    assert stage.texts() == {"a.md": "one"}
    assert stage.bells > 0


@MODES
def test_an_atomic_save_through_a_hidden_name_changes_the_document(stage: Stage) -> None:
    stage.write("doc.md", "V1")
    stage.start()
    stage.settle()
    stage.write(".goutputstream-X", "V2!").rename(stage.folder / "doc.md")
    stage.settle()
    assert stage.texts() == {"doc.md": "V2!"}


@linux
@pytest.mark.parametrize("kind", list(SourceKind)[:2])
def test_what_is_closed_or_put_in_place_whole_waits_for_nothing(tmp_path: Path, kind: SourceKind) -> None:
    stage = Stage(tmp_path, "native", settle_seconds=2 * PATIENCE, settle_seconds_max=2 * PATIENCE)
    path = stage.write("doc.md", "V1")
    if kind is SourceKind.FILE:
        stage.root = stage.ledger.root = replace(stage.root, kind=kind, path=str(path))
    stage.start()
    stage.write("doc.md", "V2!")
    stage.settle()
    stage.write(".hidden", "V3!!").rename(path)
    stage.settle()
    assert stage.texts() == {"doc.md": "V3!!"}
    stage.stop()


@MODES
def test_a_document_deleted_and_made_again_at_once_is_never_absent(stage: Stage) -> None:
    path = stage.write("doc.md", "same")
    stage.start()
    stage.settle()
    path.unlink()
    stage.write("doc.md", "same")
    assert not any(isinstance(intent, Absent) for intent in stage.settle())
    assert stage.texts() == {"doc.md": "same"}


@MODES
def test_a_rename_is_one_move(stage: Stage) -> None:
    stage.write("a/x.md", "X")
    stage.start()
    stage.settle()
    (stage.folder / "a/x.md").rename(stage.folder / "a/z.md")
    assert stage.moves(stage.settle()) == [("a/x.md", "a/z.md")]
    assert stage.texts() == {"a/z.md": "X"}


@MODES
def test_a_document_moved_into_a_new_folder_is_one_move(stage: Stage) -> None:
    for number in range(10):
        stage.write(f"{number}.md", f"{number}")
    stage.start()
    stage.settle()
    for number in range(10):
        (stage.folder / f"new{number}").mkdir()
        (stage.folder / f"{number}.md").rename(stage.folder / f"new{number}/{number}.md")
    told = stage.settle()
    assert stage.moves(told) == [(f"{number}.md", f"new{number}/{number}.md") for number in range(10)]
    assert not any(isinstance(intent, Absent) for intent in told)


@MODES
def test_a_case_only_rename_leaves_one_document(stage: Stage) -> None:
    path = stage.write("Readme.md", "R")
    stage.start()
    stage.settle()
    path.rename(stage.folder / "README.md")
    assert stage.moves(stage.settle()) == [("Readme.md", "README.md")]
    stage.write("readme.md", "twin")
    stage.settle()
    assert stage.texts() == {"README.md": "R", "readme.md": "twin"}


@MODES
def test_a_renamed_folder_moves_its_documents_and_is_watched_on(stage: Stage) -> None:
    stage.write("a/x.md", "X")
    stage.write("a/sub/y.md", "Y")
    stage.start()
    stage.settle()
    (stage.folder / "a").rename(stage.folder / "b")
    assert stage.moves(stage.settle()) == [("a/sub/y.md", "b/sub/y.md"), ("a/x.md", "b/x.md")]
    stage.write("b/sub/y.md", "Y and more")
    stage.settle()
    assert stage.texts() == {"b/x.md": "X", "b/sub/y.md": "Y and more"}


@MODES
def test_a_folder_that_leaves_the_root_takes_its_documents_along(stage: Stage) -> None:
    for number in range(12):
        stage.write(f"foo/bar/{number}.md", f"{number}")
    stage.write("foo/keep.md", "K")
    stage.start()
    stage.settle()
    (stage.folder / "foo/bar").rename(stage.outside / "bar")
    stage.settle()
    assert stage.texts() == {"foo/keep.md": "K"}


@MODES
def test_a_folder_that_comes_in_brings_its_documents(stage: Stage) -> None:
    (stage.outside / "in/deep").mkdir(parents=True)
    (stage.outside / "in/n1.md").write_text("N1")
    (stage.outside / "in/deep/n2.md").write_text("N2")
    stage.start()
    (stage.outside / "in").rename(stage.folder / "in")
    stage.settle()
    assert stage.texts() == {"in/n1.md": "N1", "in/deep/n2.md": "N2"}


@MODES
def test_documents_in_folders_made_at_the_same_moment_are_seen(stage: Stage) -> None:
    stage.start()
    for number in range(20):
        stage.write(f"n{number}/n2/n3/leaf.md", f"leaf {number}")
        stage.write(f"n{number}/top.md", f"top {number}")
    stage.settle()
    assert len(stage.texts()) == 40


@MODES
def test_a_folder_that_becomes_a_file_is_the_file(stage: Stage) -> None:
    stage.write("d.md/one.md", "ONE")
    stage.write("d.md/two.md", "TWO")
    stage.start()
    stage.settle()
    shutil.rmtree(stage.folder / "d.md")
    stage.write("d.md", "FILE")
    stage.settle()
    assert stage.texts() == {"d.md": "FILE"}


@MODES
def test_deletions_seen_in_a_live_root_are_never_held(stage: Stage) -> None:
    paths = [stage.write(f"{number}.md", f"{number}") for number in range(30)]
    stage.start()
    stage.settle()
    for path in paths:
        path.unlink()
    assert not any(isinstance(intent, Held) for intent in stage.settle())
    assert stage.texts() == {}


@MODES
def test_reading_causes_nothing(stage: Stage) -> None:
    paths = [stage.write(f"{number}.md", f"{number}") for number in range(10)]
    stage.start()
    stage.settle()
    for _ in range(20):
        for path in paths:
            path.read_text()
    list(os.scandir(stage.folder))
    assert stage.settle() == []


@MODES
def test_litter_and_links_that_lead_out_are_no_documents(stage: Stage) -> None:
    (stage.outside / "secret.md").write_text("SECRET")
    stage.start()
    for name in [".doc.md.swp", "~$doc.docx", "doc.md~", "x.tmp", ".git/index.md", "#doc.md#"]:
        stage.write(name, "no")
    (stage.folder / "leak.md").symlink_to("../outside/secret.md")
    (stage.folder / "dangling.md").symlink_to("missing.md")
    stage.write("notes~2024.md", "yes")
    stage.settle()
    assert stage.texts() == {"notes~2024.md": "yes"}


@MODES
def test_an_unclaimed_document_is_told_once(stage: Stage) -> None:
    stage.start()
    for number in range(3):
        stage.write("log.bin", "x" * number)
        told = stage.settle()
        assert [type(intent) for intent in told] == ([Ignored] if number == 0 else [])


@MODES
def test_a_new_ignore_file_takes_documents_out_and_its_end_brings_them_back(stage: Stage) -> None:
    stage.write("drafts/a.md", "draft")
    stage.write("b.md", "B")
    stage.start()
    stage.settle()
    ignore = stage.write(".evercurrentignore", "drafts/\n")
    stage.settle()
    assert stage.texts() == {"b.md": "B"}
    ignore.unlink()
    stage.settle()
    assert stage.texts() == {"drafts/a.md": "draft", "b.md": "B"}


@MODES
def test_changes_made_while_nobody_watched_are_found(stage: Stage) -> None:
    paths = {name: stage.write(f"{name}.md", name) for name in "abd"}
    stage.start()
    stage.settle()
    stage.stop()
    paths["a"].unlink()
    stage.write("b.md", "b changed")
    stage.write("c.md", "c")
    paths["d"].rename(stage.folder / "e.md")
    stage.start()
    assert stage.moves(stage.settle()) == [("d.md", "e.md")]
    assert stage.texts() == {"b.md": "b changed", "c.md": "c", "e.md": "d"}


@MODES
def test_a_root_that_is_empty_at_the_start_keeps_its_documents_and_gets_them_back(stage: Stage) -> None:
    for number in range(5):
        stage.write(f"s/{number}.md", f"{number}")
    stage.start()
    stage.settle()
    stage.stop()
    (stage.folder / "s").rename(stage.outside / "s")
    watching = stage.start()
    stage.settle()
    assert len(stage.texts()) == 5
    assert watching.health() == ("docs: the root is empty",)
    (stage.outside / "s").rename(stage.folder / "s")
    stage.settle()
    assert watching.health() == ()
    assert {row.state for row in stage.ledger.rows.values()} == {DocumentState.INDEXED}


@MODES
def test_a_root_that_disappears_deletes_nothing_and_is_watched_again(stage: Stage) -> None:
    for number in range(5):
        stage.write(f"{number}.md", f"{number}")
    watching = stage.start()
    stage.settle()
    stage.folder.rename(stage.outside / "away")
    stage.settle()
    assert len(stage.texts()) == 5
    assert watching.health() != ()
    (stage.outside / "away").rename(stage.folder)
    stage.settle()
    stage.write("0.md", "changed")
    stage.settle()
    assert stage.texts()["0.md"] == "changed"
    assert watching.health() == ()


@MODES
def test_a_root_removed_with_all_it_held_deletes_nothing(stage: Stage) -> None:
    for number in range(5):
        stage.write(f"{number}.md", f"{number}")
    stage.start()
    stage.settle()
    shutil.rmtree(stage.folder)
    stage.settle()
    assert len(stage.texts()) == 5
    assert {row.state for row in stage.ledger.rows.values()} == {DocumentState.HELD}


@MODES
def test_a_single_file_is_followed_through_atomic_saves_and_deletion(tmp_path: Path, mode: str) -> None:
    stage = Stage(tmp_path, mode)
    path = stage.write("only.md", "one")
    stage.write("other.md", "other")
    stage.root = replace(stage.root, kind=SourceKind.FILE, path=str(path))
    stage.ledger.root = stage.root
    stage.start()
    stage.settle()
    stage.write("only.md.new", "two").rename(path)
    stage.settle()
    assert stage.texts() == {"only.md": "two"}
    path.unlink()
    stage.settle()
    assert stage.texts() == {}
    stage.stop()


@MODES
def test_a_linked_document_follows_the_file_it_shows(stage: Stage) -> None:
    stage.write("sub/b.md", "one")
    (stage.folder / "link.md").symlink_to("sub/b.md")
    stage.start()
    stage.settle()
    stage.write("sub/b.md", "two")
    stage.settle()
    assert stage.texts() == {"link.md": "two", "sub/b.md": "two"}


def watched(stage: Stage, count: int) -> WatchedRoot:
    """A root of `count` indexed documents, driven by hand."""
    for number in range(count):
        stage.write(f"{number}.md", f"{number}")
    root = WatchedRoot(stage.root, stage.ledger, Rules(), stage.table, claims, CLOCK)
    stage.ledger.record(root.reconcile())
    return root


def test_deletions_that_settle_after_the_root_went_are_left_to_the_guard(stage: Stage) -> None:
    root = watched(stage, 3)
    shutil.rmtree(stage.folder)
    assert root.take([Event(EventKind.DELETED, f"{number}.md", 0.0) for number in range(3)], 9.0) == ()
    assert root.needs_reconcile
    assert {type(intent) for intent in root.reconcile()} == {Held}


def test_a_comparison_passes_over_what_has_not_settled(stage: Stage) -> None:
    root = watched(stage, 20)
    for number in range(20):
        (stage.folder / f"{number}.md").unlink()
    assert root.take([Event(EventKind.DELETED, f"{number}.md", 9.0) for number in range(20)], 9.0) == ()
    assert root.reconcile() == ()
    assert {type(intent) for intent in root.take([], 99.0)} == {Absent}


# --- storms -------------------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("seed", range(3))
def test_any_storm_of_operations_ends_in_the_state_of_the_source(stage: Stage, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(20):
        stage.write(f"d{number % 4}/f{number}.md", f"{number}")
    stage.start()
    for step in range(250):
        storm(stage.folder, dice, step)
        if step % 60 == 59:
            stage.settle()
    stage.settle()
    assert stage.texts() == state_of(stage.folder)
    assert sorted(stage.texts()) == sorted(uri for uri in scan(stage.root).found if claims(uri))


def storm(folder: Path, dice: random.Random, step: int) -> None:
    places = sorted(path for path in folder.rglob("*") if not path.is_symlink())
    files, folders = [path for path in places if path.is_file()], [folder, *(path for path in places if path.is_dir())]
    target = dice.choice(folders) / f"f{dice.randrange(12)}.md"
    operation = dice.choice(["write", "write", "rename", "replace", "delete", "mkdir", "move folder", "remove folder"])
    if operation == "write" and not target.is_dir():
        target.write_text(f"step {step}")
    elif operation in ("rename", "replace") and files and not target.is_dir():
        dice.choice(files).rename(target)
    elif operation == "delete" and files:
        dice.choice(files).unlink()
    elif operation == "mkdir":
        (dice.choice(folders) / f"d{dice.randrange(6)}" / "deep").mkdir(parents=True, exist_ok=True)
    elif operation == "move folder" and len(folders) > 1:
        source, into = dice.choice(folders[1:]), dice.choice(folders) / f"d{dice.randrange(6)}"
        if not into.exists() and not into.is_relative_to(source):
            source.rename(into)
    elif operation == "remove folder" and len(folders) > 3:
        shutil.rmtree(dice.choice(folders[1:]))


def state_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.md") if path.is_file()}


@MODES
def test_a_burst_larger_than_the_inbox_is_not_lost(tmp_path: Path, mode: str) -> None:
    stage = Stage(tmp_path, mode, inbox_events_max=64)
    stage.start()
    paths = [stage.write(f"m/f{number}.md", f"{number}") for number in range(600)]
    for path in paths[:200]:
        path.unlink()
    stage.settle()
    assert stage.texts() == {f"m/f{number}.md": str(number) for number in range(200, 600)}
    stage.stop()


def test_a_full_inbox_says_so_and_keeps_its_bound() -> None:
    inbox = Inbox(64)
    for number in range(100):
        inbox.put(0, Event(EventKind.CREATED, f"{number}", 0.0))
    assert len(inbox) <= 64
    assert inbox.take(0).overflowed
    assert not inbox.take(0).overflowed


# --- faults -------------------------------------------------------------------------------------------------


@linux
def test_events_that_the_kernel_dropped_are_found_by_a_comparison(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.observers.inotify_c import InotifyEvent, InotifyFD

    read = InotifyFD.read_events
    overflow = InotifyEvent(-1, 0x4000, 0, b"")
    monkeypatch.setattr(InotifyFD, "read_events", lambda self: [overflow] if read(self) else [])
    stage.start()
    stage.write("n1/a.md", "A")
    stage.settle()
    monkeypatch.undo()
    assert stage.texts() == {"n1/a.md": "A"}
    for name in "bcd":
        stage.write(f"n1/{name}.md", name)
        stage.settle()
    assert stage.texts() == {"n1/a.md": "A", "n1/b.md": "b", "n1/c.md": "c", "n1/d.md": "d"}


@contextmanager
def watches_at_most(count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from watchdog.observers import inotify_c

    add, given = inotify_c.InotifyFD.add_callback, [0]

    def limited(self: object, path: bytes, *rest: object) -> object:
        given[0] += 1
        if given[0] > count:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        return add(self, path, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(inotify_c.InotifyFD, "add_callback", limited)
        yield


@linux
@pytest.mark.parametrize("count", [0, 2])
def test_the_watch_limit_degrades_to_polling_and_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    for name in ["d1", "d2", "d3/d4"]:
        (stage.folder / name).mkdir(parents=True)
    with watches_at_most(count, monkeypatch):
        watching = stage.start()
        stage.write("d1/a.md", "A")
        stage.write("d3/d4/b.md", "B")
        stage.settle()
    assert stage.texts() == {"d1/a.md": "A", "d3/d4/b.md": "B"}
    assert "max_user_watches" in watching.health()[0]


@linux
def test_a_folder_made_later_beyond_the_watch_limit_degrades_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with watches_at_most(3, monkeypatch):
        watching = stage.start()
        for number in range(4):
            stage.write(f"d{number}/sub/a.md", f"{number}")
        stage.settle()
        stage.write("d3/sub/b.md", "late")
        stage.settle()
        stage.write("d3/sub/c.md", "later")
        stage.settle()
    assert len(stage.texts()) == 6
    assert watching.health() != ()


@linux
def test_a_dead_watcher_is_noticed_and_replaced(stage: Stage) -> None:
    watching = stage.start()
    stage.settle()
    native = watching._native
    assert native is not None
    (emitter,) = native._observer.emitters
    emitter.stop()
    emitter.join()
    stage.write("a.md", "unseen by the dead")
    stage.settle()
    stage.write("b.md", "seen by the new")
    stage.settle()
    assert sorted(stage.texts()) == ["a.md", "b.md"]


def test_what_a_busy_ledger_refused_is_recorded_later(stage: Stage) -> None:
    stage.start()
    stage.settle()
    stage.ledger.refusals = 1
    path = stage.write("a.md", "A")
    stage.settle()
    path.unlink()
    stage.ledger.refusals = 1
    stage.settle()
    assert stage.texts() == {}


def test_an_edit_between_arming_and_the_first_comparison_is_not_lost(stage: Stage) -> None:
    path = stage.write("a.md", "old")
    sightings = stage.ledger.sightings
    edits: list[Callable[[], object]] = [lambda: path.write_text("edited in between")]

    def edit_then_look(root: Root, prefix: str = "") -> Iterable[Sighting]:
        seen = sightings(root, prefix)
        while edits:
            edits.pop()()
        return seen

    stage.ledger.sightings = edit_then_look  # type: ignore[method-assign]
    stage.start()
    stage.settle()
    assert stage.texts() == {"a.md": "edited in between"}


def test_two_roots_and_many_questions_at_once_are_answered(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "native")
    second = Root(HOME, RootName("outside"), SourceKind.FOLDER, str(stage.outside), "outside/")
    watching = Watching([stage.root, second], stage.ledger, stage.table, claims, stage.ring, CLOCK)
    watching.start()
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda: answers.append(watching.settled(PATIENCE))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    watching.stop()
    assert answers == [True] * 8
    assert not watching.is_alive


def test_no_barrier_is_written_into_a_root(stage: Stage) -> None:
    stage.start()
    before = stage.folder.stat().st_mtime_ns, stage.folder.stat().st_ctime_ns
    stage.settle()
    assert (stage.folder.stat().st_mtime_ns, stage.folder.stat().st_ctime_ns) == before
    assert list(stage.folder.iterdir()) == []


def test_a_network_file_system_is_recognised() -> None:
    mounts = "36 35 98:0 / / rw,noatime shared:1 - ext4 /dev/root rw\n40 36 0:45 / /mnt rw shared:2 - nfs4 host:/x rw\n"
    assert file_system_of(mounts, 0, 45) == "nfs4"
    assert file_system_of(mounts, 98, 0) == "ext4"
    assert file_system_of(mounts, 1, 1) is None
    assert not is_remote("/")


@linux
def test_two_watches_of_one_path_are_let_go_without_a_fault(stage: Stage) -> None:
    """What the books look like after a folder was moved over another whose end has not been read yet."""
    stage.write("kept/a.md", "a")
    stage.write("moved/b.md", "b")
    watching = stage.start()
    native = watching._native
    assert native is not None
    (emitter,) = native._observer.emitters
    group = emitter._inotify
    kept, moved = os.fsencode(stage.folder / "kept"), os.fsencode(stage.folder / "moved")
    with group._lock:
        group._move_watches(moved, kept)
    assert len(group._active_callbacks_by_watch) == len(group._active_callbacks_by_path) + 1
    stage.stop()
    assert not watching.is_alive
    assert (group._active_callbacks_by_watch, group._active_callbacks_by_path) == ({}, {})


@pytest.mark.parametrize("silent", [True, False])
def test_a_root_whose_events_never_come_is_polled_after_two_comparisons(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    if silent:
        monkeypatch.setattr("indexer.sources.watch._Handler.dispatch", lambda *_: None)
    monkeypatch.setattr("indexer.watching.LATE_SECONDS", 0.0)
    stage.table = stage.table.model_copy(update={"reconcile_seconds": 0.2})
    watching = stage.start()
    for number in range(4):
        stage.write(f"{number}.md", f"text {number}")
        wait_until(lambda number=number: f"{number}.md" in stage.ledger.texts, "the document is found")  # type: ignore[misc]
    wait_until(lambda: bool(watching.health()) or not silent, "watching tells that it is degraded")
    assert [("sends no events" in reason) for reason in watching.health()] == ([True] if silent else [])
    stage.write("last.md", "seen by polling")
    wait_until(lambda: "last.md" in stage.ledger.texts, "the last document is found")
