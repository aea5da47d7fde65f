"""What the PATHs of a command line mean: a new root, a known one, or a place inside a known one.

The first root of a collection has no prefix; a further one is given as NAME=PATH and its uris begin with NAME/. Only looks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from indexer.sources.bucket_urls import is_url, normal_url, place_below
from indexer.sources.folder import uri_of
from indexer.sources.names import uri_of_path
from store.errors import FolderMissing, Misuse
from store.model import CollectionId, Root, RootName, SourceKind

FIRST_ROOT_NAME = "main"
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63})=(?P<path>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    """A root, or what stands at and below the uri `scope` of it."""

    root: Root
    scope: str = ""
    is_new: bool = False
    is_there: bool = True
    """False: the known root, or the known place in it, is absent now."""
    foreign: tuple[str, ...] = ()
    """Prefixes of the collection's other roots: below them nothing is this root's."""

    def holds(self, uri: str) -> bool:
        """Whether the document `uri` belongs to this target."""
        if not uri.startswith(self.root.prefix) or uri.startswith(self.foreign):
            return False
        return not self.scope or uri == self.scope or uri.startswith(self.scope.rstrip("/") + "/")


def targets_of(
    paths: Sequence[str], known: Sequence[Root], home: CollectionId, is_known: Callable[[Root, str], bool] = lambda _root, _uri: False
) -> list[Target]:
    """The targets of `paths`; of none given, every known root that can be looked at (uploads cannot).

    `is_known(root, uri)` says whether the ledger has a document at or below a uri: a missing PATH that it has is a deletion.
    Raises FolderMissing, and Misuse when there is nothing to do or a further root has no name.
    """
    known = lookable(known)
    if not paths:
        if not known:
            raise Misuse("Name the folder to index: `evercurrent sync PATH`.")
        return _with_foreign([Target(root, is_there=_is_there(root)) for root in known], known)
    roots = list(known)
    targets: list[Target] = []
    for path in paths:
        target = _target(path, roots, home, is_known)
        if target.is_new:
            roots.append(target.root)
        if target not in targets:
            targets.append(target)
    return _with_foreign(targets, roots)


def lookable(roots: Sequence[Root]) -> list[Root]:
    """The roots that stand somewhere of their own, on a disk or in a bucket: a pass has nothing to look at in the others."""
    return [root for root in roots if root.kind is not SourceKind.UPLOADS]


def _is_there(root: Root) -> bool:
    """Only a listing can tell of a bucket."""
    return root.kind is SourceKind.BUCKET or os.path.lexists(root.path)


def _with_foreign(targets: Sequence[Target], roots: Sequence[Root]) -> list[Target]:
    prefixes = {root.prefix for root in roots if root.prefix}
    return [replace(target, foreign=tuple(sorted(prefixes - {target.root.prefix}))) for target in targets]


def _target(given: str, roots: Sequence[Root], home: CollectionId, is_known: Callable[[Root, str], bool]) -> Target:
    name, path = split_name(given)
    if is_url(path):
        return _bucket_target(name, normal_url(path), roots, home)
    absolute = os.path.abspath(path)
    there = os.path.exists(absolute)
    inside = _inside(absolute, roots)
    if inside is not None:
        root, scope = inside
        if not there and scope and not is_known(root, scope):
            raise FolderMissing(path=path)
        return Target(root, scope, is_there=there)
    if not there:
        raise FolderMissing(path=path)
    return Target(_new_root(name, absolute, roots, home), is_new=True)


def _bucket_target(name: str | None, url: str, roots: Sequence[Root], home: CollectionId) -> Target:
    """A bucket, or a place in one: what is missing there is for the listing to say."""
    for root in sorted(roots, key=lambda root: -len(root.path)):
        if root.kind is SourceKind.BUCKET and (inside := place_below(root.path, url)) is not None:
            return Target(root, root.prefix + uri_of_path(inside) if inside else "")
    return Target(Root(home, _new_name(name, url, roots, home), SourceKind.BUCKET, url, _new_prefix(name, roots)), is_new=True)


def split_name(given: str) -> tuple[str | None, str]:
    """`NAME=PATH` in its parts; a file that is really named so is taken as such."""
    named = _NAMED.fullmatch(given)
    if named is None or os.path.exists(given):
        return None, given
    return named["name"], named["path"]


def _inside(absolute: str, roots: Sequence[Root]) -> tuple[Root, str] | None:
    """The innermost root that holds the path, and the uri it has there; a root's own path has the scope ""."""
    for root in sorted(_with_kind(roots, SourceKind.FOLDER, SourceKind.FILE), key=lambda root: -len(root.path)):
        if absolute == root.path or os.path.realpath(absolute) == os.path.realpath(root.path):
            return root, ""
        if root.kind is SourceKind.FOLDER:
            below = _below(absolute, root)
            uri = uri_of(root, absolute) or (uri_of(root, os.path.join(root.path, below)) if below else None)
            if uri is not None and uri != root.prefix.rstrip("/"):
                return root, uri
    return None


def _below(absolute: str, root: Root) -> str:
    """The path under the root when it was reached by another name of the root (a link); "" when it is not below it."""
    inside = os.path.relpath(os.path.realpath(absolute), os.path.realpath(root.path))
    return "" if inside.startswith("..") or inside == "." else inside


def _new_root(name: str | None, absolute: str, roots: Sequence[Root], home: CollectionId) -> Root:
    kind = SourceKind.FILE if os.path.isfile(absolute) else SourceKind.FOLDER
    anchor = os.path.dirname(absolute) if kind is SourceKind.FILE else absolute
    root_name, prefix = _new_name(name, absolute, roots, home), _new_prefix(name, roots)
    return Root(home, root_name, kind, absolute, prefix, os.stat(anchor).st_dev)


def _new_name(name: str | None, place: str, roots: Sequence[Root], home: CollectionId) -> RootName:
    if name is None and lookable(roots):
        raise Misuse(f"The collection {home.collection!r} has {lookable(roots)[0].path} already; give a further root a name: NAME={place}.")
    if name == SourceKind.UPLOADS:
        raise Misuse(f"The name {name!r} is that of the documents that were uploaded; give the root another one: NAME={place}.")
    return RootName(name or FIRST_ROOT_NAME)


def _new_prefix(name: str | None, roots: Sequence[Root]) -> str:
    return f"{name}/" if lookable(roots) else ""


def _with_kind(roots: Sequence[Root], *kinds: SourceKind) -> list[Root]:
    return [root for root in roots if root.kind in kinds]
