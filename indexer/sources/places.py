"""Where a root's documents really stand: a folder or a bucket. Everything that looks at a root or reads a document comes through here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from indexer.ignore import Rules
from indexer.sources import folder
from indexer.sources.folder import Fetched, Folder, Scan
from store.model import Root, SourceKind

if TYPE_CHECKING:
    from indexer.sources.bucket import Bucket
    from store.clock import Clock
    from store.config import BucketsTable


class Place(Protocol):
    """Reads only. `scan` never raises for what it finds; what could not be looked into is a fault of the scan."""

    root: Root

    def scan(self, scope: str = "") -> Scan: ...

    def excludes(self, uri: str, *, is_folder: bool = False) -> bool: ...


def place_of(root: Root, rules: Rules | None = None, buckets: BucketsTable | None = None) -> Place:
    """The place of `root`. Make it anew when a folder's ignore files changed. Raises Misuse for a bucket's wrong URL."""
    return bucket_of(root, rules, buckets) if root.kind is SourceKind.BUCKET else Folder(root, rules or Rules())


def bucket_of(root: Root, rules: Rules | None = None, buckets: BucketsTable | None = None) -> Bucket:
    from indexer.sources.bucket import Bucket
    from store.config import BucketsTable

    return Bucket(root, rules or Rules(), buckets or BucketsTable())


def fetch_from(root: Root, uri: str, bytes_max: int, clock: Clock, buckets: BucketsTable | None = None) -> Fetched:
    """The document's bytes as they stood at one moment. Raises what `folder.fetch` and `Bucket.fetch` raise."""
    if root.kind is not SourceKind.BUCKET:
        return folder.fetch(root, uri, bytes_max, clock)
    return bucket_of(root, None, buckets).fetch(uri, bytes_max, clock)


def is_surely_gone(root: Root, uri: str, buckets: BucketsTable | None = None) -> bool:
    """Whether a document that cannot be found was deleted, as far as its surroundings tell."""
    if root.kind is not SourceKind.BUCKET:
        return folder.surely_gone(root, uri)
    return bucket_of(root, None, buckets).surely_gone(uri)
