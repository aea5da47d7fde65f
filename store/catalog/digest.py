"""Checksums of stored bytes: store's only door to xxhash."""

from __future__ import annotations

import xxhash

from store.model import TextHash


def vector_digest(vector: bytes) -> int:
    """xxh3-64 as a signed 64-bit integer, which is what SQL databases store."""
    unsigned = xxhash.xxh3_64_intdigest(vector)
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned


def text_digest(text: str) -> TextHash:
    """xxh3-128 of the text's UTF-8: what a chunk's text hash must be."""
    return TextHash(xxhash.xxh3_128_digest(text.encode("utf-8")))
