"""PDF: the text of each page as it was laid out, lines joined into paragraphs, with page numbers (pypdfium2's one door).

Nothing is recognised from images: a scan has no text, and says so. A page that cannot be read is a fault; the others are read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from indexer.load.compose import Composer
from store.errors import DocumentUnparsable
from store.model import LoadedText

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

PAGES_MAX = 20_000
PASSWORD_ERROR = 4
"""FPDF_ERR_PASSWORD."""
FULL_LINE = 0.8
"""A line at least this long, of the page's usual length, goes on in the next one."""
PROSE_LINE_CHARS = 40
"""A page whose usual line is shorter is a form, a list or a receipt: there a line ends what it says."""
_DIVIDED = re.compile("[\u00ad\ufffe\u0002]\\s*")
"""How pdfium spells a hyphen that the layout put into a word at a line's end."""
_PLACEHOLDERS = frozenset({"anonymous", "untitled", "unspecified"})
"""What writers of PDF put where nobody said anything."""
_END = re.compile(r"[.!?:;。！？：；…]['\")\]”’»」』]*$")
_ITEM = re.compile(r"(?:[-•▪‣◦*–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


def load_pdf(content: bytes, media_type: str) -> LoadedText:
    """Raises DocumentUnparsable: encrypted with a password, or damaged beyond reading."""
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(content)
    except PdfiumError as error:
        if getattr(error, "err_code", None) == PASSWORD_ERROR or "password" in str(error).lower():
            reason = "it is encrypted and needs a password; save a copy without one"
            raise DocumentUnparsable(media_type=media_type, reason=reason) from error
        raise DocumentUnparsable(media_type=media_type, reason="it is damaged and cannot be opened") from error
    try:
        return _read(document, media_type)
    finally:
        document.close()


def _read(document: PdfDocument, media_type: str) -> LoadedText:
    from pypdfium2 import PdfiumError

    out = Composer(media_type)
    pages = len(document)
    without_text: list[int] = []
    for number in range(min(pages, PAGES_MAX)):
        try:
            text = _page_text(document, number)
        except PdfiumError:
            out.fault("page_unreadable", f"Page {number + 1} is damaged and could not be read.")
            continue
        if not text.strip():
            without_text.append(number + 1)
            continue
        out.page(number + 1)
        for stretch in stretches(text):
            out.paragraph(stretch)
    if pages > PAGES_MAX:
        out.fault("pages_cut", f"The document has {pages} pages; those after {PAGES_MAX} are left out.")
    if without_text:
        out.fault("page_without_text", _without_text(without_text, pages))
    own = {
        key: value for key, value in document.get_metadata_dict(skip_empty=True).items() if value.strip("() ").lower() not in _PLACEHOLDERS
    }
    said: dict[str, Any] = {"author": own.get("Author"), "subject": own.get("Subject"), "keywords": own.get("Keywords")}
    return out.loaded(own.get("Title"), own=said)


def _page_text(document: PdfDocument, number: int) -> str:
    page = document[number]
    try:
        text_page = page.get_textpage()
        try:
            return str(text_page.get_text_range())
        finally:
            text_page.close()
    finally:
        page.close()


def _without_text(numbers: list[int], pages: int) -> str:
    if len(numbers) == pages:
        return "There is no text in it: its pages are images, a scan perhaps. Recognise the text (OCR) and save it again."
    shown = ", ".join(map(str, numbers[:20])) + (" and others" if len(numbers) > 20 else "")
    return f"Of {pages} pages these have no text (images, or empty): {shown}."


def stretches(text: str) -> list[str]:
    """A page's lines as paragraphs, where they are prose: a line that reaches the usual end goes on in the next one. Lines that stand
    for themselves (a form, a list, a table) stay lines, those next to each other in one stretch."""
    lines = _DIVIDED.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    lengths = sorted(len(line.rstrip()) for line in lines if line.strip())
    usual = lengths[len(lengths) * 3 // 4] if lengths else 0
    found: list[list[str]] = [[]]
    goes_on = is_prose = False
    for line in lines:
        bare = line.strip()
        if goes_on and bare and not _ITEM.match(bare):
            found[-1][-1] = _joined(found[-1][-1], bare)
            is_prose = True
        elif bare and not is_prose:
            found[-1].append(bare)
        elif bare or found[-1]:
            found.append([bare] if bare else [])
            is_prose = False
        ends = bool(_END.search(bare)) and len(bare) < usual * 0.95
        goes_on = bool(bare) and usual >= PROSE_LINE_CHARS and len(bare) >= usual * FULL_LINE and not ends
    return ["\n".join(stretch) for stretch in found if stretch]


def _joined(before: str, after: str) -> str:
    """A word that was divided at the line's end is one again; between Chinese characters stands no space."""
    last = before[-1]
    if last == "-" and len(before) > 1 and before[-2].islower() and after[0].islower():
        return before[:-1] + after
    if last == "-" or (_CJK.match(last) and _CJK.match(after[0])):
        return before + after
    return f"{before} {after}"
