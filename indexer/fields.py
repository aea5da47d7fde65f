"""Declared metadata: which keys have a type or a closed list of values, and whether a document's own keep to it. Pure.

The shared vocabulary is declared everywhere; a collection may declare more. Keys that nobody declared are free.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from store.errors import MetadataRejected
from store.model import Fault, Metadata


class FieldKind(StrEnum):
    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    """`2026-12-01` or RFC 3339 with an offset."""
    STRINGS = "strings"
    """A list of strings; one string alone is one of them."""


@dataclass(frozen=True, slots=True)
class DeclaredField:
    name: str
    kind: FieldKind
    values: tuple[str, ...] = ()
    """The only ones allowed; empty: any."""
    required: bool = False


class FieldTableLike(Protocol):
    """What the configuration's table of a field looks like from here."""

    @property
    def type(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...
    @property
    def required(self) -> bool: ...


Fields = Mapping[str, DeclaredField]

SHARED_FIELDS: Fields = {
    declared.name: declared
    for declared in (
        DeclaredField("section", FieldKind.STRING),
        DeclaredField("type", FieldKind.STRING),
        DeclaredField("doc_version", FieldKind.STRING),
        DeclaredField("effective_from", FieldKind.DATE),
        DeclaredField("effective_until", FieldKind.DATE),
        DeclaredField("priority", FieldKind.NUMBER),
        DeclaredField("series", FieldKind.STRING),
    )
}
"""Of the shared vocabulary, what is not every hit's by itself. `authority` may be a number or a name."""
_ARTICLES = {
    FieldKind.STRING: "a string",
    FieldKind.NUMBER: "a number",
    FieldKind.BOOLEAN: "true or false",
    FieldKind.DATE: "a date such as 2026-12-01 or 2026-12-01T10:00:00Z",
    FieldKind.STRINGS: "a list of strings",
}


def declared_fields(tables: Mapping[str, FieldTableLike]) -> Fields:
    """The shared fields with those of a collection's table over them."""
    return {**SHARED_FIELDS, **own_fields(tables)}


def fields_json(fields: Fields) -> dict[str, dict[str, Any]]:
    return {name: {"type": one.kind.value, "values": list(one.values), "required": one.required} for name, one in sorted(fields.items())}


def check_fields(metadata: Metadata, fields: Fields, *, whole: bool = True) -> None:
    """Raises MetadataRejected with the key, what is expected and the nearest allowed value. `whole`: required ones must be there."""
    for key, value in metadata.items():
        if key in fields and value is not None and (reason := misfit(fields[key], value)):
            raise MetadataRejected(reason=f"{key!r} {reason}")
    missing = sorted(name for name, declared in fields.items() if whole and declared.required and metadata.get(name) is None)
    if missing:
        raise MetadataRejected(reason=f"it lacks {', '.join(map(repr, missing))}, which the collection requires")


def check_patch_fields(patch: Metadata | None, fields: Fields) -> None:
    """The same for a merge patch, which may take no required key away. Raises MetadataRejected."""
    check_fields(patch or {}, fields, whole=False)
    required = sorted(name for name, declared in fields.items() if declared.required)
    taken = [name for name in required if patch is None or (name in patch and patch[name] is None)]
    if taken:
        raise MetadataRejected(reason=f"it would lack {', '.join(map(repr, taken))}, which the collection requires")


def fitting(metadata: Metadata, fields: Fields) -> tuple[Metadata, tuple[Fault, ...]]:
    """What of a document's own metadata keeps to the declarations, and a fault for each key that does not. A file has nobody to refuse."""
    reasons = {
        key: reason for key, value in metadata.items() if key in fields and value is not None and (reason := misfit(fields[key], value))
    }
    kept = {key: value for key, value in metadata.items() if key not in reasons}
    return kept, tuple(Fault("metadata_misfit", f"The metadata {key[:80]!r} is left out: it {reason}.") for key, reason in reasons.items())


def own_fields(tables: Mapping[str, FieldTableLike]) -> Fields:
    """What a collection itself declares: a file's front matter is held to that alone."""
    return {name: DeclaredField(name, FieldKind(table.type), tuple(table.values), table.required) for name, table in tables.items()}


def misfit(declared: DeclaredField, value: Any) -> str | None:
    """Why a value does not keep to its declaration, for a sentence that begins with the key; None: it does."""
    parts = value if declared.kind is FieldKind.STRINGS and isinstance(value, list) else [value]
    if not all(_fits(declared.kind, part) for part in parts):
        return f"must be {_ARTICLES[declared.kind]}, not {_shown(value)}"
    if declared.values:
        for part in parts:
            spelled = part if isinstance(part, str) else str(part)
            if spelled not in declared.values:
                near = difflib.get_close_matches(spelled, declared.values, n=1, cutoff=0.0)[0]
                return f"must be one of {_listed(declared.values)}, not {_shown(part)}; did you mean {near!r}?"
    return None


_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d))?", re.ASCII)


def _fits(kind: FieldKind, value: Any) -> bool:
    match kind:
        case FieldKind.STRING | FieldKind.STRINGS:
            return isinstance(value, str)
        case FieldKind.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case FieldKind.BOOLEAN:
            return isinstance(value, bool)
        case FieldKind.DATE:
            return isinstance(value, str) and _is_date(value)


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def _listed(values: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, values[:8]))
    return shown if len(values) <= 8 else f"{shown} and {len(values) - 8} more"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
