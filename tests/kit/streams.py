"""Documentation change streams: a tree laid down, or replayed commit by commit into a folder, with the checkpoints verified."""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

STREAMS = ("gsa-tts-handbook", "pingcap-docs-cn-early300")


def read_stream(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield json.loads(line)


def content_of(event: dict[str, Any]) -> bytes:
    return base64.b64decode(event["b64"]) if "b64" in event else str(event["text"]).encode("utf-8")


class Observer(Protocol):
    """Sees a replay from outside. A run is a stretch of renames that change no bytes, with nothing between them."""

    def before_renames(self, run: int) -> None: ...

    def after_renames(self, run: int) -> None: ...


def replay(path: Path, folder: Path, observer: Observer) -> Counter[str]:
    """Carries the whole stream out in `folder`; returns how many writes, renames, deletes and commits, all verified by checkpoint.

    `pure renames` and `runs` count the renames that change no bytes, and the stretches of them that the observer was shown.
    """
    shas: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for commit in commits_of(path):
        written = {event["path"] for event in commit if event["t"] == "write"}
        for pure, run in groupby(commit, key=lambda event: event["t"] == "rename" and event["path"] not in written):
            events = list(run)
            counts.update(event["t"] for event in events)
            if pure:
                counts["runs"] += 1
                counts["pure renames"] += len(events)
                observer.before_renames(counts["runs"])
            for event in events:
                carry_out(event, folder, shas)
            if pure:
                observer.after_renames(counts["runs"])
    return counts


def commits_of(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The events of each commit, its checkpoint last."""
    gathered: list[dict[str, Any]] = []
    for event in read_stream(path):
        if event["t"] != "begin":
            gathered.append(event)
        if event["t"] == "commit":
            yield gathered
            gathered = []


def carry_out(event: dict[str, Any], folder: Path, shas: dict[str, str]) -> None:
    match event["t"]:
        case "write":
            write_whole(folder / event["path"], content_of(event))
            shas[event["path"]] = event["sha"]
        case "rename":
            (folder / event["path"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / event["old"]).rename(folder / event["path"])
            shas[event["path"]] = shas.pop(event["old"])
            drop_empty(folder, folder / event["old"])
        case "delete":
            (folder / event["path"]).unlink()
            shas.pop(event["path"])
            drop_empty(folder, folder / event["path"])
        case "commit":
            assert digest(shas) == event["state"], f"checkpoint {event['c']} differs"
        case other:
            raise AssertionError(f"unknown event {other!r}")


def end_tree(path: Path) -> dict[str, bytes]:
    """The documents at the end of the stream."""
    tree: dict[str, bytes] = {}
    for event in read_stream(path):
        match event["t"]:
            case "write":
                tree[event["path"]] = content_of(event)
            case "rename":
                tree[event["path"]] = tree.pop(event["old"])
            case "delete":
                tree.pop(event["path"])
            case _:
                pass
    return tree


def lay_down(tree: dict[str, bytes], folder: Path) -> None:
    for name, content in tree.items():
        write_whole(folder / name, content)


def write_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def drop_empty(root: Path, gone: Path) -> None:
    """Removes folders that the last document left, as version control does."""
    folder = gone.parent
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def digest(shas: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{path}\0{sha}\n" for path, sha in sorted(shas.items())).encode()).hexdigest()
