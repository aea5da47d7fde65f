"""How a file's name becomes a uri and back: byte-exact, and injective over every name a file system can hold.

A name that is UTF-8 is its own uri. In any other name each byte that does not decode is `%` and two upper-case hex digits. A
literal `%FF` in a name would read like such a byte, so it gets a `25` more (`%25FF`), and that one too (`%2525FF`): no two
names ever share a uri. Paths are `str` with undecodable bytes as surrogate escapes, as `os.fsdecode` gives them.
"""

from __future__ import annotations

import re

_LOOKS_ESCAPED = re.compile(r"%((?:25)*)([89A-F][0-9A-F])")
_UNDECODABLE = re.compile(r"[\udc80-\udcff]")


def uri_of_path(path: str) -> str:
    """The uri (without the root's prefix) of a path relative to the root."""
    if path.isascii():
        return _LOOKS_ESCAPED.sub(r"%25\1\2", path) if "%" in path else path
    return _UNDECODABLE.sub(_escape, _LOOKS_ESCAPED.sub(r"%25\1\2", path))


def path_of_uri(uri: str) -> str:
    """The path relative to the root that `uri_of_path` made `uri` of."""
    return _LOOKS_ESCAPED.sub(_unescape, uri) if "%" in uri else uri


def _escape(undecodable: re.Match[str]) -> str:
    return f"%{ord(undecodable[0]) - 0xDC00:02X}"


def _unescape(escaped: re.Match[str]) -> str:
    twenty_fives, byte = escaped[1], escaped[2]
    return f"%{twenty_fives[2:]}{byte}" if twenty_fives else chr(0xDC00 + int(byte, 16))
