"""Presentations (PPTX): slide after slide, each with its title, texts, tables, charts and notes (python-pptx's one door).

A slide is a page. Shapes are read from top to bottom and left to right, the title first. Hidden slides are read, too: they are part
of the file.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from indexer.load.compose import Composer
from store.errors import DocumentUnparsable
from store.model import LoadedText

if TYPE_CHECKING:
    from pptx.slide import Slide

GROUP_DEPTH_MAX = 16
ROW_EMU = 100_000
"""Shapes whose tops are this close (about 3 mm) stand beside each other."""


def load_pptx(content: bytes, media_type: str) -> LoadedText:
    """Raises DocumentUnparsable: no such container, or damaged in a way that python-pptx cannot pass."""
    from pptx import Presentation

    try:
        presentation = Presentation(io.BytesIO(content))
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged or no presentation ({_short(error)})") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] in ("lxml", "pptx"):
            raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged ({_short(error)})") from error
        raise
    out = Composer(media_type)
    for number, slide in enumerate(presentation.slides, 1):
        out.page(number)
        _read_slide(slide, out)
    properties = presentation.core_properties
    own: dict[str, Any] = {"author": properties.author, "subject": properties.subject, "keywords": properties.keywords}
    title = None if properties.title == "PowerPoint Presentation" else properties.title
    return out.loaded(title, properties.language or None, own)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


def _read_slide(slide: Slide, out: Composer) -> None:
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        out.heading(1, title.text_frame.text)
    for shape in _in_reading_order(slide.shapes, GROUP_DEPTH_MAX):
        if title is None or shape.shape_id != title.shape_id:
            _read_shape(shape, out)
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None and frame.text.strip():
        out.paragraph(f"Notes: {frame.text}")


def _in_reading_order(shapes: Any, depth: int) -> Iterator[Any]:
    def place(shape: Any) -> tuple[int, int]:
        return (shape.top or 0) // ROW_EMU, shape.left or 0

    for shape in sorted(shapes, key=place):
        if hasattr(shape, "shapes"):
            if depth:
                yield from _in_reading_order(shape.shapes, depth - 1)
        else:
            yield shape


def _read_shape(shape: Any, out: Composer) -> None:
    if getattr(shape, "has_table", False):
        out.table([cell.text for cell in row.cells] for row in shape.table.rows)
    elif getattr(shape, "has_chart", False):
        _read_chart(shape.chart, out)
    elif shape.has_text_frame:
        _read_frame(shape.text_frame, out)
    elif (properties := shape._element.find(".//{*}cNvPr")) is not None and (
        description := " ".join((properties.get("descr") or "").split())
    ):
        out.paragraph(f"![{description}]({properties.get('name') or 'image'})")


def _read_frame(frame: Any, out: Composer) -> None:
    """Paragraphs of one level are a block of lines; deeper ones are indented items."""
    lines = [("  " * paragraph.level, text) for paragraph in frame.paragraphs if (text := paragraph.text.replace("\v", "\n").strip())]
    if len(lines) == 1:
        out.paragraph(lines[0][1])
    elif lines:
        out.paragraph("\n".join(f"{indent}- {text}" for indent, text in lines))


def _read_chart(chart: Any, out: Composer) -> None:
    title = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
    try:
        plot = chart.plots[0]
        series = [(str(one.name or ""), list(one.values)) for one in plot.series]
        categories = [str(category) for category in plot.categories]
    except (KeyError, ValueError, IndexError, AttributeError, NotImplementedError) as error:
        out.paragraph(title)
        out.fault("chart_unread", f"The numbers of a chart could not be read: {_short(error)}.")
        return
    out.paragraph(title)
    rows = [["", *(name for name, _ in series)]]
    for at, category in enumerate(categories):
        rows.append([category, *(_shown(values[at]) if at < len(values) else "" for _, values in series)])
    out.table(rows)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
