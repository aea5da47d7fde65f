"""A text put together from parts, as the loaders of office formats, mail and notebooks do: Markdown, with its structure recorded.

Parts are written in reading order; headings, tables, code and pages are remembered at their offsets. Nothing is escaped: the text is
there to be read and searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from indexer.load.decode import clean
from indexer.load.metadata import own_metadata
from store.errors import DocumentUnparsable
from store.model import Block, BlockKind, Fault, Heading, LoadedText, PageStart

TEXT_CHARS_MAX = 64 * 1024 * 1024
FAULTS_MAX = 100
"""Further ones say nothing new."""


class Composer:
    """Not reusable: one document each."""

    def __init__(self, media_type: str) -> None:
        self._media_type = media_type
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[Heading] = []
        self._blocks: list[Block] = []
        self._pages: list[PageStart] = []
        self._page_owed: int | None = None
        self._faults: list[Fault] = []

    @property
    def is_empty(self) -> bool:
        return not self._length

    def paragraph(self, text: str) -> None:
        """A stretch of its own; white space around it is dropped, line ends inside it are kept."""
        self._write(clean(text).strip(), "\n\n")

    def line(self, text: str) -> None:
        """A line that follows the one before without a gap: an item of a list, a header of a mail."""
        self._write(clean(text).rstrip().lstrip("\n"), "\n")

    def heading(self, level: int, title: str) -> None:
        """A title of its own line; `level` 1 to 6, deeper ones count as 6."""
        title = " ".join(clean(title).split())
        if title:
            level = min(max(level, 1), 6)
            start = self._write(f"{'#' * level} {title}", "\n\n")
            self._headings.append(Heading(start, level, title))

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """A table, its first row as the head. Rows are made equally long; one without any text is left out."""
        kept = [[_cell(cell) for cell in row] for row in rows]
        kept = [row for row in kept if any(row)]
        if not kept:
            return
        width = max(len(row) for row in kept)
        lines = [_row(row, width) for row in kept]
        lines.insert(1, "|" + " --- |" * width)
        self._block("\n".join(lines), BlockKind.TABLE)

    def fence(self, code: str, language: str = "") -> None:
        """Code, or anything else whose line ends matter."""
        code = clean(code).rstrip()
        if not code.strip():
            return
        ticks = "```"
        while ticks in code:
            ticks += "`"
        self._block(f"{ticks}{language}\n{code}\n{ticks}", BlockKind.FENCE)

    def append(self, loaded: LoadedText, level_below: int = 0) -> None:
        """Another text as a part of this one: its headings stand `level_below` levels deeper, its pages are left out."""
        if not loaded.text.strip():
            self._faults += loaded.faults
            return
        text = loaded.text.rstrip()
        lead = len(text) - len(text.lstrip("\n"))
        shift = self._write(text[lead:], "\n\n") - lead
        for heading in loaded.headings:
            self._headings.append(Heading(heading.start + shift, min(heading.level + level_below, 6), heading.title))
        self._blocks += (Block(block.start + shift, block.end + shift, block.kind) for block in loaded.blocks if block.start >= lead)
        self._faults += loaded.faults

    def page(self, number: int) -> None:
        """What is written from here on stands on page (or slide) `number`."""
        self._page_owed = number

    def fault(self, code: str, message: str) -> None:
        self._faults.append(Fault(code, message))

    def loaded(self, title: str | None = None, language: str | None = None, own: dict[str, Any] | None = None) -> LoadedText:
        """The document. `own` is what it says of itself, brought into the shared vocabulary; its title is taken when none is given."""
        text = "".join(self._parts)
        said = own_metadata({key: value for key, value in (own or {}).items() if value not in (None, "")}, text)
        first = next((heading.title for heading in self._headings if heading.level == 1), None)
        return LoadedText(
            text,
            self._media_type,
            title=_line(title) or said.title or first,
            language=_line(language) or said.language,
            headings=tuple(self._headings),
            pages=tuple(self._pages),
            blocks=tuple(self._blocks),
            metadata=said.metadata,
            faults=(*self._faults, *said.faults)[:FAULTS_MAX],
        )

    def _block(self, text: str, kind: BlockKind) -> None:
        start = self._write(text, "\n\n")
        self._blocks.append(Block(start, self._length, kind))

    def _write(self, text: str, gap: str) -> int:
        """Returns the offset at which `text` begins; an empty one is not written."""
        if not text:
            return self._length
        if self._parts:
            text = gap + text
        else:
            gap = ""
        if self._length + len(text) > TEXT_CHARS_MAX:
            raise DocumentUnparsable(media_type=self._media_type, reason=f"its text exceeds the limit of {TEXT_CHARS_MAX} characters")
        start = self._length + len(gap)
        self._parts.append(text)
        self._length += len(text)
        if self._page_owed is not None:
            self._pages.append(PageStart(start, self._page_owed))
            self._page_owed = None
        return start


def _cell(text: str) -> str:
    return " ".join(clean(text).split()).replace("|", "\\|")


def _row(cells: Sequence[str], width: int) -> str:
    return "| " + " | ".join([*cells, *[""] * (width - len(cells))]) + " |"


def _line(text: str | None) -> str | None:
    return " ".join(clean(text).split()) or None if text else None
