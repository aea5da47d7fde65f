"""The splitter for texts with marks: cuts first where headings start, keeps a heading with what it heads, and blocks whole where they fit.

The same local rules as for plain text choose the cuts; only the atoms and their levels differ. Where headings and blocks are is
the loader's knowledge: no Markdown is parsed here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge

from indexer.split.atoms import Atoms, Level, prose_atoms, row_atoms
from indexer.split.text import in_rows, pieces_of
from store.model import LoadedText, Piece

_HEADING_LIKE = re.compile(r"^(#{1,6})[ \t]+\S", re.MULTILINE)


def split_markdown(loaded: LoadedText, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:
    """Cuts like `split_text`, with the headings and blocks of `loaded` as structure."""
    atoms = marked_atoms(loaded, chars_max)
    return pieces_of(loaded.text, atoms, chars_max=chars_max, chars_min=chars_min, overlap_chars=overlap_chars)


def marked_atoms(loaded: LoadedText, chars_max: int) -> Atoms:
    """Prose, with each block that fits as one atom, and each heading as one atom.

    A block that does not fit is read like its surroundings, lines that look like headings included: a fence whose end was deleted
    reaches to the end of the next one, and must not move every cut on the way.
    """
    text, plain = loaded.text, row_atoms if in_rows(loaded.media_type) else prose_atoms
    fitting = [(block.start, block.end) for block in loaded.blocks if block.end - block.start <= chars_max]
    headings = {heading.start: heading.level for heading in loaded.headings}
    for block in loaded.blocks:
        if block.end - block.start > chars_max:
            headings |= {match.start(): len(match[1]) for match in _HEADING_LIKE.finditer(text, block.start, block.end)}
    atoms = plain(text, 0, len(text)).join(merge(fitting, _heading_lines(text, sorted(headings))))
    for start, level in headings.items():
        _mark_heading(atoms, start, level)
    return atoms


def _heading_lines(text: str, starts: list[int]) -> Iterator[tuple[int, int]]:
    for start in starts:
        end = text.find("\n", start)
        yield start, len(text) if end < 0 else end


def _mark_heading(atoms: Atoms, start: int, level: int) -> None:
    i = bisect_left(atoms.starts, start)
    if i == len(atoms) or atoms.starts[i] != start:
        return
    atoms.levels[i] = Level.HEADING_1 + 1 - level
    if i + 1 < len(atoms) and atoms.levels[i + 1] < Level.HEADING_6:
        atoms.levels[i + 1] = Level.GLUE
