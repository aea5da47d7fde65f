"""The splitters that people know from elsewhere: windows of a fixed length, recursion over separators, packed sentences, no cut at all.

They count from the left, so that an edit moves every cut after it: `text` and `markdown` are made to avoid that.
"""

from __future__ import annotations

from collections.abc import Sequence

from indexer.split.atoms import fitted, prose_atoms
from indexer.split.clusters import cluster_starts
from store.model import LoadedText, Piece

SEPARATORS = ("\n\n", "\n", " ", "")


def split_whole(loaded: LoadedText, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:  # noqa: ARG001
    """One piece, however long."""
    return _pieces(loaded.text, [(0, len(loaded.text))])


def split_fixed(loaded: LoadedText, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:  # noqa: ARG001
    """Windows of `chars_max`, each repeating the last `overlap_chars` of the one before; no grapheme cluster is torn."""
    text = loaded.text
    stretches: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = _whole_clusters(text, start, min(start + chars_max, len(text)))
        stretches.append((start, end))
        if end == len(text):
            break
        start = max(start + 1, _whole_clusters(text, start, end - overlap_chars)) if overlap_chars else end
    return _pieces(text, stretches)


def split_recursive(loaded: LoadedText, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:  # noqa: ARG001
    """Paragraphs, then lines, then words, then characters, packed from the left up to `chars_max`."""
    parts = _parted(loaded.text, 0, len(loaded.text), chars_max, SEPARATORS)
    return _packed(loaded.text, parts, chars_max, overlap_chars)


def split_sentence(loaded: LoadedText, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:  # noqa: ARG001
    """Whole sentences, packed from the left up to `chars_max`; a longer one is cut at clauses and words."""
    atoms = fitted(loaded.text, prose_atoms(loaded.text, 0, len(loaded.text)), chars_max)
    return _packed(loaded.text, list(zip(atoms.starts, atoms.ends, strict=True)), chars_max, overlap_chars)


def _whole_clusters(text: str, start: int, end: int) -> int:
    """The last place up to `end` where a cluster begins; behind the first one when that is longer."""
    if end >= len(text):
        return len(text)
    starts = [place for place in cluster_starts(text, start, min(end + 64, len(text))) if place > start]
    return max((place for place in starts if place <= end), default=starts[0] if starts else len(text))


def _parted(text: str, start: int, end: int, chars_max: int, separators: Sequence[str]) -> list[tuple[int, int]]:
    """Stretches of at most `chars_max`, by the first separator that parts them."""
    if end - start <= chars_max:
        return [(start, end)]
    separator, rest = separators[0], separators[1:]
    if not separator:
        return [(at, min(at + chars_max, end)) for at in _steps(text, start, end, chars_max)]
    parts: list[tuple[int, int]] = []
    at = start
    while at < end:
        found = text.find(separator, at, end)
        stop = end if found < 0 else found + len(separator)
        parts += _parted(text, at, stop, chars_max, rest)
        at = stop
    return parts


def _steps(text: str, start: int, end: int, chars_max: int) -> list[int]:
    places = [start]
    while (following := _whole_clusters(text, places[-1], places[-1] + chars_max)) < end:
        places.append(following)
    return places


def _packed(text: str, parts: Sequence[tuple[int, int]], chars_max: int, overlap_chars: int) -> tuple[Piece, ...]:
    """Neighbours joined while they fit; each piece after the first begins with the last parts of the one before, where they fit."""
    stretches: list[tuple[int, int]] = []
    first = at = 0
    while at < len(parts):
        while at < len(parts) and parts[at][1] - parts[first][0] <= chars_max:
            at += 1
        at = max(at, first + 1)
        stretches.append((parts[first][0], parts[at - 1][1]))
        first = at
        while at < len(parts) and first - 1 > 0 and _overlap_fits(parts, first - 1, at, chars_max, overlap_chars):
            first -= 1
    return _pieces(text, stretches)


def _overlap_fits(parts: Sequence[tuple[int, int]], first: int, at: int, chars_max: int, overlap_chars: int) -> bool:
    return parts[at - 1][1] - parts[first][0] <= overlap_chars and parts[at][1] - parts[first][0] <= chars_max


def _pieces(text: str, stretches: Sequence[tuple[int, int]]) -> tuple[Piece, ...]:
    """Without the white space around them; those of nothing else are left out."""
    pieces: list[Piece] = []
    for start, end in stretches:
        stretch = text[start:end]
        kept = stretch.strip()
        if kept:
            first = start + len(stretch) - len(stretch.lstrip())
            if not pieces or first > pieces[-1].start:
                pieces.append(Piece(first, first + len(kept)))
    return tuple(pieces)
