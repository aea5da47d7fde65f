"""A document's own metadata, brought into the shared vocabulary: JSON values only, reserved names prefixed, limits kept.

What does not fit is dropped and said in a fault: a document's text is worth more than its odd keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from indexer.load.decode import clean
from store.model import Fault, Metadata

KEYS_MAX = 64
METADATA_BYTES_MAX = 16 * 1024
_DEPTH_MAX = 8
_NUMBER_BITS_MAX = 1024
"""Python writes no whole number of more than 4,300 digits, and nobody means one."""
RESERVED = frozenset({"document", "source", "title", "media_type", "headings", "page", "language", "version", "indexed_at"})
"""Names that every hit has by itself; a document's own key of such a name is stored with the prefix `doc_`."""


@dataclass(frozen=True, slots=True)
class OwnMetadata:
    title: str | None
    language: str | None
    metadata: Metadata
    faults: tuple[Fault, ...]


class _Unfit(ValueError):
    pass


def own_metadata(raw: Mapping[Any, Any], text: str) -> OwnMetadata:
    """Returns what a document says of itself: `title` and `language` (or `lang`) by themselves, the rest as metadata.

    Dates and times become ISO strings. Dropped, each with a fault: values that JSON does not know, a value that repeats `text`,
    and, in the order of the document, what exceeds 64 keys or 16 KiB.
    """
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    for key, value in raw.items():
        name = _name(key)
        try:
            values[name] = _json_value(value)
        except _Unfit as unfit:
            faults.append(_dropped(name, str(unfit)))
    title, language = _taken(values, "title"), _taken(values, "language") or _taken(values, "lang")
    for name in RESERVED & values.keys():
        value = values.pop(name)
        values.setdefault(f"doc_{name}", value)
    ordered = {name: values[name] for name in _order(raw, values)}
    return OwnMetadata(title, language, _within_limits(ordered, text, faults), tuple(faults))


def _order(raw: Mapping[Any, Any], values: dict[str, Any]) -> list[str]:
    names = [_name(key) for key in raw]
    places = {f"doc_{name}" if name in RESERVED else name: place for place, name in reversed(list(enumerate(names)))}
    return sorted(values, key=lambda name: places.get(name, len(names)))


def _taken(values: dict[str, Any], name: str) -> str | None:
    """Takes `name` out of `values` when it can stand for itself: a text or a number."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        return None
    del values[name]
    return " ".join(str(value).split())


def _within_limits(values: dict[str, Any], text: str, faults: list[Fault]) -> Metadata:
    kept: dict[str, Any] = {}
    room = METADATA_BYTES_MAX - 2
    for name, value in values.items():
        entry_bytes = len(json.dumps({name: value}, ensure_ascii=False).encode())
        if len(kept) == KEYS_MAX:
            faults.append(_dropped(name, f"more than {KEYS_MAX} keys"))
        elif entry_bytes > room:
            faults.append(_dropped(name, f"more than {METADATA_BYTES_MAX} bytes of metadata"))
        elif isinstance(value, str) and value.strip() and value.strip() == text.strip():
            faults.append(_dropped(name, "it repeats the document's text"))
        else:
            kept[name] = value
            room -= entry_bytes
    return kept


def _name(key: object) -> str:
    return clean(_spelled(key) if isinstance(key, int) else str(key)).strip()


def _spelled(value: object) -> str:
    """`repr`, for a number of any length."""
    is_long = isinstance(value, int) and value.bit_length() > _NUMBER_BITS_MAX
    return "a number beyond all bounds" if is_long else repr(value)


def _dropped(name: str, reason: str) -> Fault:
    return Fault("metadata_dropped", f"The metadata {name[:80]!r} is left out: {reason}.")


def _json_value(value: object) -> Any:
    return _Conversion().convert(value, _DEPTH_MAX)


class _Conversion:
    """One value on its way to JSON. Parts are counted: aliases can make a short YAML text stand for millions of them."""

    def __init__(self) -> None:
        self._parts = 0

    def convert(self, value: object, depth: int) -> Any:
        self._parts += 1
        if depth == 0 or self._parts > METADATA_BYTES_MAX:
            raise _Unfit("it is nested too deeply or has too many parts")
        match value:
            case None | bool():
                return value
            case int():
                if value.bit_length() > _NUMBER_BITS_MAX:
                    raise _Unfit("it is a number beyond all bounds")
                return value
            case str():
                return clean(value)
            case float():
                if not math.isfinite(value):
                    raise _Unfit("it is not a finite number")
                return value
            case datetime() | date() | time():
                return value.isoformat()
            case set() | frozenset():
                return [self.convert(part, depth - 1) for part in sorted(value, key=_spelled)]
            case list() | tuple():
                return [self.convert(part, depth - 1) for part in value]
            case dict():
                return {
                    clean(_spelled(key) if isinstance(key, int) else str(key)): self.convert(part, depth - 1) for key, part in value.items()
                }
            case _:
                raise _Unfit(f"its type {type(value).__name__} has no JSON form")
