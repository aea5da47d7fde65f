"""What tantivy's files say about themselves: whether they are whole, and how many of their rows are dead. Reads only."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

FOOTER_MAGIC = 1337
COMPONENTS = ("idx", "pos", "term", "store", "fast", "fieldnorm")
PIECE_BYTES = 1 << 20


def dead_rows(folder: Path) -> int:
    """Rows that are deleted and not merged away yet, by the index's meta.json; a folder that is gone has none."""
    try:
        return sum((segment["deletes"] or {}).get("num_deleted_docs", 0) for segment in _segments(folder))
    except FileNotFoundError:
        return 0


def is_intact(folder: Path) -> bool:
    """Whether every file of every segment is there and has the checksum that its footer names.

    A tantivy file is BODY, a JSON footer with the CRC-32 of BODY, the footer's length and a magic number (both 32 bit little endian).
    """
    try:
        names = {path.name for path in folder.iterdir()}
        for segment in _segments(folder):
            stem = segment["segment_id"].replace("-", "")
            files = {name for name in names if name.startswith(stem)}
            deletes = segment["deletes"]
            if deletes and f"{stem}.{deletes['opstamp']}.del" not in files:
                return False
            if not files.issuperset(f"{stem}.{component}" for component in COMPONENTS):
                return False
            if not all(_checksum_holds(folder / name) for name in files):
                return False
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return False
    return True


def _segments(folder: Path) -> list[dict[str, Any]]:
    segments: list[dict[str, Any]] = json.loads((folder / "meta.json").read_text("utf-8"))["segments"]
    return segments


def _checksum_holds(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-8, 2)
        end = file.tell()
        footer_bytes, magic = (int.from_bytes(file.read(4), "little") for _ in range(2))
        if magic != FOOTER_MAGIC or footer_bytes > end:
            return False
        file.seek(end - footer_bytes)
        expected = json.loads(file.read(footer_bytes))["crc"]
        file.seek(0)
        left, checksum = end - footer_bytes, 0
        while left:
            piece = file.read(min(PIECE_BYTES, left))
            if not piece:
                return False
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
    return bool(checksum == expected)
