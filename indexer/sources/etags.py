"""What a listing says of an object, as a signature. Pure. An ETag or checksum is proof; a length and a time alone are not.

| the listing has | signature | proves equal bytes | recognises a move |
|---|---|---|---|
| an MD5 or a digest of the parts (`ETag`, `md5Hash`) | length, hash of it | yes | yes |
| any other strong ETag, or a generation or version | length, hash of it and the key | yes | no: the bytes are hashed |
| length and time (and the file's number) | as a file's | once the last write is long enough ago | by the file's number alone |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any

from store.model import Signature

TAGGED = -1
"""The `device` of a signature that comes from a tag: `inode` and `mtime_ns` are its hash."""
TIMED = -2
"""The `device` of one that comes from a time."""
PROOF_SECONDS_HERE = 2.0
PROOF_SECONDS_AFAR = 900.0
"""Another machine's clock may be wrong by this much."""
_DIGEST = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
_TAGS = ("ETag", "etag", "generation", "VersionId", "version_id")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
_HALF = (1 << 63) - 1


def signature_of(entry: Mapping[str, Any], key: str) -> Signature:
    """Signature of the object `key`, from what fsspec's `find` or `info` says of it; both give the same."""
    length = int(entry.get("size") or 0)
    digest = entry.get("md5Hash")
    tag = next((str(entry[name]).strip('"') for name in _TAGS if entry.get(name)), None)
    if digest is None and tag is not None and _DIGEST.fullmatch(tag):
        digest = tag
    if digest and length:
        return _tagged(length, f"bytes {digest}")
    if tag and not tag.startswith("W/"):
        return _tagged(length, f"object {tag} {key}")
    return Signature(length, _time_ns(entry), int(entry.get("ino") or 0), TIMED)


def proves(signature: Signature, read_at: float, *, is_here: bool) -> bool:
    """Whether bytes read at `read_at` (seconds) are proven to be those of `signature`. `is_here`: the times are this machine's."""
    if signature.device == TAGGED:
        return True
    patience = PROOF_SECONDS_HERE if is_here else PROOF_SECONDS_AFAR
    return 0 < signature.mtime_ns < int((read_at - patience) * 1e9)


def _tagged(length: int, tag: str) -> Signature:
    digest = blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return Signature(length, int.from_bytes(digest[:8]) & _HALF, int.from_bytes(digest[8:]) & _HALF, TAGGED)


def _time_ns(entry: Mapping[str, Any]) -> int:
    moment = next((entry[name] for name in _TIMES if entry.get(name)), None)
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return 0
    if isinstance(moment, datetime):
        moment = moment.timestamp()
    return int(moment * 1e9) if isinstance(moment, int | float) else 0
