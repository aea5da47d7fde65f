"""The file side of a failure sequence: paragraphs with a tag each, and every step that a program or a person does to a folder."""

from __future__ import annotations

import base64
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

Step = Mapping[str, Any]

_FILLER = "the pipeline keeps only what changed and removes what is gone "
_TAG = re.compile(r"MARK-(\S+)")


def paragraph(tag: str, chars: int = 170) -> str:
    """One paragraph that is one chunk, known by its tag."""
    text = f"MARK-{tag} "
    while len(text) < chars:
        text += _FILLER
    return text[: chars - 1].rstrip().ljust(chars - 1, "x") + "."


def paragraphs(tags: Sequence[str]) -> str:
    return "\n\n".join(map(paragraph, tags)) + "\n"


def tags_of(text: str) -> list[str]:
    """The tags of the paragraphs in a text, in order."""
    return _TAG.findall(text)


class Ground:
    """A watched root and the place beside it. Does a step exactly as it is written, and nothing on top of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self._outside = folder / "outside"
        self._aside = folder / "aside"
        for each in (self.root, self._outside):
            each.mkdir()
        self._open: dict[Path, IO[bytes]] = {}
        self._times: dict[Path, tuple[int, int]] = {}
        self._steps: dict[str, Callable[[Step], None]] = {
            "write": self._write,
            "append": self._append,
            "close": self._close,
            "bulk_write": self._bulk_write,
            "bulk_delete": self._bulk_delete,
            "mkdir": lambda step: self.path(step["path"]).mkdir(parents=True, exist_ok=True),
            "rename": lambda step: self.path(step["src"]).rename(self.path(step["dst"])),
            "delete": lambda step: self.path(step["path"]).unlink(),
            "rmtree": lambda step: shutil.rmtree(self.path(step["path"])),
            "symlink": self._symlink,
            "touch": self._touch,
            "chmod": lambda step: self.path(step["path"]).chmod(int(str(step["mode"]), 8)),
            "stat_save": self._save_times,
            "stat_restore": lambda step: os.utime(self.path(step["path"]), ns=self._times[self.path(step["path"])]),
            "read_all": lambda _step: [found.read_bytes() for found in self.files()],
            "unmount_root": lambda _step: self._move_content(self.root, self._aside),
            "remount_root": lambda _step: self._move_content(self._aside, self.root),
        }

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(self._steps)

    def do(self, step: Step) -> None:
        self._steps[step["op"]](step)

    def clear(self, keeper: str | None = None) -> None:
        """Removes all that stands in the root and beside it, but for a file `keeper` of the root, which is made where it is missing."""
        if keeper is not None:
            (self.root / keeper).touch()
        for entry in [*self.root.iterdir(), *self._outside.iterdir()]:
            if entry.name == keeper:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def path(self, name: str) -> Path:
        return self._outside / name.removeprefix("@outside/") if name.startswith("@outside/") else self.root / name

    def files(self) -> list[Path]:
        return sorted(found for found in self.root.rglob("*") if found.is_file())

    def _write(self, step: Step) -> None:
        path = self.path(step["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("wb", buffering=0)
        handle.write(content_of(step))
        if step.get("keep_open"):
            self._open[path] = handle
        else:
            handle.close()

    def _append(self, step: Step) -> None:
        path = self.path(step["path"])
        added = content_of(step) if path.stat().st_size == 0 else b"\n" + content_of(step)
        if path in self._open:
            self._open[path].write(added)
            return
        with path.open("ab", buffering=0) as handle:
            handle.write(added)

    def _close(self, step: Step) -> None:
        self._open.pop(self.path(step["path"])).close()

    def _bulk_write(self, step: Step) -> None:
        self.path(step["prefix"]).parent.mkdir(parents=True, exist_ok=True)
        for number in range(step["n"]):
            self.path(f"{step['prefix']}{number}.md").write_text(paragraphs([f"{step['tag']}{number}"]), "utf-8")

    def _bulk_delete(self, step: Step) -> None:
        for number in range(step["start"], step["stop"]):
            self.path(f"{step['prefix']}{number}.md").unlink()

    def _symlink(self, step: Step) -> None:
        target = step["target"]
        self.path(step["path"]).symlink_to(self.path(target) if target.startswith("@outside/") else target)

    def _touch(self, step: Step) -> None:
        times = (step["mtime"], step["mtime"]) if "mtime" in step else None
        os.utime(self.path(step["path"]), times)

    def _save_times(self, step: Step) -> None:
        path = self.path(step["path"])
        self._times[path] = (path.stat().st_atime_ns, path.stat().st_mtime_ns)

    def _move_content(self, source: Path, target: Path) -> None:
        target.mkdir(exist_ok=True)
        for entry in sorted(source.iterdir()):
            entry.rename(target / entry.name)


def content_of(step: Step) -> bytes:
    if "b64" in step:
        return base64.b64decode(step["b64"])
    return (step["text"] if "text" in step else paragraphs(step["paras"])).encode()
