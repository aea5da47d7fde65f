"""A layout as bytes: versioned, checked, about 20 bytes a chunk. Pure.

Format 1: version (1 byte), CRC-32 of what follows (4), count (varint), ids (16 each), then a tail that is deflated when that
makes it shorter (1 byte says so): starts as zigzag varint differences, lengths and metadata numbers as varints, and the
distinct metadata as one JSON list.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator

from store.model import ChunkId, Layout, Metadata, Placement

FORMAT = 1
ID_BYTES = 16
TAIL_BYTES_MAX = 256 * 1024 * 1024
"""More than any document's; a damaged tail that claims more is refused before it is inflated."""
WINDOW_BITS = 12
"""A tail is short: a small window costs a ninth of the time and decodes the same."""
_PLAIN, _DEFLATED = 0, 1


def encode_layout(layout: Layout) -> bytes:
    """Returns `layout` as bytes that `decode_layout` reads back equal."""
    placements = layout.placements
    tail = _encode_tail(placements)
    compressor = zlib.compressobj(6, zlib.DEFLATED, WINDOW_BITS, 5)
    deflated = compressor.compress(tail) + compressor.flush()
    packed = bytes([_DEFLATED]) + deflated if len(deflated) < len(tail) else bytes([_PLAIN]) + tail
    payload = _varints([len(placements)]) + b"".join(placement.chunk_id for placement in placements) + packed
    return bytes([FORMAT]) + zlib.crc32(payload).to_bytes(4, "little") + payload


def decode_layout(encoded: bytes) -> Layout:
    """Returns the layout. Raises ValueError when the bytes are damaged or of a format not known here."""
    if len(encoded) < 6:
        raise ValueError("a layout is shorter than its header")
    if encoded[0] != FORMAT:
        raise ValueError(f"a layout has format {encoded[0]}; known is {FORMAT}")
    payload = encoded[5:]
    if zlib.crc32(payload) != int.from_bytes(encoded[1:5], "little"):
        raise ValueError("a layout's checksum is wrong")
    try:
        return _decode_payload(payload)
    except (IndexError, KeyError, TypeError, UnicodeDecodeError, zlib.error) as error:
        raise ValueError("a layout's bytes contradict themselves") from error


def _encode_tail(placements: Iterable[Placement]) -> bytes:
    numbers: dict[str, int] = {}
    distinct: list[str] = []
    starts: list[int] = []
    lengths: list[int] = []
    of_metadata: list[int] = []
    before = 0
    for placement in placements:
        starts.append(_zigzag(placement.start - before))
        lengths.append(placement.end - placement.start)
        before = placement.start
        metadata = json.dumps(placement.metadata, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        if metadata not in numbers:
            numbers[metadata] = len(distinct)
            distinct.append(metadata)
        of_metadata.append(numbers[metadata])
    table = "[" + ",".join(distinct) + "]"
    return _varints(starts) + _varints(lengths) + _varints(of_metadata) + table.encode("utf-8", "surrogatepass")


def _decode_payload(payload: bytes) -> Layout:
    count, at = _read_varint(payload, 0)
    ids_end = at + ID_BYTES * count
    flag, tail = payload[ids_end], payload[ids_end + 1 :]
    if flag == _DEFLATED:
        tail = _inflate(tail)
    elif flag != _PLAIN:
        raise ValueError("a layout's tail is packed in an unknown way")
    numbers, table_at = _read_varints(tail, 3 * count)
    table: list[Metadata] = json.loads(tail[table_at:].decode("utf-8", "surrogatepass"))
    ids = (ChunkId(payload[start : start + ID_BYTES]) for start in range(at, ids_end, ID_BYTES))
    return Layout(tuple(_placements(ids, numbers, count, table)))


def _placements(ids: Iterator[ChunkId], numbers: list[int], count: int, table: list[Metadata]) -> Iterator[Placement]:
    start = 0
    for position, chunk_id in enumerate(ids):
        start += _unzigzag(numbers[position])
        length = numbers[count + position]
        yield Placement(chunk_id, start, start + length, dict(table[numbers[2 * count + position]]))


def _inflate(deflated: bytes) -> bytes:
    inflater = zlib.decompressobj()
    tail = inflater.decompress(deflated, TAIL_BYTES_MAX)
    if not inflater.eof or inflater.unused_data:
        raise ValueError("a layout's tail is cut off or too long")
    return tail


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unzigzag(number: int) -> int:
    return number >> 1 if number & 1 == 0 else -((number + 1) >> 1)


def _varints(numbers: Iterable[int]) -> bytes:
    encoded = bytearray()
    for number in numbers:
        rest = number
        while rest >= 0x80:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        encoded.append(rest)
    return bytes(encoded)


def _read_varint(encoded: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = encoded[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _read_varints(encoded: bytes, count: int) -> tuple[list[int], int]:
    numbers: list[int] = []
    at = 0
    for _ in range(count):
        number, at = _read_varint(encoded, at)
        numbers.append(number)
    return numbers, at
