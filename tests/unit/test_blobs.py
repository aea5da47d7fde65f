"""The blob folder keeps bytes by content: whole, durable, by namespace, as long as somebody wants them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from xxhash import xxh3_128_digest

from store.blobs.folder import FLOOR_LOOK_BYTES, BlobFolder, BlobsUnwritable, BlobTooLarge, DiskNearlyFull
from store.clock import SimulatedClock
from store.errors import Misuse
from store.model import ContentHash, Namespace

ACME, OTHER = Namespace("acme"), Namespace("other")
GRACE_SECONDS = 60.0


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def blobs(tmp_path: Path, clock: SimulatedClock) -> BlobFolder:
    return BlobFolder(tmp_path / "blobs", clock, bytes_max=100)


def keep(blobs: BlobFolder, content: bytes, namespace: Namespace = ACME) -> ContentHash:
    with blobs.draft(namespace) as draft:
        draft.write(content)
        return draft.keep()


def files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.name != "lock"]


def test_what_is_kept_is_read_again_under_the_hash_of_its_bytes(blobs: BlobFolder) -> None:
    with blobs.draft(ACME) as draft:
        draft.write(b"a heron ")
        draft.write(b"stands")
        content = draft.keep()
    assert content == xxh3_128_digest(b"a heron stands")
    assert blobs.read(ACME, content) == b"a heron stands"
    assert blobs.read(ACME, content, 7) == b"a heron"


def test_the_empty_content_is_a_content(blobs: BlobFolder) -> None:
    assert blobs.read(ACME, keep(blobs, b"")) == b""


def test_another_namespace_has_its_own_bytes_whatever_their_hash(blobs: BlobFolder, tmp_path: Path) -> None:
    content = keep(blobs, b"same")
    assert blobs.read(OTHER, content) is None
    assert keep(blobs, b"same", OTHER) == content
    assert len(files(tmp_path)) == 2


def test_the_same_content_twice_is_one_file(blobs: BlobFolder, tmp_path: Path) -> None:
    assert keep(blobs, b"same") == keep(blobs, b"same")
    assert len(files(tmp_path)) == 1


def test_a_namespace_cannot_leave_the_folder(blobs: BlobFolder, tmp_path: Path) -> None:
    for name in ("../../x", "..", "a/b", "a\0b", "Ä"):
        content = keep(blobs, b"x", Namespace(name))
        assert blobs.read(Namespace(name), content) == b"x"
    assert {path.parent.parent.parent for path in files(tmp_path)} == {tmp_path / "blobs"}
    for name in ("", "n" * 101):
        with pytest.raises(Misuse):
            blobs.draft(Namespace(name))


def test_a_draft_that_is_not_kept_leaves_nothing(blobs: BlobFolder, tmp_path: Path) -> None:
    with blobs.draft(ACME) as draft:
        draft.write(b"half of it")
    assert files(tmp_path) == []


def test_what_is_too_large_is_refused_at_once_and_leaves_nothing(blobs: BlobFolder, tmp_path: Path) -> None:
    with pytest.raises(BlobTooLarge):
        blobs.draft(ACME, bytes_expected=101)
    with blobs.draft(ACME, 100) as draft:
        draft.write(b"x" * 100)
        with pytest.raises(BlobTooLarge):
            draft.write(b"x")
    assert files(tmp_path) == []


def test_a_nearly_full_disk_is_refused_before_and_while_bytes_come(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = BlobFolder(tmp_path / "blobs", clock, bytes_max=FLOOR_LOOK_BYTES * 2, free_bytes_min=50)
    free = 100
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free))
    with pytest.raises(DiskNearlyFull):
        blobs.draft(ACME, bytes_expected=51)
    with blobs.draft(ACME, bytes_expected=50) as draft:
        free = 49
        with pytest.raises(DiskNearlyFull):
            draft.write(bytes(FLOOR_LOOK_BYTES))
    assert files(tmp_path) == []


def test_a_disk_that_fails_says_so_by_name_and_keeps_nothing(blobs: BlobFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, expected in ((errno.ENOSPC, DiskNearlyFull), (errno.EIO, BlobsUnwritable)):

        def fail(_descriptor: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as broken, blobs.draft(ACME) as draft:
            draft.write(b"x")
            broken.setattr(os, "fsync", fail)
            with pytest.raises(expected):
                draft.keep()
    assert files(tmp_path) == []


def test_bytes_have_their_name_only_after_they_are_durable(blobs: BlobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    effects: list[str] = []
    sync, replace = os.fsync, os.replace
    keep(blobs, b"x")  # its folders are there

    def note_sync(descriptor: int) -> None:
        effects.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    def note_replace(old: Path, new: Path) -> None:
        effects.append("name")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    keep(blobs, b"x")
    assert effects == ["file", "name", "folder"]


# --- the sweep ----------------------------------------------------------------------------------------------------


def test_the_sweep_removes_what_is_old_and_wanted_by_nobody(blobs: BlobFolder, clock: SimulatedClock, tmp_path: Path) -> None:
    wanted, unwanted = keep(blobs, b"wanted"), keep(blobs, b"unwanted")
    abroad = keep(blobs, b"wanted", OTHER)
    clock.advance(GRACE_SECONDS + 1)
    young = keep(blobs, b"young")

    def is_wanted(namespace: Namespace, _contents: object) -> set[ContentHash]:
        return {wanted} if namespace == ACME else set()

    assert blobs.sweep(is_wanted, GRACE_SECONDS) == 2
    assert [blobs.read(ACME, content) for content in (wanted, unwanted, young)] == [b"wanted", None, b"young"]
    assert blobs.read(OTHER, abroad) is None
    assert blobs.sweep(is_wanted, GRACE_SECONDS) == 0


def test_the_sweep_removes_drafts_that_nobody_finished(blobs: BlobFolder, clock: SimulatedClock, tmp_path: Path) -> None:
    draft = blobs.draft(ACME)
    left = next(iter((tmp_path / "blobs" / "drafts").iterdir()))
    os.utime(left, (clock.now(), clock.now()))
    assert blobs.sweep(lambda _namespace, _contents: set(), GRACE_SECONDS) == 0
    clock.advance(GRACE_SECONDS + 1)
    assert blobs.sweep(lambda _namespace, _contents: set(), GRACE_SECONDS) == 1
    with draft:
        pass


def test_a_content_that_is_kept_again_during_a_sweep_stays(blobs: BlobFolder, clock: SimulatedClock) -> None:
    content = keep(blobs, b"returning")
    clock.advance(GRACE_SECONDS + 1)

    def returns_meanwhile(_namespace: Namespace, _contents: object) -> set[ContentHash]:
        keep(blobs, b"returning")
        return set()

    assert blobs.sweep(returns_meanwhile, GRACE_SECONDS) == 0
    assert blobs.read(ACME, content) == b"returning"


def test_keeping_waits_for_a_removal_in_progress(blobs: BlobFolder, tmp_path: Path) -> None:
    keep(blobs, b"x")
    kept = threading.Event()

    def keep_again() -> None:
        keep(blobs, b"x")
        kept.set()

    with (tmp_path / "blobs" / "lock").open("rb") as sweeping:
        fcntl.flock(sweeping, fcntl.LOCK_EX)
        thread = threading.Thread(target=keep_again)
        thread.start()
        assert not kept.wait(0.2)
    thread.join()
    assert kept.is_set()


def test_a_sweep_of_nothing_makes_no_folder(blobs: BlobFolder, tmp_path: Path) -> None:
    assert blobs.sweep(lambda _namespace, _contents: set(), 0) == 0
    assert not (tmp_path / "blobs").exists()


def test_many_threads_keep_at_once(blobs: BlobFolder) -> None:
    contents = [f"content {number % 5}".encode() for number in range(40)]
    threads = [threading.Thread(target=keep, args=(blobs, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(blobs.read(ACME, ContentHash(xxh3_128_digest(content))) == content for content in contents)
