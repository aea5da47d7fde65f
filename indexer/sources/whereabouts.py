"""Where each file of a root was last seen: recognises a document that moved when no event said from where. Pure.

A watcher sees only one end of a move into a folder so new that it was not watched yet; the file itself (inode, length, time) tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from store.model import Signature

LEFT_URIS_MAX = 100_000


class Whereabouts:
    """Remembers one uri a file and one file a uri, and which uris a move has left."""

    def __init__(self, found: Mapping[str, Signature] | None = None) -> None:
        self._file_at = dict(found or {})
        self._uri_of = {signature: uri for uri, signature in self._file_at.items()}
        self._left: set[str] = set()

    def note(self, uri: str, signature: Signature | None) -> None:
        """Takes down what stands at `uri` now; None: nothing."""
        before = self._file_at.pop(uri, None)
        if before is not None and self._uri_of.get(before) == uri:
            del self._uri_of[before]
        if signature is not None:
            self._file_at[uri] = signature
            self._uri_of[signature] = uri
            self._left.discard(uri)

    def before(self, signature: Signature) -> str | None:
        """Where this very file was last seen."""
        return self._uri_of.get(signature)

    def leave(self, uri: str) -> None:
        """Takes down that the document of `uri` moved away: its disappearance is part of that move."""
        if len(self._left) >= LEFT_URIS_MAX:
            self._left.clear()
        self._left.add(uri)
        self.note(uri, None)

    def has_left(self, uri: str) -> bool:
        return uri in self._left
