"""What a request says of a document beside its bytes, checked: its own metadata and permissions. Pure.

A request that says too much or something unfit is refused as a whole: unlike a file, it has somebody to tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from indexer.load.decode import clean
from store.catalog.visible import FILTERABLE_ALWAYS, OWN_KEY_PREFIX, patched_metadata
from store.errors import EvercurrentError, MetadataRejected, Misuse
from store.model import Metadata

DEPTH_MAX = 8
KEY_BYTES_MAX = 256
NUMBER_BITS_MAX = 64
ACL_ENTRIES_MAX = 1000
PRINCIPAL_BYTES_MAX = 256
HEADER_BYTES_MAX = 48 * 1024
"""Of one header; 16 KiB of metadata fit, however they are escaped into ASCII."""


class AclRejected(Misuse):
    code = "acl_rejected"
    sentence = 'The ACL is not acceptable: {reason}. It is a JSON list of principals, such as ["user:ada", "group:staff"] or ["*"].'


def metadata_of_header(header: str) -> Metadata:
    """Metadata as ASCII JSON. Raises MetadataRejected."""
    return checked_metadata(_json_of(header, lambda reason: MetadataRejected(reason=reason)))


def acl_of_header(header: str) -> tuple[str, ...]:
    """Permissions as a JSON list. Raises AclRejected."""
    return checked_acl(_json_of(header, lambda reason: AclRejected(reason=reason)))


def _json_of(header: str, refusal: Callable[[str], EvercurrentError]) -> Any:
    if len(header) > HEADER_BYTES_MAX:
        raise refusal(f"the header is longer than {HEADER_BYTES_MAX} bytes")
    if not header.isascii():
        raise refusal("the header is not ASCII; escape other characters as JSON does (\\u00e9)")
    try:
        return json.loads(header, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise refusal("the header is not JSON") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def checked_metadata(value: object) -> Metadata:
    """The value as a document's own metadata, within the limits; keys that every hit has by itself get the prefix `doc_`.

    Raises MetadataRejected.
    """
    return patched_metadata({}, checked_patch(value))


def checked_patch(value: object) -> Metadata:
    """The value as a merge patch of metadata: limits are for whoever merges it. Raises MetadataRejected."""
    if not isinstance(value, Mapping):
        raise MetadataRejected(reason="it is not a JSON object")
    checked = _checked_object(value, DEPTH_MAX)
    renamed = {OWN_KEY_PREFIX + key if key in FILTERABLE_ALWAYS else key: part for key, part in checked.items()}
    if len(renamed) < len(checked):
        raise MetadataRejected(reason="two of its keys have one name")
    return renamed


def _checked(value: object, depth: int) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return clean(value)
        case int() if value.bit_length() <= NUMBER_BITS_MAX:
            return value
        case float() if math.isfinite(value):
            return value
        case list() if depth > 0:
            return [_checked(part, depth - 1) for part in value]
        case Mapping() if depth > 0:
            return _checked_object(value, depth - 1)
        case int() | float():
            raise MetadataRejected(reason="a number is beyond all bounds")
        case _:
            raise MetadataRejected(reason=f"it is nested more than {DEPTH_MAX} deep")


def _checked_object(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for key, part in value.items():
        name = clean(str(key)).strip()
        if not name or len(name.encode()) > KEY_BYTES_MAX:
            raise MetadataRejected(reason=f"a key is empty or longer than {KEY_BYTES_MAX} bytes")
        checked[name] = _checked(part, depth)
    return checked


def checked_acl(value: object) -> tuple[str, ...]:
    """The value as permissions: each principal once, in order. Raises AclRejected."""
    if not isinstance(value, list):
        raise AclRejected(reason="it is not a list")
    if len(value) > ACL_ENTRIES_MAX:
        raise AclRejected(reason=f"it has more than {ACL_ENTRIES_MAX} entries")
    for entry in value:
        if not isinstance(entry, str) or not entry.strip() or entry != clean(entry).strip():
            raise AclRejected(reason="an entry is not a name")
        if len(entry.encode()) > PRINCIPAL_BYTES_MAX:
            raise AclRejected(reason=f"an entry is longer than {PRINCIPAL_BYTES_MAX} bytes")
    return tuple(dict.fromkeys(value))


def refuse_repeated(metadata: Metadata, text: str) -> None:
    """Raises MetadataRejected when a value is the document's text: it would be kept twice, and returned as what it is not."""
    whole = text.strip()
    for key, value in metadata.items():
        if isinstance(value, str) and whole and value.strip() == whole:
            raise MetadataRejected(reason=f"the value of {key[:80]!r} repeats the document's text")
