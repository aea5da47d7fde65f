"""What a ZIP-based document says it would unpack to, looked at before anything is unpacked. Nothing is read but the directory."""

from __future__ import annotations

import io
import zipfile

from store.errors import DocumentUnparsable, LoaderLimitReached

ENTRIES_MAX = 20_000
RATIO_MAX = 200
"""Office documents are XML, which packs 10 to 50 times."""
SPLIT_IT = "save it in several parts"
RATIO_BYTES_MIN = 16 << 20
"""What unpacks to less does no harm, however well it was packed."""


def check_archive(content: bytes, media_type: str, unpacked_bytes_max: int) -> None:
    """Raises LoaderLimitReached for a bomb, DocumentUnparsable for a directory that cannot be read."""
    if not content.startswith(b"PK"):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, OSError) as error:
        raise DocumentUnparsable(media_type=media_type, reason=f"it is damaged ({str(error)[:120]})") from error
    unpacked = sum(entry.file_size for entry in entries)
    if len(entries) > ENTRIES_MAX:
        reason, way = f"it has {len(entries)} parts, the limit is {ENTRIES_MAX}", SPLIT_IT
    elif unpacked > unpacked_bytes_max:
        reason, way = f"it would unpack to {unpacked} bytes, the limit is {unpacked_bytes_max}", "raise indexer.load.unpacked_bytes_max"
    elif unpacked > RATIO_BYTES_MIN and unpacked > RATIO_MAX * len(content):
        times, way = unpacked // len(content), SPLIT_IT
        reason = f"it would unpack to {times} times its size, as a ZIP bomb does; the limit is a ratio of {RATIO_MAX}"
    else:
        return
    raise LoaderLimitReached(media_type=media_type, reason=reason, way=way)
