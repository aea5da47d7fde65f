"""Notebooks (ipynb): text cells as they stand, code cells fenced, and what they printed, in the order of the notebook.

Images, widgets and other displays are left out; a long output is cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from indexer.load.compose import Composer
from indexer.load.decode import decode
from indexer.load.markdown import structure_of
from store.errors import DocumentUnparsable
from store.model import LoadedText

OUTPUT_CHARS_MAX = 4000


def load_ipynb(content: bytes, media_type: str) -> LoadedText:
    """Raises TextUndecodable, DocumentUnparsable: no JSON, or no notebook of format 3 or later."""
    source, faults = decode(content, media_type)
    try:
        notebook = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"it is no valid JSON ({str(error)[:120]})") from error
    cells = list(_cells(notebook))
    if not cells and not (isinstance(notebook, dict) and "nbformat" in notebook):
        raise DocumentUnparsable(media_type=media_type, reason="it is JSON, but no notebook")
    metadata = _mapping(_mapping(notebook).get("metadata"))
    language = str(_mapping(metadata.get("language_info")).get("name") or _mapping(metadata.get("kernelspec")).get("language") or "")
    out = Composer(media_type)
    for cell in cells:
        _read_cell(cell, language, out)
    loaded = out.loaded()
    headings, blocks = structure_of(loaded.text)
    title = _string(metadata.get("title")) or next((heading.title for heading in headings if heading.level == 1 and heading.title), None)
    return LoadedText(loaded.text, media_type, title=title, headings=headings, blocks=blocks, faults=(*faults, *loaded.faults))


def _cells(notebook: object) -> Iterator[dict[str, Any]]:
    """Those of format 4, or of the worksheets of format 3."""
    top = _mapping(notebook)
    sheets = [top] if isinstance(top.get("cells"), list) else top.get("worksheets")
    for sheet in sheets if isinstance(sheets, list) else []:
        cells = _mapping(sheet).get("cells")
        yield from (_mapping(cell) for cell in cells if isinstance(cell, dict)) if isinstance(cells, list) else ()


def _read_cell(cell: dict[str, Any], language: str, out: Composer) -> None:
    source = _string(cell.get("source")) or _string(cell.get("input"))
    match cell.get("cell_type"):
        case "code":
            out.fence(source, language)
            outputs = cell.get("outputs")
            for output in outputs if isinstance(outputs, list) else []:
                _read_output(_mapping(output), out)
        case "heading":
            level = cell.get("level")
            out.heading(level if isinstance(level, int) else 1, source)
        case _:
            out.paragraph(source)


def _read_output(output: dict[str, Any], out: Composer) -> None:
    if output.get("output_type") in ("error", "pyerr"):
        text = f"{_string(output.get('ename'))}: {_string(output.get('evalue'))}"
    else:
        text = _string(output.get("text")) or _string(_mapping(output.get("data")).get("text/plain"))
    if len(text) > OUTPUT_CHARS_MAX:
        out.fault("output_cut", f"An output of {len(text)} characters is cut to {OUTPUT_CHARS_MAX}.")
        text = text[:OUTPUT_CHARS_MAX]
    out.fence(text)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(value: object) -> str:
    """A text, or a list of its lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
