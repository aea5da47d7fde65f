"""A recipe: which loaders and splitter, with which settings, made a collection's chunks. Equal recipes give equal chunks.

A recipe carries its settings, so that a worker can carry out one that is not the configured one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

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
    split: SplitTableLike | SplitSettings, loader_versions: Mapping[str, int] = LOADER_VERSIONS, splitter_version: int = SPLITTER_VERSION
) -> Recipe:
    """The fingerprint of everything that decides which chunks a document's bytes become."""
    settings = split if isinstance(split, SplitSettings) else settings_of(split)
    parts = {
        "loaders": dict(loader_versions),
        "splitter": splitter_version,
        "split": {
            "strategy": settings.strategy,
            "chars_max": settings.chars_max,
            "chars_min": settings.chars_min,
            "overlap_chars": settings.overlap_chars,
        },
    }
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return Recipe(RecipeId(xxh3_128_hexdigest(canonical.encode())), parts)


def split_settings(recipe: Recipe) -> SplitSettings:
    """The splitter's settings that a recipe names. Raises KeyError, TypeError or ValueError for settings that no `recipe_of` made."""
    return SplitSettings(**recipe.settings["split"])
