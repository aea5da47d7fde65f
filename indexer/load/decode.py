"""Bytes to text: byte order marks, then strict UTF-8, then a guess by charset-normalizer (its one door).

The text has no byte order mark, NUL or lone surrogate, and LF for every line end. Containers and binary bytes are refused, never
decoded into nonsense.
"""

from __future__ import annotations

import re

from store.errors import DocumentUnparsable, TextUndecodable
from store.model import Fault

_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_CONTAINERS = (
    (re.compile(rb"\s*%PDF-\d(?s:.*)\bobj\b"), "a PDF document"),
    (re.compile(rb"PK(\x03\x04|\x05\x06)"), "a ZIP container (perhaps an office document)"),
    (re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "an old office document (OLE)"),
    (re.compile(rb"\{\\rtf\d"), "an RTF document"),
    (re.compile(rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a[^\n]*\x00|II\*\x00|MM\x00\*|RIFF....WEBP", re.DOTALL), "an image"),
    (re.compile(rb"\x1f\x8b\x08|BZh\d1AY&SY|\xfd7zXZ\x00|7z\xbc\xaf\x27\x1c|Rar!\x1a|\x28\xb5\x2f\xfd"), "an archive"),
    (re.compile(rb"\x7fELF|MZ[^\n]{0,100}\x00\x00|\xca\xfe\xba\xbe|\x00asm"), "a program"),
    (re.compile(rb"SQLite format 3\x00"), "a database"),
    (re.compile(rb"RIFF....(WAVE|AVI )|OggS\x00|ID3[\x02-\x04]\x00|....ftyp|fLaC\x00|\x1aE\xdf\xa3", re.DOTALL), "sound or video"),
)
_CONTROL_BYTES = bytes(code for code in range(32) if code not in b"\t\n\x0b\f\r\x1b") + b"\x7f"
_SURROGATE = re.compile("[\ud800-\udfff]")
_GUESSED_BYTES_MAX = 1 << 20
"""How much of a document charset-normalizer looks at."""


def decode(content: bytes, media_type: str, declared: str | None = None) -> tuple[str, tuple[Fault, ...]]:
    """Returns the text and what of it could not be decoded. `declared` is an encoding the document itself names, tried after the marks.

    Raises DocumentUnparsable: the bytes are another, binary format. Raises TextUndecodable: they are no text at all.
    """
    refuse_containers(content, media_type)
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            text, faults = _decode_as(content[len(mark) :], encoding)
            return clean(text), faults
    text, faults = _decode_unmarked(content, declared)
    return clean(text), faults


def clean(text: str) -> str:
    """Removes NUL, lone surrogates and a leading byte order mark; makes CR LF and CR one LF."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", "")
    return _SURROGATE.sub("", text).removeprefix("\ufeff")


def refuse_containers(content: bytes, media_type: str) -> None:
    for signature, name in _CONTAINERS:
        if signature.match(content):
            raise DocumentUnparsable(media_type=media_type, reason=f"its content is in another format, {name}; rename it to what it is")


def _decode_unmarked(content: bytes, declared: str | None) -> tuple[str, tuple[Fault, ...]]:
    if wide := _wide_encoding(content):
        return _decode_as(content, wide)
    if content.count(0) * 2 > len(content):
        raise TextUndecodable(bytes=len(content))
    if declared is not None:
        try:
            return content.decode(declared), ()
        except (UnicodeDecodeError, LookupError):
            pass
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        _refuse_binary(content.replace(b"\0", b""))
        return _decode_damaged(content) or (_guess(content), ())
    _refuse_binary(content.replace(b"\0", b""))
    return text, ()


def _wide_encoding(content: bytes) -> str | None:
    """UTF-16 without a mark: nearly every second byte is NUL."""
    start = content[:4096]
    even, odd = start[::2].count(0), start[1::2].count(0)
    if len(start) < 8 or len(content) % 2 or min(even, odd) * 20 > max(even, odd) or max(even, odd) * 10 < len(start) // 2 * 7:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _decode_as(content: bytes, encoding: str) -> tuple[str, tuple[Fault, ...]]:
    try:
        return content.decode(encoding, "surrogatepass"), ()
    except UnicodeDecodeError:
        text = content.decode(encoding, "replace")
        _refuse_nonsense(text)
        return text, (_damage(text.count("\ufffd"), encoding),)


def _decode_damaged(content: bytes) -> tuple[str, tuple[Fault, ...]] | None:
    """UTF-8 with a few wrong bytes (a log torn in the middle of a character), told by how much of it is right."""
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    right = sum(1 for character in text if character > "\x7f") - wrong if wrong * 20 <= len(text) else 0
    return (text, (_damage(wrong, "utf-8"),)) if right >= 10 * wrong else None


def _damage(count: int, encoding: str) -> Fault:
    return Fault("bytes_undecodable", f"{count} stretches are not valid {encoding}; each is kept as the sign U+FFFD.")


def _refuse_binary(content: bytes) -> None:
    controls = len(content) - len(content.translate(None, _CONTROL_BYTES))
    if controls * 20 > len(content):
        raise TextUndecodable(control_bytes=controls, bytes=len(content))


def _refuse_nonsense(text: str) -> None:
    if text.count("\ufffd") * 10 > len(text):
        raise TextUndecodable(bytes=len(text))


def _guess(content: bytes) -> str:
    from charset_normalizer import from_bytes

    sample = content[:_GUESSED_BYTES_MAX]
    best = from_bytes(sample).best()
    if best is None:
        raise TextUndecodable(bytes=len(content))
    text = content.decode(best.encoding, "replace")
    _refuse_nonsense(text)
    return text
