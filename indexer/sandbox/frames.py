"""What passes between a sandbox and its child: frames of a length and bytes, JSON heads, loaded texts as JSON. Never pickle."""

from __future__ import annotations

import json
import struct
from typing import Any

from store.errors import DocumentTooLarge, DocumentUnparsable, LoaderLimitReached, Rejected, TextUndecodable
from store.model import Block, BlockKind, Fault, Heading, LoadedText, PageStart

LENGTH = struct.Struct("<Q")
READY = b"ready"
"""A child's first frame: what fails before it says nothing of a document."""
FRAME_BYTES_MAX = 1 << 32
REJECTIONS: dict[str, type[Rejected]] = {
    kind.code: kind for kind in (DocumentUnparsable, TextUndecodable, DocumentTooLarge, LoaderLimitReached)
}
"""What a loader may say of a document."""


def framed(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload


def encoded(loaded: LoadedText) -> bytes:
    return _json(
        {
            "text": loaded.text,
            "media_type": loaded.media_type,
            "title": loaded.title,
            "language": loaded.language,
            "headings": [(heading.start, heading.level, heading.title) for heading in loaded.headings],
            "pages": [(page.start, page.page) for page in loaded.pages],
            "blocks": [(block.start, block.end, block.kind.value) for block in loaded.blocks],
            "metadata": loaded.metadata,
            "faults": [(fault.code, fault.message) for fault in loaded.faults],
        }
    )


def rejected(error: Rejected) -> bytes:
    return _json(
        {"rejected": error.code, "message": error.message, "context": {key: _plain(value) for key, value in error.context.items()}}
    )


def broken(error: BaseException, trace: str) -> bytes:
    return _json({"broken": type(error).__name__, "trace": trace})


def decoded(payload: bytes) -> LoadedText:
    """Raises the child's rejection, or ChildBroke for an exception that nobody foresaw."""
    answer = json.loads(payload)
    if "rejected" in answer:
        kind = REJECTIONS.get(answer["rejected"], DocumentUnparsable)
        raise kind(answer["message"], **answer["context"])
    if "broken" in answer:
        raise ChildBroke(answer["broken"], answer["trace"])
    return LoadedText(
        answer["text"],
        answer["media_type"],
        title=answer["title"],
        language=answer["language"],
        headings=tuple(Heading(*parts) for parts in answer["headings"]),
        pages=tuple(PageStart(*parts) for parts in answer["pages"]),
        blocks=tuple(Block(start, end, BlockKind(kind)) for start, end, kind in answer["blocks"]),
        metadata=answer["metadata"],
        faults=tuple(Fault(*parts) for parts in answer["faults"]),
    )


class ChildBroke(Exception):
    """An exception inside of a loader that is no rejection: a fault of ours. Its trace goes to the log."""

    def __init__(self, kind: str, trace: str) -> None:
        super().__init__(kind)
        self.kind = kind
        self.trace = trace


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _plain(value: object) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
