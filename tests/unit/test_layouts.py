"""Laws of the layout's bytes: they read back equal, stay small, and damage is told."""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.catalog.layouts import decode_layout, encode_layout
from store.model import ChunkId, Layout, Placement

words = st.text('ab "\\\n\0é漢😀\ud800', max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
metadata = st.dictionaries(words, json_values, max_size=3)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    start = draw(st.integers(0, 2**40))
    length = draw(st.integers(0, 2**30))
    return Placement(ChunkId(draw(st.binary(min_size=16, max_size=16))), start, start + length, draw(metadata))


layouts = st.builds(lambda several: Layout(tuple(several)), st.lists(placements(), max_size=12))


def document_layout(chunks: int, seed: int = 7) -> Layout:
    """A plausible document: chunks of about 900 characters one after another, a heading every fourth."""
    draw = random.Random(seed)
    start, several = 0, []
    for ordinal in range(chunks):
        end = start + draw.randint(500, 1200)
        heading = {"headings": ["Operations guide", f"Section {ordinal // 4}: restoring a backup"]}
        several.append(Placement(ChunkId(draw.randbytes(16)), start, end, heading))
        start = end + 2
    return Layout(tuple(several))


@given(layouts)
def test_a_layout_reads_back_equal(layout: Layout) -> None:
    assert decode_layout(encode_layout(layout)) == layout


def test_a_layout_of_thousands_of_overlapping_chunks_reads_back_equal() -> None:
    layout = document_layout(3000)
    assert decode_layout(encode_layout(layout)) == layout


@pytest.mark.parametrize("chunks", [40, 1000])
def test_a_typical_chunk_takes_at_most_24_bytes(chunks: int) -> None:
    assert len(encode_layout(document_layout(chunks))) / chunks <= 24


def test_every_flipped_bit_is_told() -> None:
    encoded = encode_layout(document_layout(5))
    for position in range(len(encoded)):
        for bit in range(8):
            damaged = bytearray(encoded)
            damaged[position] ^= 1 << bit
            with pytest.raises(ValueError, match="layout"):
                decode_layout(bytes(damaged))


def test_every_cut_is_told() -> None:
    encoded = encode_layout(document_layout(5))
    for length in range(len(encoded)):
        with pytest.raises(ValueError, match="layout"):
            decode_layout(encoded[:length])


@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_raise_anything_but_a_value_error(payload: bytes, checked: bool) -> None:
    framed = bytes([1]) + zlib.crc32(payload).to_bytes(4, "little") + payload if checked else payload
    try:
        decode_layout(framed)
    except ValueError:
        return
