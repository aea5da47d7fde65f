"""`hashing`: signed feature hashing (Weinberger et al. 2009) of words, their trigrams, and CJK characters and bigrams.

Deterministic in bits on every machine and in every batch: features are counted in integers before anything is rounded.
For tests and for indexing without a model; it knows no synonyms. A change that changes a vector raises HASHING_MODEL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from indexer.embedding.spaces import HASHING_DIMENSIONS, prepared, prepared_query
from store.model import Space

GROUP_CHARS_MAX = 12_000
"""Characters hashed at a time, so that the arrays stay in the processor's cache. A longer text is a group of its own."""

WORD_WEIGHT = 3

_Counts = npt.NDArray[np.int64]
_Points = npt.NDArray[np.uint64]

_SEPARATOR, _WORD, _CJK = 0, 1, 2
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_SLOTS = 2 * HASHING_DIMENSIONS


class HashingEmbedder:
    """Implements Embedder; needs no service and never raises."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.calls = 0
        self.tokens = 0

    def prepare(self, text: str) -> str:
        return prepared(self.space, text)

    def embed_documents(self, texts: Sequence[str]) -> list[bytes]:
        if not texts:
            return []
        self.calls += 1
        return [vector or b"" for vector in embed([prepared(self.space, text) for text in texts])]

    def embed_query(self, text: str) -> bytes:
        self.calls += 1
        return embed([prepared_query(self.space, text)])[0] or bytes(4 * HASHING_DIMENSIONS)

    def close(self) -> None:
        pass


def embed(texts: Sequence[str]) -> list[bytes]:
    """A unit vector of HASHING_DIMENSIONS float32 a text; `b""` for one without a letter, digit or ideograph."""
    return [vector for group in _groups(texts) for vector in _embed_group(group)]


def _groups(texts: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    chars = 0
    for text in texts:
        if group and chars + len(text) > GROUP_CHARS_MAX:
            yield group
            group, chars = [], 0
        group.append(text)
        chars += len(text) + 2
    if group:
        yield group


def _embed_group(texts: list[str]) -> list[bytes]:
    lowered = [text.lower() for text in texts]
    joined = "\n" + "\n\n".join(lowered) + "\n"
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kinds(points)
    rows = np.repeat(np.arange(len(texts)), [len(text) + 2 for text in lowered])
    letters = np.where(kinds == _SEPARATOR, 0, points).astype(np.uint64)
    counts = _trigrams(letters, kinds, rows, len(texts))
    counts += WORD_WEIGHT * _words(letters, kinds, rows, len(texts))
    if (kinds == _CJK).any():
        counts += _ideographs(letters, kinds, rows, len(texts))
    return _unit_vectors(counts)


def _trigrams(letters: _Points, kinds: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], texts: int) -> _Counts:
    """Three code points around each letter of a word; the edge of the word counts as one."""
    middles = np.flatnonzero(kinds[1:-1] == _WORD) + 1
    hashes = (letters[:-2] * _BASE + letters[1:-1]) * _BASE + letters[2:]
    return _count(hashes[middles - 1], rows[middles], texts)


def _words(letters: _Points, kinds: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], texts: int) -> _Counts:
    """Whole words, by a polynomial over the code points modulo 2**64: a difference of prefix sums, moved to the power 0."""
    is_word = (kinds == _WORD).view(np.int8)
    edges = np.diff(is_word)
    starts, ends = np.flatnonzero(edges == 1) + 1, np.flatnonzero(edges == -1) + 1
    powers, inverses = _powers(1 << max(16, (len(letters) - 1).bit_length()))
    sums = np.cumsum(letters * powers[: len(letters)])
    hashes = (sums[ends - 1] - sums[starts - 1]) * inverses[starts]
    return _count(hashes ^ _MIX, rows[starts], texts)


def _ideographs(letters: _Points, kinds: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], texts: int) -> _Counts:
    """Chinese, Japanese and Korean have no spaces: single characters, and pairs of neighbours."""
    is_cjk = kinds == _CJK
    singles = np.flatnonzero(is_cjk)
    pairs = np.flatnonzero(is_cjk[:-1] & is_cjk[1:])
    counts = _count(letters[singles] * _MIX, rows[singles], texts)
    counts += _count(letters[pairs] * _BASE + letters[pairs + 1], rows[pairs], texts)
    return counts


def _count(hashes: _Points, rows: npt.NDArray[np.int64], texts: int) -> _Counts:
    """Signed counts, (texts, dimensions): eight bits of each mixed hash choose the dimension, a ninth the sign."""
    mixed = (hashes ^ (hashes >> np.uint64(32))) * _MIX
    slots = (mixed >> np.uint64(55)).astype(np.int64)
    counted = np.bincount(rows * _SLOTS + slots, minlength=texts * _SLOTS).reshape(texts, HASHING_DIMENSIONS, 2)
    return counted[:, :, 0] - counted[:, :, 1]


def _unit_vectors(counts: _Counts) -> list[bytes]:
    """Square roots of the counts, so that a word said ten times does not drown the others, then unit length."""
    damped = np.copysign(np.sqrt(np.abs(counts)), counts)
    squares = np.abs(counts).sum(axis=1)
    norms = np.sqrt(np.maximum(squares, 1))
    vectors = (damped / norms[:, None]).astype("<f4")
    return [vector.tobytes() if square else b"" for vector, square in zip(vectors, squares.tolist(), strict=True)]


def _kinds(points: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    kinds = _kind_table()[np.minimum(points, 0xFFFF)]
    if points.max() > 0xFFFF:
        kinds[points > 0xFFFF] = _WORD
        kinds[(points >= 0x20000) & (points <= 0x3FFFF)] = _CJK
    return kinds


_SEPARATORS = ((0x00, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0xA9), (0xAB, 0xB4), (0xB6, 0xB9), (0xBB, 0xBF), (0x2000, 0x206F),
               (0x2190, 0x23FF), (0x2500, 0x27BF), (0x3000, 0x3004), (0x3008, 0x3020), (0x3030, 0x3030), (0xFE30, 0xFE6F),
               (0xFF00, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF65), (0xFFF0, 0xFFFF))  # fmt: skip
_IDEOGRAPHS = ((0x1100, 0x11FF), (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x302F), (0x3031, 0x31FF), (0x3400, 0x4DBF),
               (0x4E00, 0x9FFF), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0xFF66, 0xFFDC))  # fmt: skip


@cache
def _kind_table() -> npt.NDArray[np.uint8]:
    """What each code point of the basic plane is. Our own ranges, so that a newer Unicode table changes no vector."""
    table = np.full(0x10000, _WORD, dtype=np.uint8)
    for first, last in _SEPARATORS:
        table[first : last + 1] = _SEPARATOR
    for first, last in _IDEOGRAPHS:
        table[first : last + 1] = _CJK
    return table


@cache
def _powers(length: int) -> tuple[_Points, _Points]:
    """The powers of the base and of its inverse modulo 2**64."""
    inverse = np.uint64(pow(int(_BASE), -1, 1 << 64))
    return _powers_of(_BASE, length), _powers_of(inverse, length)


def _powers_of(base: np.uint64, length: int) -> _Points:
    factors = np.full(length, base, dtype=np.uint64)
    factors[0] = 1
    return np.cumprod(factors)
