"""The one entry point to splitting: a loaded text and settings in, pieces with their own metadata out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from indexer.split.markdown import split_markdown
from indexer.split.simple import split_fixed, split_recursive, split_sentence, split_whole
from indexer.split.table import columns_of, split_table
from indexer.split.text import split_text
from store.model import Heading, LoadedText, Metadata, Piece

SPLITTER_VERSION = 2
"""Rises with every change that moves a cut: it is part of the recipe."""

Strategy = Literal["auto", "text", "markdown", "table", "sentence", "recursive", "fixed", "whole"]
STRATEGIES: Mapping[str, Callable[..., tuple[Piece, ...]]] = MappingProxyType(
    {
        "text": split_text,
        "markdown": split_markdown,
        "table": split_table,
        "sentence": split_sentence,
        "recursive": split_recursive,
        "fixed": split_fixed,
        "whole": split_whole,
    }
)
TABLES = frozenset({"text/csv", "text/tab-separated-values"})


@dataclass(frozen=True, slots=True)
class SplitSettings:
    strategy: Strategy = "auto"
    chars_max: int = 1200
    chars_min: int = 300
    overlap_chars: int = 0

    def __post_init__(self) -> None:
        if self.strategy != "auto" and self.strategy not in STRATEGIES:
            raise ValueError(f"unknown strategy {self.strategy!r}")
        if self.chars_max < 1 or not 0 <= self.chars_min * 2 <= self.chars_max or not 0 <= self.overlap_chars * 2 <= self.chars_max:
            raise ValueError("chars_min and overlap_chars are each at most half of chars_max")


def cut(loaded: LoadedText, settings: SplitSettings) -> tuple[tuple[Piece, Metadata], ...]:
    """Cuts by the strategy; `auto` takes the one that the document's structure asks for.

    A piece's metadata holds `headings` (the titles it stands under, from level 1 down, at its start), `page`, and of a table `columns`,
    each only when known.
    """
    strategy = strategy_for(loaded) if settings.strategy == "auto" else settings.strategy
    pieces = STRATEGIES[strategy](loaded, chars_max=settings.chars_max, chars_min=settings.chars_min, overlap_chars=settings.overlap_chars)
    paths = heading_paths(loaded.headings)
    heading_starts = [heading.start for heading in loaded.headings]
    page_starts = [page.start for page in loaded.pages]
    columns = columns_of(loaded) if strategy == "table" else []
    always: Metadata = {"columns": columns} if columns else {}
    return tuple((piece, {**always, **_metadata(loaded, piece, paths, heading_starts, page_starts)}) for piece in pieces)


def strategy_for(loaded: LoadedText) -> str:
    """Tables are cut between records, what has headings or blocks by them, all else as plain text."""
    if loaded.media_type in TABLES:
        return "table"
    return "markdown" if loaded.headings or loaded.blocks else "text"


def heading_paths(headings: Iterable[Heading]) -> list[list[str]]:
    """For each heading the titles from the outermost down to itself."""
    paths: list[list[str]] = []
    open_headings: list[Heading] = []
    for heading in headings:
        while open_headings and open_headings[-1].level >= heading.level:
            open_headings.pop()
        open_headings.append(heading)
        paths.append([above.title for above in open_headings if above.title])
    return paths


def _metadata(loaded: LoadedText, piece: Piece, paths: list[list[str]], heading_starts: list[int], page_starts: list[int]) -> Metadata:
    metadata: dict[str, Any] = {}
    if heading_starts and (under := bisect_right(heading_starts, piece.start)) and paths[under - 1]:
        metadata["headings"] = paths[under - 1]
    if page_starts and (on := bisect_right(page_starts, piece.start)):
        metadata["page"] = loaded.pages[on - 1].page
    return metadata
