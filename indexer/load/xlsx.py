"""Workbooks (XLSX): each visible sheet a heading with its tables, values as last computed (openpyxl's one door).

Sheets are streamed, so that a large one needs little memory. Formulas without a stored value are empty. Hidden sheets are left out,
and a fault says so.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from indexer.load.compose import Composer
from indexer.load.sheets import Merged, write_sheet
from store.errors import DocumentUnparsable
from store.model import LoadedText

_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\b[^>]*?\bref=\"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})\"")
_READ_BYTES = 1 << 20
MERGED_MAX = 10_000


def load_xlsx(content: bytes, media_type: str) -> LoadedText:
    """Raises DocumentUnparsable: no such container, or damaged in a way that openpyxl cannot pass."""
    from openpyxl import load_workbook

    try:
        workbook = load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
        try:
            return _read(workbook, content, media_type)
        finally:
            workbook.close()
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, SyntaxError) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged or no workbook ({_short(error)})") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] in ("lxml", "openpyxl", "defusedxml"):
            raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged ({_short(error)})") from error
        raise


def _read(workbook: Any, content: bytes, media_type: str) -> LoadedText:
    out = Composer(media_type)
    names: list[str] = []
    for sheet in workbook.worksheets:
        if sheet.sheet_state != "visible":
            out.fault("sheet_hidden", f"The hidden sheet {sheet.title[:80]!r} is left out.")
            continue
        names.append(sheet.title)
        sheet.reset_dimensions()
        write_sheet(out, sheet.title, sheet.iter_rows(values_only=True), _merged(content, sheet._worksheet_path))
    properties = workbook.properties
    own = {
        "author": None if properties.creator == "openpyxl" else properties.creator,
        "subject": properties.subject,
        "keywords": properties.keywords,
        "sheets": names,
    }
    return out.loaded(properties.title, properties.language, own)


def _merged(content: bytes, path: str) -> list[Merged]:
    """Merged cells stand at the end of a sheet's XML, where a streaming reader does not look."""
    found: list[Merged] = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(path.lstrip("/")) as part:
        tail = b""
        while (piece := part.read(_READ_BYTES)) and len(found) < MERGED_MAX:
            piece = tail + piece
            end = 0
            for match in _MERGED.finditer(piece):
                left, top, right, bottom = match.groups()
                found.append(Merged(int(top) - 1, _column(left), int(bottom) - 1, _column(right)))
                end = match.end()
            tail = piece[max(end, len(piece) - 200) :]
    return found[:MERGED_MAX]


def _column(letters: bytes) -> int:
    """`A` is 0, `Z` 25, `AA` 26."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number - 1


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
