"""Rows of a sheet, whichever format they come from, as text: tables between empty rows, merged cells filled, values as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from indexer.load.compose import Composer

COLUMNS_MAX = 1024
ROWS_MAX = 1_000_000
Cell = str | int | float | bool | date | time | timedelta | None


@dataclass(frozen=True, slots=True)
class Merged:
    """Cells shown as one, all ends included, counted from 0. The first one's value belongs to each of them."""

    top: int
    left: int
    bottom: int
    right: int


def write_sheet(out: Composer, name: str, rows: Iterable[Sequence[Cell]], merged: Sequence[Merged] = ()) -> None:
    """The sheet's name as a heading, then its tables. A sheet without any value is left out."""
    tables = _tables(_filled(rows, merged, out, name))
    first = next(tables, None)
    if first is None:
        return
    out.heading(2, name)
    out.table(first)
    for table in tables:
        out.table(table)


def shown(value: Cell) -> str:
    """A value as a reader of the sheet sees it; numbers keep their digits, days have no clock time."""
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case datetime():
            return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)


def _filled(rows: Iterable[Sequence[Cell]], merged: Sequence[Merged], out: Composer, name: str) -> Iterator[list[str]]:
    """Rows of texts; cells merged downwards repeat their value, so that each row says what it belongs to."""
    downwards = sorted((one for one in merged if one.bottom > one.top and one.left < COLUMNS_MAX), key=lambda one: one.top)
    active: list[tuple[Merged, str]] = []
    for number, row in enumerate(rows):
        if number >= ROWS_MAX:
            out.fault("sheet_cut", f"The sheet {name[:80]!r} has more than {ROWS_MAX} rows; the rest is left out.")
            return
        if len(row) > COLUMNS_MAX and any(cell not in (None, "") for cell in row[COLUMNS_MAX:]):
            out.fault(
                "sheet_cut", f"Row {number + 1} of the sheet {name[:80]!r} has more than {COLUMNS_MAX} columns; the rest is left out."
            )
        texts = [shown(cell) for cell in row[:COLUMNS_MAX]]
        active = [(one, value) for one, value in active if one.bottom >= number]
        for one, value in active:
            if one.left < len(texts) and not texts[one.left]:
                texts[one.left] = value
        while downwards and downwards[0].top <= number:
            one = downwards.pop(0)
            if one.top == number and one.left < len(texts) and texts[one.left]:
                active.append((one, texts[one.left]))
        yield texts


def _tables(rows: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Stretches of rows between empty ones, without the columns that are empty at their edges."""
    table: list[list[str]] = []
    for row in rows:
        if any(text.strip() for text in row):
            table.append(row)
        elif table:
            yield _narrowed(table)
            table = []
    if table:
        yield _narrowed(table)


def _narrowed(table: list[list[str]]) -> list[list[str]]:
    used = [at for row in table for at, text in enumerate(row) if text.strip()]
    return [row[min(used) : max(used) + 1] for row in table]
