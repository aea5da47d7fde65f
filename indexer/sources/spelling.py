"""Whether a path that the system finds is spelled as the folder lists it. Where case does not matter to the system, it matters here:
a document's uri is the name as it is listed, and `a.md` after a rename to `A.md` is gone.

The port has two sides: `Exact` for systems that find no other spelling, `Listed` for those that do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Protocol


class Spelling(Protocol):
    def is_listed(self, root: str, path: str) -> bool:
        """Whether every name of `path` (relative, with `/`) below `root` is one that its folder lists."""
        ...


class Exact:
    """The system compares names byte by byte: what it finds is listed so. Costs nothing."""

    def is_listed(self, root: str, path: str) -> bool:  # noqa: ARG002
        return True


class Listed:
    """The system finds a name in other spellings, too: its folder is asked. `names_in` lists a folder."""

    def __init__(self, names_in: Callable[[str], Iterable[str]] = os.listdir) -> None:
        self._names_in = names_in

    def is_listed(self, root: str, path: str) -> bool:
        folder = root
        for name in path.split("/"):
            try:
                if name not in self._names_in(folder):
                    return False
            except OSError:
                return False
            folder = os.path.join(folder, name)
        return True


def spelling_of(root: str, same: Callable[[str, str], bool] | None = None) -> Spelling:
    """Asks the system once: a folder that is found under its name with the case swapped is not told apart by case."""
    parent, name = os.path.split(root.rstrip("/"))
    swapped = name.swapcase()
    if swapped == name:
        return Exact()
    return Listed() if (same or _same)(root, os.path.join(parent, swapped)) else Exact()


def _same(path: str, other: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.stat(other))
    except OSError:
        return False
