"""Text becomes search terms here, the same way for rows and for queries: that equality is what makes a word findable.

Words are lower-cased, NFKC-normalised and accent-folded; a compound identifier (snake_case, kebab-case, dotted, camelCase) yields its
parts and itself; runs of Han, kana and hangul become character bigrams. Stemming is not done here: the engine stems what it is given.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

ANALYSIS_VERSION = 1
"""Raised whenever the terms of some text change: an index of another version is rebuilt."""

TERM_CHARS_MAX = 64
"""A longer word is cut to this, in rows and queries alike, so it stays findable."""

_CJK_RANGES = (
    ("\u1100", "\u11ff"),  # Hangul letters
    ("\u3005", "\u3007"),  # ideographic iteration and zero
    ("\u3041", "\u309f"),  # Hiragana
    ("\u30a1", "\u30fa"),  # Katakana, without its dot
    ("\u30fc", "\u30ff"),
    ("\u31f0", "\u31ff"),
    ("\u3400", "\u4dbf"),  # Han, with extensions and compatibility forms
    ("\u4e00", "\u9fff"),
    ("\uac00", "\ud7af"),  # Hangul syllables
    ("\uf900", "\ufaff"),
    ("\U00020000", "\U0003ffff"),
)
_CJK = "".join(f"{first}-{last}" for first, last in _CJK_RANGES)
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_WORD = rf"(?:(?![{_CJK}])[^\W_])+"
_RUN = re.compile(rf"[{_CJK}]+|{_WORD}(?:[-._]+{_WORD})*")
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+(?:[-._]+[A-Za-z0-9]+)*")
_PART = re.compile(r"[-._]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_POSSESSIVE = re.compile(r"(?<=\w)['’][sS]\b")
_ACCENT = re.compile("[\u0300-\u036f]")
_UNDECOMPOSED = str.maketrans(
    {"ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"}
)


@dataclass(frozen=True, slots=True)
class Terms:
    words: tuple[str, ...]
    """Words, identifier parts and CJK bigrams, in order, repeated as they occur."""
    singles: tuple[str, ...]
    """CJK characters by themselves: every one of a row's; of a query's those that stand alone."""


def row_terms(text: str) -> Terms:
    """The terms that a row is found by."""
    words: list[str] = []
    singles: list[str] = []
    for run in _runs(text):
        if _CJK_CHARACTER.match(run):
            words += _bigrams(run)
            singles += run
        else:
            words += _word_terms(run)
    return Terms(tuple(words), tuple(singles))


def query_terms(text: str) -> Terms:
    """The terms that a query asks for: as a row's, but a CJK character is asked for only where it stands alone."""
    words: list[str] = []
    singles: list[str] = []
    for run in _runs(text):
        if not _CJK_CHARACTER.match(run):
            words += _word_terms(run)
        elif len(run) == 1:
            singles.append(run)
        else:
            words += _bigrams(run)
    return Terms(tuple(words), tuple(singles))


def _runs(text: str) -> list[str]:
    if "'" in text or "’" in text:
        text = _POSSESSIVE.sub("", text)
    return _ASCII_RUN.findall(text) if text.isascii() else _RUN.findall(_fold(text))


def _fold(text: str) -> str:
    """Compatibility forms and accents away. Marks that change a letter in other scripts (kana voicing, vowel signs) stay."""
    decomposed = unicodedata.normalize("NFKD", text.translate(_UNDECOMPOSED))
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _word_terms(word: str) -> tuple[str, ...]:
    return _known_word_terms(word) if len(word) <= TERM_CHARS_MAX else _split_word(word)


@lru_cache(maxsize=65_536)
def _known_word_terms(word: str) -> tuple[str, ...]:
    return _split_word(word)


def _split_word(word: str) -> tuple[str, ...]:
    parts = [camel for part in _PART.split(word) for camel in _camel_parts(part)]
    whole = _term(word)
    return (whole,) if len(parts) == 1 else (*(_term(part) for part in parts), whole)


def _camel_parts(word: str) -> list[str]:
    return [word] if word[1:].islower() else _CAMEL.split(word)


def _term(word: str) -> str:
    return word.casefold()[:TERM_CHARS_MAX]
