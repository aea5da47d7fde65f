"""Where documents come from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from store.model.names import CollectionId, RootName


class SourceKind(StrEnum):
    FOLDER = "folder"
    FILE = "file"
    UPLOADS = "uploads"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class Root:
    """A named place documents come from. The first root of a collection has the prefix `""`, a further one `NAME/`."""

    home: CollectionId
    name: RootName
    kind: SourceKind
    path: str
    """Absolute path of the folder or file; undecodable bytes as surrogate escapes."""
    prefix: str
    device: int | None = None
    """Device the root stood on when last seen; another one means an unmounted or swapped volume."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What stat says of a file. Equal signatures prove equal bytes only if the recorded one was `proven`."""

    bytes: int
    mtime_ns: int
    inode: int
    device: int


class Cause(StrEnum):
    CREATED = "created"
    MODIFIED = "modified"
    MOVED = "moved"
    UPLOADED = "uploaded"
    RETRIED = "retried"
    DELETED = "deleted"
    RECUT = "recut"


class Urgency(IntEnum):
    URGENT = 0
    FRESH = 1
    BULK = 2
