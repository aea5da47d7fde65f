"""The splitter for delimited tables (CSV, TSV): a record is never cut while it fits, however many lines its quoted cells have.

The text stays as it stands. Which names the columns have is told beside the pieces, so that a renamed column embeds nothing anew.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from indexer.split.atoms import Atoms, Level
from indexer.split.text import pieces_of
from store.model import LoadedText, Piece

DELIMITERS = ",;\t|"
HEAD_LINES = 20
"""Lines by which the delimiter is told."""
RECORD_CHARS_MAX = 20_000
"""A quoted cell longer than this is taken for a stray quote."""
COLUMNS_MAX = 256
COLUMN_CHARS_MAX = 200


def split_table(loaded: LoadedText, *, chars_max: int, chars_min: int, overlap_chars: int = 0) -> tuple[Piece, ...]:
    """Cuts between records into pieces of at most `chars_max` code points; what holds of `split_text`'s pieces holds of these."""
    return pieces_of(loaded.text, record_atoms(loaded.text), chars_max=chars_max, chars_min=chars_min, overlap_chars=overlap_chars)


def columns_of(loaded: LoadedText) -> list[str]:
    """The names in the first record; none when it does not read as a head (an empty or a doubled name, a number)."""
    first = next(records(loaded.text), None)
    if first is None:
        return []
    line = loaded.text[first[0] : first[1]]
    try:
        names = [" ".join(name.split()) for name in next(csv.reader([line], delimiter=delimiter_of(loaded.text)), [])]
    except csv.Error:
        return []  # a cell beyond its reader's limit is no name
    reads_as_head = len(names) > 1 and all(names) and len(set(names)) == len(names) and not any(_is_number(name) for name in names)
    return [name[:COLUMN_CHARS_MAX] for name in names[:COLUMNS_MAX]] if reads_as_head else []


def delimiter_of(text: str) -> str:
    """The delimiter that the first lines have most evenly: as often in each, outside of quotes."""
    lines = [_unquoted(line) for line in text.split("\n", HEAD_LINES)[:HEAD_LINES] if line.strip()]

    def evenness(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in lines]
        least = min(counts, default=0)
        return (sum(count == counts[0] for count in counts) if least else 0, least)

    return max(DELIMITERS, key=lambda delimiter: (evenness(delimiter), -DELIMITERS.index(delimiter)))


def record_atoms(text: str) -> Atoms:
    """Each record one atom; after a blank line a cut is better."""
    atoms = Atoms()
    ended_at = 0
    for start, end in records(text):
        visible = text[start:end]
        first, last = start + len(visible) - len(visible.lstrip()), start + len(visible.rstrip())
        if first < last:
            blank = text.count("\n", ended_at, first) > 1 or not len(atoms)
            atoms.append(first, last, Level.PARAGRAPH if blank else Level.ROW)
            ended_at = last
    return atoms


def records(text: str) -> Iterator[tuple[int, int]]:
    """Where each record starts and ends. A quote that is not closed soon ends with its line: a stray one must not swallow the table."""
    at, count = 0, len(text)
    while at < count:
        end = stop = _line_end(text, at)
        is_open = text.count('"', at, end) % 2 == 1
        while is_open and stop < count and stop - at <= RECORD_CHARS_MAX:
            begun, stop = stop + 1, _line_end(text, stop + 1)
            is_open ^= text.count('"', begun, stop) % 2 == 1
        if is_open:
            stop = end
        yield at, stop
        at = stop + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _unquoted(line: str) -> str:
    return "".join(line.split('"')[::2])


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
