"""The splitter for texts with marks: cuts first where headings start, keeps a heading with what it heads, and blocks whole where they fit.

The same local rules as for plain text choose the cuts; only the atoms and their levels differ. Where headings and blocks are is
the loader's knowledge: no Markdown is parsed here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from indexer.split.atoms import Atoms, Level, prose_atoms, row_atoms
from indexer.split.text import in_rows, pieces_of
from store.model import Heading, LoadedText, Piece


def split_markdown(loaded: LoadedText, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:
    """Cuts like `split_text`, with the headings and blocks of `loaded` as structure."""
    atoms = marked_atoms(loaded, chars_max)
    return pieces_of(loaded.text, atoms, chars_max=chars_max, chars_min=chars_min, overlap_chars=overlap_chars)


def marked_atoms(loaded: LoadedText, chars_max: int) -> Atoms:
    """Prose outside blocks, a block as one atom where it fits and as rows where it does not, each heading as one atom."""
    text, plain = loaded.text, row_atoms if in_rows(loaded.media_type) else prose_atoms
    atoms, at = Atoms(), 0
    for block in loaded.blocks:
        if block.start < at or not text[block.start : block.end].strip():
            continue
        atoms.extend(plain(text, at, block.start))
        rows = row_atoms(text, block.start, block.end)
        if rows.ends[-1] - rows.starts[0] <= chars_max:
            atoms.append(rows.starts[0], rows.ends[-1], Level.PARAGRAPH)
        else:
            atoms.extend(_lowered(rows))
        at = block.end
    atoms.extend(plain(text, at, len(text)))
    atoms = atoms.join(_heading_lines(loaded))
    for heading in loaded.headings:
        _mark_heading(atoms, heading)
    return atoms


def _lowered(rows: Atoms) -> Atoms:
    """Inside an over-long block a row is a worse place than a paragraph's end outside, a blank line included."""
    rows.levels[1:] = [min(level, Level.ROW) for level in rows.levels[1:]]
    return rows


def _heading_lines(loaded: LoadedText) -> Iterator[tuple[int, int]]:
    for heading in loaded.headings:
        end = loaded.text.find("\n", heading.start)
        yield heading.start, len(loaded.text) if end < 0 else end


def _mark_heading(atoms: Atoms, heading: Heading) -> None:
    i = bisect_left(atoms.starts, heading.start)
    if i == len(atoms) or atoms.starts[i] != heading.start:
        return
    atoms.levels[i] = Level.HEADING_1 + 1 - heading.level
    if i + 1 < len(atoms):
        atoms.levels[i + 1] = Level.GLUE
