"""The edit-stable splitter: the same stretch of text gives the same pieces, whatever was edited elsewhere.

No state and no history: pieces are a function of the text. Marks of structure (headings, blocks) are `markdown`'s.
"""

from __future__ import annotations

from indexer.split.atoms import Atoms, fitted, prose_atoms, row_atoms
from indexer.split.boundaries import cuts_of
from store.model import LoadedText, Piece


def split_text(loaded: LoadedText, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:
    """Cuts at paragraphs, sentences and lines into pieces of at most `chars_max` code points.

    Every visible character is in a piece; pieces ascend, have no surrounding white space, and overlap by at most `overlap_chars`,
    in whole atoms. Only a single grapheme cluster may be longer than `chars_max`.
    """
    text = loaded.text
    atoms = row_atoms(text, 0, len(text)) if in_rows(loaded.media_type) else prose_atoms(text, 0, len(text))
    return pieces_of(text, atoms, chars_max=chars_max, chars_min=chars_min, overlap_chars=overlap_chars)


_IN_ROWS = frozenset(
    [
        "text/csv",
        "text/tab-separated-values",
        "text/css",
        "application/json",
        "application/yaml",
        "application/toml",
        "application/xml",
        "application/vnd.ms-excel",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "text/javascript",
    ]
)


def in_rows(media_type: str) -> bool:
    """Whether a line of this type is a unit (code, logs, tables), rather than prose that may be wrapped anywhere."""
    return media_type in _IN_ROWS or (media_type.startswith("text/x-") and media_type != "text/x-rst")


def pieces_of(text: str, atoms: Atoms, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:
    """Cuts `text` between `atoms`; what `split_text` says of pieces holds, whatever the atoms are."""
    if not len(atoms):
        return ()
    fit = fitted(text, atoms, chars_max)
    cuts = cuts_of(text, fit, chars_max=chars_max, chars_min=chars_min)
    starts = _overlapping(fit, cuts, chars_max, overlap_chars) if overlap_chars else [fit.starts[first] for first in cuts]
    return tuple(Piece(start, fit.ends[last - 1]) for start, last in zip(starts, [*cuts[1:], len(fit)], strict=False))


def _overlapping(atoms: Atoms, cuts: list[int], chars_max: int, overlap_chars: int) -> list[int]:
    """Where the pieces start when each takes the last atoms of the one before: at most `overlap_chars`, where they fit."""
    starts = [atoms.starts[cuts[0]]]
    for before, first, last in zip(cuts, cuts[1:], [*cuts[2:], len(atoms)], strict=False):
        end, at = atoms.ends[last - 1], first
        while at - 1 > before and atoms.ends[first - 1] - atoms.starts[at - 1] <= overlap_chars and end - atoms.starts[at - 1] <= chars_max:
            at -= 1
        starts.append(atoms.starts[at])
    return starts
