"""Documentation change streams: a tree laid down, or replayed commit by commit into a folder, with the checkpoints verified."""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STREAMS = ("gsa-tts-handbook", "pingcap-docs-cn-early300")


def read_stream(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield json.loads(line)


def content_of(event: dict[str, Any]) -> bytes:
    return base64.b64decode(event["b64"]) if "b64" in event else str(event["text"]).encode("utf-8")


def replay(path: Path, folder: Path, after_commit: Callable[[int], None] = lambda _number: None) -> Counter[str]:
    """Carries the whole stream out in `folder`; returns how many writes, renames, deletes and commits, all verified by checkpoint."""
    shas: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for event in read_stream(path):
        kind = event["t"]
        counts[kind] += 1
        match kind:
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
                after_commit(event["c"])
            case _:
                pass
    return counts


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
