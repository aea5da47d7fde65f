"""Small PDF files, written by hand: pages of text lines in one font."""

from __future__ import annotations

from collections.abc import Sequence


def pdf_of(pages: Sequence[Sequence[str]], title: str = "") -> bytes:
    """A PDF whose pages show these lines (Latin letters); a page without lines is blank."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids: list[int] = []
    for lines in pages:
        shown = "".join(f"({_escaped(line)}) Tj 0 -14 Td\n" for line in lines)
        stream = f"BT /F1 11 Tf 50 780 Td\n{shown}ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        page = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> /Contents {len(objects)} 0 R >>"
        )
        objects.append(page.encode())
        kids.append(len(objects))
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] /Count {len(kids)} >>".encode()
    objects.append(f"<< /Title ({_escaped(title)}) >>".encode("latin-1"))
    return _file(objects)


def _file(objects: Sequence[bytes]) -> bytes:
    """The objects with their table; the last one is the information about the document."""
    parts, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(parts))
        parts += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer << /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(objects), len(parts))
    return parts + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table) + trailer


def _escaped(line: str) -> str:
    return line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
