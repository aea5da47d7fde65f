"""Which loader reads which document, and the one door to all of them. Importing this imports no format library.

`claims` runs for every file of every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType

from indexer.load.detect import detect, type_of_name
from indexer.load.formats import BY_TYPE
from store.errors import DocumentUnparsable
from store.model import LoadedText

Load = Callable[[bytes, str], LoadedText]
LoadAny = Callable[[str, bytes, str | None], LoadedText]
"""`load`, or a sandbox's door to it: (uri, content, declared media type) to text."""

LOADER_VERSIONS: Mapping[str, int] = MappingProxyType(
    {
        "asciidoc": 1,
        "docx": 1,
        "eml": 1,
        "epub": 1,
        "feed": 1,
        "html": 2,
        "ipynb": 1,
        "json_text": 1,
        "markdown": 1,
        "pdf": 1,
        "pptx": 1,
        "rst": 1,
        "text": 1,
        "xls": 1,
        "xlsx": 1,
    }
)
"""By a loader's module. Rises with every change that yields another text, marks or metadata for the same bytes: part of the recipe."""


def media_type_of(uri: str) -> str | None:
    """The media type that a loader reads this uri as, by its name; None when no loader claims it."""
    return type_of_name(uri)


def claims(uri: str) -> bool:
    return type_of_name(uri) is not None


def load(uri: str, content: bytes, media_type: str | None = None) -> LoadedText:
    """Returns the text of a document with its marks. Deterministic; raises only kinds of Rejected.

    `media_type` is what its sender declared or the intake found; the bytes themselves go first.
    """
    found = media_type_to_load(uri, content, media_type)
    return loader_of(found)(content, found)


def media_type_to_load(uri: str, content: bytes, media_type: str | None = None) -> str:
    """Raises DocumentUnparsable when no loader reads it."""
    found = detect(uri, content, media_type)
    if found is None:
        raise DocumentUnparsable(media_type="an unknown type", reason="no loader claims this type")
    return found


@lru_cache(maxsize=64)
def loader_of(media_type: str) -> Load:
    """The loader's function; its module is imported now."""
    module, _, function = BY_TYPE[media_type].loader.partition(":")
    found: Load = getattr(import_module(module), function)
    return found
