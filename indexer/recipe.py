"""A recipe: which loaders and splitter, with which settings, made a collection's chunks. Equal recipes give equal chunks.

A recipe carries its settings, so that a worker can carry out one that is not the configured one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from xxhash import xxh3_128_hexdigest

from indexer.load.registry import LOADER_VERSIONS
from indexer.split.cut import SPLITTER_VERSION, SplitSettings, Strategy
from store.model import Recipe, RecipeId


class SplitTableLike(Protocol):
    """What the configuration's table of the splitter looks like from here."""

    @property
    def strategy(self) -> Strategy: ...
    @property
    def chunk_chars_max(self) -> int: ...
    @property
    def chars_min(self) -> int: ...
    @property
    def overlap_chars(self) -> int: ...


def settings_of(table: SplitTableLike) -> SplitSettings:
    return SplitSettings(table.strategy, table.chunk_chars_max, table.chars_min, table.overlap_chars)


def recipe_of(
    split: SplitTableLike | SplitSettings,
    loader_versions: Mapping[str, int] = LOADER_VERSIONS,
    splitter_version: int = SPLITTER_VERSION,
    root_splits: Mapping[str, SplitTableLike | SplitSettings] = MappingProxyType({}),
) -> Recipe:
    """The fingerprint of everything that decides which chunks a document's bytes become. `root_splits`: by name, the roots that are cut
    in another way; one that is cut as the others are changes nothing."""
    parts: dict[str, Any] = {"loaders": dict(loader_versions), "splitter": splitter_version, "split": _split_part(split)}
    roots = {name: part for name, table in root_splits.items() if (part := _split_part(table)) != parts["split"]}
    if roots:
        parts["roots"] = roots
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return Recipe(RecipeId(xxh3_128_hexdigest(canonical.encode())), parts)


def _split_part(split: SplitTableLike | SplitSettings) -> dict[str, Any]:
    settings = split if isinstance(split, SplitSettings) else settings_of(split)
    return {
        "strategy": settings.strategy,
        "chars_max": settings.chars_max,
        "chars_min": settings.chars_min,
        "overlap_chars": settings.overlap_chars,
    }


def split_settings(recipe: Recipe, root: str = "") -> SplitSettings:
    """The splitter's settings that a recipe names for a root's documents.

    Raises KeyError, TypeError or ValueError for settings that no `recipe_of` made.
    """
    return SplitSettings(**recipe.settings.get("roots", {}).get(root, recipe.settings["split"]))
