"""Laws of watching, for any script of file operations: the ledger and what is visible end equal to a fresh scan of the folder.

The watcher is real, the operations are real; a worker in this process carries out what the ledger wants.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kit.pipeline import HOME, Pipeline, paragraphs

from indexer.events import Event
from indexer.ignore import Rules
from indexer.load.registry import claims
from indexer.sources.inbox import Inbox
from indexer.watching import Watching
from store.catalog.memory import MemoryCatalog
from store.clock import SystemClock
from store.config import WatchTable
from store.model import DocumentState

PATIENCE = 60.0
CLOCK = SystemClock()
NAMES = (
    b"a.md",
    b"b.md",
    b"A.md",
    b"d/a.md",
    b"d/c.txt",
    b"d/e/f.md",
    b"g/a.md",
    b"sp ace.md",
    "größe/文.md".encode(),
    b"\xff.md",
    b"n.bin",
)
FOLDERS = (b"d", b"d/e", b"g", b"h", "größe".encode())

names = st.sampled_from(NAMES)
folders = st.sampled_from(FOLDERS)
tags = st.integers(0, 4)
operations = st.one_of(
    st.tuples(st.just("write"), names, tags),
    st.tuples(st.just("write"), names, tags),
    st.tuples(st.just("append"), names, tags),
    st.tuples(st.just("atomic"), names, tags),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("swap"), names, names),
    st.tuples(st.just("delete"), names, st.none()),
    st.tuples(st.just("again"), names, st.none()),
    st.tuples(st.just("touch"), names, st.none()),
    st.tuples(st.just("truncate"), names, st.none()),
    st.tuples(st.just("link"), names, names),
    st.tuples(st.just("mkdir"), folders, st.none()),
    st.tuples(st.just("rename"), folders, folders),
    st.tuples(st.just("rmtree"), folders, st.none()),
    st.tuples(st.just("leave"), folders, st.none()),
    st.tuples(st.just("enter"), folders, tags),
    st.tuples(st.just("file for folder"), folders, tags),
    st.tuples(st.just("ignore"), st.sampled_from([b"", b"*.txt", b"d/", b"b.md"]), st.none()),
    st.tuples(st.just("settle"), st.none(), st.none()),
)
scripts = st.lists(operations, min_size=1, max_size=25)


def perform(operation: tuple[str, bytes, object], root: bytes, outside: bytes) -> None:
    """One operation; what the state of the folder does not allow is not done."""
    kind, first, second = operation
    path = os.path.join(root, first or b"")
    try:
        match kind, second:
            case "write", int(tag):
                written(path, paragraphs(f"{tag}", f"{tag}-b").encode())
            case "append", int(tag):
                with open(path, "ab") as file:
                    file.write(paragraphs(f"more-{tag}").encode())
            case "atomic", int(tag):
                written(path + b".tmp", paragraphs(f"{tag}").encode())
                os.replace(path + b".tmp", path)
            case "rename", bytes(target):
                os.makedirs(os.path.dirname(os.path.join(root, target)), exist_ok=True)
                os.rename(path, os.path.join(root, target))
            case "swap", bytes(target):
                other = os.path.join(root, target)
                os.rename(path, path + b".swap.md")
                os.rename(other, path)
                os.rename(path + b".swap.md", other)
            case "delete", _:
                os.unlink(path)
            case "again", _:
                with open(path, "rb") as file:
                    content = file.read()
                os.unlink(path)
                written(path, content)
            case "touch", _:
                os.utime(path)
            case "truncate", _:
                os.truncate(path, 0)
            case "link", bytes(target):
                os.symlink(os.path.join(root, target), path)
            case "mkdir", _:
                os.makedirs(path)
            case "rmtree", _:
                shutil.rmtree(path)
            case "leave", _:
                os.rename(path, os.path.join(outside, b"%d" % len(os.listdir(outside))))
            case "enter", int(tag):
                coming = os.path.join(outside, b"in%d" % len(os.listdir(outside)))
                written(os.path.join(coming, b"a.md"), paragraphs(f"in-{tag}").encode())
                os.rename(coming, path)
            case "file for folder", int(tag):
                shutil.rmtree(path)
                written(path, paragraphs(f"file-{tag}").encode())
            case "ignore", _:
                written(os.path.join(root, b".evercurrentignore"), first)
    except OSError:
        return


def written(path: bytes, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


class Ground:
    """A folder that is watched into a catalog, and a worker for it."""

    def __init__(self, folder: Path, mode: str, poll_seconds: float = 0.03) -> None:
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.pipeline = Pipeline(MemoryCatalog(CLOCK), CLOCK, folder / "docs")
        table = WatchTable(mode=mode, settle_seconds=0.02, settle_seconds_max=0.2, poll_seconds=poll_seconds, reconcile_seconds=0)  # type: ignore[arg-type]
        self.watching = Watching([self.pipeline.root], self.pipeline.catalog, table, claims, lambda: None, CLOCK, Rules())
        self.watching.start()
        assert self.watching.ready.wait(PATIENCE)

    def play(self, script: list[tuple[str, bytes, object]]) -> None:
        root, outside = os.fsencode(self.pipeline.folder), os.fsencode(self.outside)
        for operation in script:
            if operation[0] == "settle":
                self.settle()
            else:
                perform(operation, root, outside)

    def settle(self) -> None:
        assert self.watching.settled(PATIENCE)
        self.work()

    def work(self) -> None:
        while self.pipeline.catalog.pending(1, CLOCK.now()):
            self.pipeline.work()

    def release(self) -> None:
        """What the guard holds back, a person lets go: the script may well empty the folder."""
        from store.model import Absent, Cause

        page = self.pipeline.catalog.documents(HOME, None, 1000, (DocumentState.HELD,))
        self.pipeline.catalog.record([Absent(row.document, Cause.DELETED, CLOCK.now()) for row in page.documents])


@contextmanager
def grounded(mode: str, **settings: float) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder), mode, **settings)
        try:
            yield ground
        finally:
            ground.watching.stop()


def fresh(ground: Ground, folder: Path) -> Pipeline:
    """An index built from the folder as it is now."""
    pipeline = Pipeline(MemoryCatalog(CLOCK), CLOCK, ground.pipeline.folder)
    pipeline.settle()
    return pipeline


def assert_level(ground: Ground) -> None:
    """What is visible, and what the ledger says of each document, equals a fresh index."""
    expected = fresh(ground, ground.pipeline.folder)
    assert ground.pipeline.texts() == expected.texts()
    assert ground.pipeline.chunk_ids() == expected.chunk_ids()
    assert states(ground.pipeline) == states(expected)


def states(pipeline: Pipeline) -> dict[str, str]:
    page = pipeline.catalog.documents(HOME, None, 1000)
    assert page.cursor is None
    return {row.document.uri: row.state.value for row in page.documents if row.state is not DocumentState.DELETED}


def law(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same scripts every time, each real file operation done once more only to shrink what failed."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.mark.parametrize("mode", ["native", "polling"])
def test_any_script_of_file_operations_ends_level_with_a_fresh_scan(mode: str) -> None:
    _level_law(40, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["native", "polling"])
def test_any_of_very_many_scripts_ends_level_with_a_fresh_scan(mode: str) -> None:
    _level_law(600, mode)


def _level_law(examples: int, mode: str) -> None:
    @law(examples)
    @given(scripts)
    def holds(script: list[tuple[str, bytes, object]]) -> None:
        with grounded(mode) as ground:
            ground.play(script)
            ground.settle()
            ground.release()
            ground.work()
            assert_level(ground)

    holds()


class LossyInbox(Inbox):
    """Every third event never arrives."""

    def __init__(self, events_max: int) -> None:
        super().__init__(events_max)
        self._count = 0

    def put(self, root: int, event: Event) -> None:
        self._count += 1
        if self._count % 3:
            super().put(root, event)


def test_a_script_of_which_every_third_event_is_lost_is_level_after_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    _lossy_law(40, monkeypatch)


@pytest.mark.slow
def test_very_many_scripts_with_lost_events_are_level_after_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    _lossy_law(600, monkeypatch)


def _lossy_law(examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.watching.Inbox", LossyInbox)

    @law(examples)
    @given(scripts)
    def holds(script: list[tuple[str, bytes, object]]) -> None:
        with grounded("native") as ground:
            ground.play(script)
            ground.settle()
            assert ground.watching.reconcile_now(PATIENCE)
            ground.work()
            ground.release()
            ground.work()
            assert_level(ground)

    holds()
