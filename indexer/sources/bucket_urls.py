"""What a bucket is called: `s3://bucket/prefix`, `file:///folder`, `memory://bucket`. Pure, and no driver is imported.

A URL never holds a secret: it is shown and stored. Credentials come by the driver's own environment or `indexer.buckets.options`.
"""

from __future__ import annotations

import posixpath
import re

from store.errors import Misuse

PROTOCOLS = ("s3", "gs", "az", "file", "memory")
_ALIASES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "local": "file"}
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>.*)", re.DOTALL)


def is_url(given: str) -> bool:
    return _URL.fullmatch(given) is not None


def normal_url(given: str) -> str:
    """The one spelling of a bucket's URL. Raises Misuse: an unknown scheme, no bucket, credentials in it, a prefix that is no path."""
    found = _URL.fullmatch(given)
    scheme = found["scheme"].lower() if found else ""
    protocol = _ALIASES.get(scheme, scheme)
    if found is None or protocol not in PROTOCOLS:
        raise Misuse(f"{scheme}:// is no bucket that can be read; known are {', '.join(f'{name}://' for name in PROTOCOLS)}.")
    place = found["place"]
    if "@" in place.partition("/")[0]:
        raise Misuse(f"A bucket's URL holds no credentials: give them by environment, and the bucket as {protocol}://bucket/prefix.")
    if protocol == "file":
        if not place.startswith("/"):
            raise Misuse("A file:// URL is absolute: file:///folder.")
        return "file://" + posixpath.normpath(place).replace("//", "/", 1)
    segments = place.rstrip("/").split("/")
    if protocol == "memory" and segments[0] == "":
        segments = segments[1:]
    if not segments or any(segment in ("", ".", "..") or "\0" in segment for segment in segments):
        raise Misuse(f"{given} names no bucket: give it as {protocol}://bucket/prefix.")
    return f"{protocol}://{'/'.join(segments)}"


def protocol_of(url: str) -> str:
    return url.partition("://")[0]


def place_below(root_url: str, url: str) -> str | None:
    """The path of `url` below the bucket `root_url`, both normal; "" for the bucket itself, None outside of it."""
    if url == root_url:
        return ""
    inside = url.removeprefix(root_url.rstrip("/") + "/")
    return None if inside == url else inside
