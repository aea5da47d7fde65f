"""Plain text and everything that is read as it stands: source code, logs, CSV, JSON, reStructuredText. No structure is looked for."""

from __future__ import annotations

from indexer.load.decode import decode
from store.model import LoadedText


def load_text(content: bytes, media_type: str) -> LoadedText:
    """Raises TextUndecodable, DocumentUnparsable."""
    text, faults = decode(content, media_type)
    return LoadedText(text, media_type, faults=faults)
