"""Old workbooks (XLS): each visible sheet a heading with its tables (xlrd's one door)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from indexer.load.compose import Composer
from indexer.load.sheets import Cell, Merged, write_sheet
from store.errors import DocumentUnparsable
from store.model import LoadedText


def load_xls(content: bytes, media_type: str) -> LoadedText:
    """Raises DocumentUnparsable: encrypted, damaged, or another kind of old office document."""
    import xlrd

    if content.startswith(b"PK"):
        raise DocumentUnparsable(media_type=media_type, reason="it is a ZIP container, perhaps a newer workbook; name it .xlsx")
    try:
        with xlrd.open_workbook(file_contents=content, formatting_info=True, logfile=_Silent(), on_demand=True) as workbook:
            return _read(workbook, media_type)
    except xlrd.XLRDError as error:
        reason = "it is encrypted; save it without a password" if "encrypt" in str(error).lower() else f"it is damaged ({_short(error)})"
        raise DocumentUnparsable(media_type=media_type, reason=reason) from error
    except (
        xlrd.compdoc.CompDocError,
        struct.error,
        IndexError,
        KeyError,
        AssertionError,
        UnicodeDecodeError,
        ValueError,
        TypeError,
    ) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged ({_short(error)})") from error


class _Silent:
    """Where xlrd's remarks go: a loader prints nothing."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        return None


def _read(workbook: Any, media_type: str) -> LoadedText:
    out = Composer(media_type)
    names: list[str] = []
    for number in range(workbook.nsheets):
        sheet = workbook.sheet_by_index(number)
        if sheet.visibility:
            out.fault("sheet_hidden", f"The hidden sheet {sheet.name[:80]!r} is left out.")
        else:
            names.append(sheet.name)
            merged = [Merged(top, left, bottom - 1, right - 1) for top, bottom, left, right in sheet.merged_cells]
            write_sheet(out, sheet.name, _rows(sheet, workbook.datemode), merged)
        workbook.unload_sheet(number)
    return out.loaded(own={"author": workbook.user_name.strip(), "sheets": names})


def _rows(sheet: Any, datemode: int) -> Iterator[list[Cell]]:
    import xlrd

    def value(cell: Any) -> Cell:
        match cell.ctype:
            case xlrd.XL_CELL_DATE:
                try:
                    return xlrd.xldate_as_datetime(cell.value, datemode)  # type: ignore[no-any-return]
                except (xlrd.XLDateError, ValueError, OverflowError):
                    return float(cell.value)
            case xlrd.XL_CELL_BOOLEAN:
                return bool(cell.value)
            case xlrd.XL_CELL_ERROR:
                return str(xlrd.error_text_from_code.get(cell.value, "#ERROR"))
            case xlrd.XL_CELL_EMPTY | xlrd.XL_CELL_BLANK:
                return None
            case _:
                return cell.value  # type: ignore[no-any-return]

    for number in range(sheet.nrows):
        yield [value(cell) for cell in sheet.row(number)]


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
