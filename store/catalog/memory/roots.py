"""Roots in memory: who owns documents, and how a root leaves with all of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from store.catalog.memory.tables import Tables
from store.errors import Misuse
from store.model import CollectionId, DocumentState, Instant, Root, RootName, SourceKind


class MemoryRoots:
    """Implements ports.Roots."""

    _tables: Tables

    def roots(self, home: CollectionId | None = None) -> list[Root]:
        with self._tables.lock:
            return [root for root in self._tables.roots if home is None or root.home == home]

    def ensure_root(self, root: Root) -> Root:
        tables = self._tables
        with tables.lock:
            tables.collection(root.home)
            siblings = [known for known in tables.roots if known.home == root.home]
            known = next((known for known in siblings if known.path == root.path), None)
            if known is None:
                refuse_taken_root(root, siblings)
                tables.roots.append(root)
                return root
            if known.device is None and root.device is not None:
                tables.roots[tables.roots.index(known)] = known = replace(known, device=root.device)
            return known

    def remove_root(self, home: CollectionId, name: RootName, now: Instant) -> int:
        tables = self._tables
        with tables.lock:
            tables.collection(home)
            root = next((root for root in tables.roots if (root.home, root.name) == (home, name)), None)
            if root is None:
                raise Misuse(f"There is no root {name!r}.")
            tables.roots.remove(root)
            tables.left_roots.add((home, name))
            tables.claims = [claim for claim in tables.claims if (claim.document.home, claim.root) != (home, name)]
            return bury_all(tables, home, name, now)


def refuse_taken_root(root: Root, siblings: Iterable[Root]) -> None:
    for known in siblings:
        shares_uris = SourceKind.UPLOADS in (root.kind, known.kind)
        if root.name == known.name or (root.prefix == known.prefix and not shares_uris):
            raise Misuse(f"The root {root.name!r} is already the folder {known.path}; give this one another name: NAME={root.path}.")


def bury_all(tables: Tables, home: CollectionId, name: RootName, now: Instant) -> int:
    """Returns how many documents count: tombstones do not, nor what was ignored or on its way to another uri."""
    removed = 0
    for document in sorted(row.document for row in tables.documents_of(home) if row.root == name):
        row = tables.documents[document]
        if row.mark is not DocumentState.DELETED and row.root == name:
            removed += row.mark is not DocumentState.IGNORED and row.moving_to is None
            tables.bury(row, now)
    return removed
