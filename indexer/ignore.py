"""Which names and paths of a source are never documents: dot names, litter of editors, office suites and systems, and patterns.

Patterns have gitignore syntax (gitignore(5)); `pathspec` comes in here and only when a pattern exists. Nothing here reads a file.
Paths are relative to the root, with `/`, as the file system spells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".evercurrentignore"

_LITTER_SUFFIXES = ("~", ".tmp", ".part", ".crdownload", ".swp", ".swo", ".swx", "___jb_tmp___", "___jb_old___")
_LITTER_NAMES = frozenset(
    {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__pycache__", "lost+found", "$recycle.bin", "system volume information"}
)


def is_litter(name: str) -> bool:
    """Whether a file or folder of this name is never a document: it begins with a dot, or a program left it behind."""
    first = name[0]
    if first == ".":
        return True
    if first == "~" and name.startswith(("~$", "~WRL")):
        return True
    if first == "#" and name[-1] == "#":
        return True
    lower = name.lower()
    return lower.endswith(_LITTER_SUFFIXES) or lower in _LITTER_NAMES


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration says about a source's paths."""

    include: tuple[str, ...] = ()
    """Patterns of what is looked at; empty: everything."""
    exclude: tuple[str, ...] = ()
    """Patterns of what is not."""
    own_paths: tuple[str, ...] = ()
    """Absolute paths that belong to the index itself (the data folder): never looked into, else indexing would feed on itself."""
    of_roots: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    """By a root's name what is included and excluded there besides."""

    def of_root(self, name: str) -> Rules:
        """The rules that hold in a root."""
        include, exclude = self.of_roots.get(name, ((), ()))
        return replace(self, include=self.include + include, exclude=self.exclude + exclude, of_roots={}) if include or exclude else self


class Patterns:
    """Patterns in force: those of the configuration, then a file's for each folder on the way down; the deepest that matches decides."""

    def __init__(self, rules: Rules) -> None:
        self._include = _compile(rules.include)
        self._exclude = _compile(rules.exclude)
        self._of_folder: dict[str, GitIgnoreSpec | None] = {}

    @property
    def decide_anything(self) -> bool:
        return self._include is not None or self._exclude is not None or any(self._of_folder.values())

    def knows(self, folder: str) -> bool:
        return folder in self._of_folder

    def add_folder(self, folder: str, lines: Sequence[str] | None) -> None:
        """Adds the ignore file of `folder` (`""` is the root); None: it has none."""
        self._of_folder[folder] = None if lines is None else _compile(lines)

    def refuse_folder(self, path: str) -> bool:
        """Whether nothing below the folder `path` is looked at, given that its parent is."""
        return self._excluded(path + "/")

    def refuse_file(self, path: str) -> bool:
        """Whether the file `path` is not looked at, given that its folder is."""
        if self._include is not None and not self._include.check_file(path).include:
            return True
        return self._excluded(path)

    def _excluded(self, path: str) -> bool:
        for folder in _folders_upwards(path.rstrip("/")):
            spec = self._of_folder.get(folder)
            if spec is not None:
                verdict = spec.check_file(path[len(folder) + 1 :] if folder else path).include
                if verdict is not None:
                    return bool(verdict)
        return self._exclude is not None and bool(self._exclude.check_file(path).include)


def _compile(lines: Iterable[str]) -> GitIgnoreSpec | None:
    lines = [line for line in lines if line.strip()]
    if not lines:
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def _folders_upwards(path: str) -> Iterable[str]:
    folder = path
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        yield folder
    yield ""
