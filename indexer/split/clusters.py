"""Grapheme clusters (UAX #29, extended), from `unicodedata` alone: where a text may be cut at all.

Known: CR LF, combining marks, variation selectors, ZWJ sequences, emoji modifiers and tags, regional
indicators in pairs, Hangul syllables, prepended marks. Not known: conjuncts of Indic scripts (rule GB9c).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_SCANNED = (range(0x300, 0x20000), range(0xE0000, 0xE1000))
"""Code points among which marks are looked for: the planes of ideographs hold none."""

_EXTENDING = "\u0e33\u0eb3\u200c\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
_PREPENDED = (
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3\U0001193f\U00011941"
    "\U00011a3a\U00011a84-\U00011a89\U00011d46\U00011f02"
)
_PICTURES = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2"
    "\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714\u2716\u271d\u2721"
    "\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935"
    "\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f"
    "\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f1ad-\U0001f1e5\U0001f201-\U0001f20f\U0001f21a"
    "\U0001f22f\U0001f232-\U0001f23a\U0001f23c-\U0001f23f\U0001f249-\U0001f3fa\U0001f400-\U0001f53d\U0001f546-\U0001f64f"
    "\U0001f680-\U0001f6ff\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff\U0001f80c-\U0001f80f\U0001f848-\U0001f84f\U0001f85a-\U0001f85f"
    "\U0001f888-\U0001f88f\U0001f8ae-\U0001f8ff\U0001f90c-\U0001f93a\U0001f93c-\U0001f945\U0001f947-\U0001faff\U0001fc00-\U0001fffd"
)
_INDICATORS = "\U0001f1e6-\U0001f1ff"
_CONTROLS = "\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
_SYLLABLES = "\uac00-\ud7a3"


@lru_cache(maxsize=1)
def marks() -> str:
    """The inside of a regular expression's class: every code point before which a cluster never ends (ZWJ apart)."""
    ranges: list[list[int]] = []
    for scanned in _SCANNED:
        for code in scanned:
            if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me"):
                if ranges and ranges[-1][1] == code - 1:
                    ranges[-1][1] = code
                else:
                    ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges) + _EXTENDING


@lru_cache(maxsize=1)
def _cluster() -> re.Pattern[str]:
    attached = f"[{marks()}\u200d]*+"
    open_syllables = "".join(chr(code) for code in range(0xAC00, 0xD7A4, 28))
    lead, vowel, tail = "\u1100-\u115f\ua960-\ua97c", "\u1160-\u11a7\ud7b0-\ud7c6", "\u11a8-\u11ff\ud7cb-\ud7fb"
    hangul = f"[{lead}]*+(?:[{open_syllables}][{vowel}]*+|[{vowel}]++|[{_SYLLABLES}])[{tail}]*+|[{lead}]++|[{tail}]++"
    pictures = f"[{_PICTURES}](?:[{marks()}]*+\u200d[{_PICTURES}])*+"
    core = f"(?:{hangul}|{pictures}|[{_INDICATORS}]{{2}}|[^{_CONTROLS}])"
    return re.compile(f"\r\n|[{_PREPENDED}]*+{core}{attached}|[{_PREPENDED}]++{attached}|.", re.DOTALL)


@lru_cache(maxsize=1)
def _compound() -> re.Pattern[str]:
    """Finds text in which some cluster has more than one code point, or may have."""
    return re.compile(f"[{marks()}\u200d{_PREPENDED}{_INDICATORS}\u1100-\u11ff\ua960-\ua97c\ud7b0-\ud7fb]|\r\n")


def cluster_starts(text: str, start: int, end: int) -> range | list[int]:
    """Offsets in `text` at which the clusters of `text[start:end]` begin; `start` must be the start of one. Linear in time."""
    if _compound().search(text, start, end) is None:
        return range(start, end)
    return [match.start() for match in _cluster().finditer(text, start, end)]
