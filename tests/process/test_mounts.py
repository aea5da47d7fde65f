"""Volumes that come and go under a watched root: what is not there is not deleted. A real tmpfs is mounted, where that is allowed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.product import Product, Up, await_state

SETTINGS = {
    "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing",
    "EVERCURRENT_INDEXER__WATCH__POLL_SECONDS": "0.2",
    "EVERCURRENT_INDEXER__WATCH__SETTLE_SECONDS": "0.1",
    "EVERCURRENT_WORKERS__COUNT": "1",
    "EVERCURRENT_EVERCURRENT__DASHBOARD__ENABLED": "false",
}
MODES = pytest.mark.parametrize("mode", ["native", "polling"])


@pytest.fixture
def mounted() -> Iterator[Callable[[Path], None]]:
    """Mounts a tmpfs over a folder; whatever is mounted at the end is unmounted."""
    folders: list[Path] = []

    def mount(folder: Path) -> None:
        try:
            done = subprocess.run(["mount", "-t", "tmpfs", "none", str(folder)], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("mounts: there is no mount command")
        if done.returncode:
            pytest.skip(f"mounts: this user may not mount a tmpfs ({done.stderr.strip()})")
        folders.append(folder)

    yield mount
    for folder in reversed(folders):
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=True)


def filled(folder: Path, count: int = 12) -> None:
    for number in range(count):
        (folder / f"{number:02}.md").write_text(f"document number {number} of the volume\n", "utf-8")


def exported(product: Product) -> set[str]:
    return {row["document"] for row in product.succeed("export").lines}


def held(product: Product) -> int:
    return int(product.succeed("status", "--json").json["documents"]["held"])


@pytest.mark.process
@MODES
def test_a_volume_that_is_unmounted_from_the_root_takes_nothing_along(tmp_path: Path, mounted: Callable[[Path], None], mode: str) -> None:
    docs, copy = tmp_path / "docs", tmp_path / "copy"
    docs.mkdir()
    mounted(docs)
    filled(docs)
    product = Product(tmp_path / "data", SETTINGS | {"EVERCURRENT_INDEXER__WATCH__MODE": mode})
    with product.up(str(docs)) as up:
        up.settle()
        before = exported(product)
        assert len(before) == 12
        embedded = up.metric("evercurrent_embedded_texts_total")
        subprocess.run(["cp", "-a", str(docs), str(copy)], check=True)
        unmount(docs)
        await_state(lambda: is_degraded(product), "the lost volume is told")
        assert exported(product) == before
        mounted(docs)
        subprocess.run(["cp", "-a", f"{copy}/.", str(docs)], check=True)
        await_state(lambda: held(product) == 0, "the documents are let go by themselves")
        up.settle()
        (docs / "new.md").write_text("written after the volume came back\n", "utf-8")
        up.settle()
        assert exported(product) == before | {"new.md"}
        assert up.metric("evercurrent_embedded_texts_total") == embedded + 1


def is_degraded(product: Product) -> bool:
    return bool(product.succeed("status", "--json").json["health"]["state"] == "degraded")


@pytest.mark.process
@MODES
def test_a_volume_inside_of_the_root_that_is_unmounted_keeps_its_documents(
    tmp_path: Path, mounted: Callable[[Path], None], mode: str
) -> None:
    docs = tmp_path / "docs"
    volume = docs / "volume"
    volume.mkdir(parents=True)
    (docs / "own.md").write_text("beside the volume\n", "utf-8")
    mounted(volume)
    filled(volume, 20)
    product = Product(tmp_path / "data", SETTINGS | {"EVERCURRENT_INDEXER__WATCH__MODE": mode})
    with product.up(str(docs)) as up:
        up.settle()
        before = exported(product)
        unmount(volume)
        await_state(lambda: held(product) == 20, "the documents of the volume are held")
        assert exported(product) == before
        mounted(volume)
        filled(volume, 20)
        await_state(lambda: held(product) == 0, "they are let go once they are found again")
        up.settle()
        assert exported(product) == before
        (volume / "new.md").write_text("a phrase of the volume that came back\n", "utf-8")
        await_state(lambda: found(up, "phrase of the volume that came back") == "volume/new.md", "the volume is watched again")


@pytest.mark.process
@MODES
def test_a_root_that_is_deleted_and_made_again_is_watched_on(tmp_path: Path, mode: str) -> None:
    docs, away = tmp_path / "docs", tmp_path / "away"
    docs.mkdir()
    filled(docs)
    product = Product(tmp_path / "data", SETTINGS | {"EVERCURRENT_INDEXER__WATCH__MODE": mode})
    with product.up(str(docs)) as up:
        up.settle()
        before = exported(product)
        docs.rename(away)
        await_state(lambda: is_degraded(product), "the missing root is told")
        assert exported(product) == before
        docs.mkdir()
        for number in range(12):
            (away / f"{number:02}.md").rename(docs / f"{number:02}.md")
        await_state(lambda: not is_degraded(product), "the root is whole again")
        (docs / "00.md").write_text("written into the new root\n", "utf-8")
        up.settle()
        assert exported(product) == before
        assert found(up, "written into the new root") == "00.md"


def found(up: Up, query: str) -> str:
    return up.found(query)[0]
