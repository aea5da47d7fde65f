"""A bucket in memory that counts what it is asked, and fails, truncates or changes on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class CountingBucket(MemoryFileSystem):  # type: ignore[misc]
    """memory:// with ETags as an object store has them, one listing for all of a prefix, and a record of what was asked."""

    cachable = False
    listings = 0
    asked_of_one = 0
    reads: list[str] = []  # noqa: RUF012 - shared by all instances, as the store is
    etags: Callable[[str, bytes], str | None] = staticmethod(lambda _name, content: f'"{md5(content, usedforsecurity=False).hexdigest()}"')
    failure: Exception | None = None
    failure_of_one: Exception | None = None
    after_missing: Exception | None = None
    """What every question meets after one about an object that is not there."""
    listed_max: int | None = None
    before_read: Callable[[str], None] = staticmethod(lambda _name: None)

    def find(self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **more: Any) -> Any:
        kind = type(self)
        kind.listings += 1
        if kind.failure is not None:
            raise kind.failure
        found = super().find(path, detail=True)
        named = {name: self._with_tag(entry) for name, entry in list(found.items())[: kind.listed_max]}
        return named if detail else list(named)

    def info(self, path: str, **more: Any) -> Any:
        kind = type(self)
        kind.asked_of_one += 1
        if kind.failure_of_one is not None:
            raise kind.failure_of_one
        try:
            return self._with_tag(super().info(path))
        except FileNotFoundError:
            kind.failure_of_one = kind.after_missing
            raise

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        kind = type(self)
        if kind.failure_of_one is not None:
            raise kind.failure_of_one
        kind.reads.append(path)
        kind.before_read(path)
        content: bytes = super().cat_file(path, start, end)
        return content

    def _with_tag(self, entry: dict[str, Any]) -> dict[str, Any]:
        if entry["type"] != "file":
            return entry
        tag = type(self).etags(entry["name"], self.store[entry["name"]].getvalue())
        return entry if tag is None else {**entry, "ETag": tag}


class Objects:
    """What a test does to the bucket memory://bucket/docs."""

    url = "memory://bucket/docs"

    def __init__(self, kind: type[CountingBucket]) -> None:
        self.kind = kind

    def put(self, path: str, text: str | bytes) -> None:
        from fsspec.implementations.memory import MemoryFile

        content = text if isinstance(text, bytes) else text.encode()
        key = f"/bucket/docs/{path}"
        self.kind.store[key] = MemoryFile(None, key, content)

    def delete(self, path: str) -> None:
        del self.kind.store[f"/bucket/docs/{path}"]

    def rename(self, old: str, new: str) -> None:
        self.put(new, self.kind.store[f"/bucket/docs/{old}"].getvalue())
        self.delete(old)

    def clear(self) -> None:
        self.kind.store.clear()

    def texts(self) -> dict[str, str]:
        return {key.removeprefix("/bucket/docs/"): file.getvalue().decode() for key, file in self.kind.store.items()}


@contextmanager
def counting_bucket() -> Iterator[Objects]:
    """The bucket stands in for memory:// for the block; nothing of it is left behind."""
    kind = type("FreshBucket", (CountingBucket,), {"store": {}, "pseudo_dirs": [""], "reads": []})
    fsspec.register_implementation("memory", kind, clobber=True)
    try:
        yield Objects(kind)
    finally:
        fsspec.register_implementation("memory", MemoryFileSystem, clobber=True)
