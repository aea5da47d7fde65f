"""A bucket as a source, over fsspec: what is there (`scan`), whether an object is gone, and an object's bytes (`fetch`).

One paged listing answers a scan, no request an object; it is believed whole or not at all. Errors of the network and of credentials
are Transient and name the bucket, never a secret. Nothing here writes. fsspec comes in only when a bucket is opened.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from indexer.guard import RootState
from indexer.ignore import IGNORE_FILE, Patterns, Rules, is_litter
from indexer.sources.bucket_urls import normal_url, protocol_of
from indexer.sources.etags import proves, signature_of
from indexer.sources.folder import FETCH_ATTEMPTS_MAX, IGNORE_FILE_BYTES_MAX, Fetched, Refusal, Scan, ScanFault
from indexer.sources.names import path_of_uri, uri_of_path
from store.errors import BucketDriverMissing, BucketUnreachable, DocumentTooLarge, SourceUnstable, SourceVanished, UriRejected
from store.model import Root, Signature, check_uri

if TYPE_CHECKING:
    from store.clock import Clock
    from store.config import BucketsTable

Entry = Mapping[str, Any]
"""What fsspec says of an object: `name`, `size`, `type`, and what the store adds (`ETag`, `LastModified`)."""
_Answer = TypeVar("_Answer")

_DRIVERS = {"s3": "'evercurrent[s3]'", "gs": "gcsfs", "az": "adlfs"}
_SHOWN_OPTIONS = frozenset({"endpoint_url", "region_name", "endpoint"})
_MARKERS = ("/", "_$folder$")
"""How names of objects end that only stand for a folder."""
_OF_DRIVERS = frozenset(
    {"botocore", "aiobotocore", "boto3", "s3fs", "aiohttp", "gcsfs", "google", "azure", "adlfs", "fsspec", "asyncio", "ssl", "urllib3"}
)
REASON_CHARS_MAX = 200


class Bucket:
    """A root with the rules in force in it. Keeps the ignore files it read, by their signature. Safe to use from one thread."""

    def __init__(self, root: Root, rules: Rules, table: BucketsTable) -> None:
        self.root = root
        self._rules = rules
        self._table = table
        self._protocol = protocol_of(normal_url(root.path))
        self._patterns = Patterns(rules.of_root(root.name))
        self._ignore_lines: dict[tuple[str, Signature], list[str]] = {}

    # --- all of it ---

    def scan(self, scope: str = "") -> Scan:
        """Looks at every object of the bucket, or at the document or folder `scope` (a uri) of it.

        A listing that fails is a fault at "": nothing is known to be missing then. Raises BucketDriverMissing.
        """
        listing = _Listing(self, scope)
        try:
            listing.run()
        except FileNotFoundError:
            return Scan(scope, {}, RootState.ABSENT, None)
        except BucketUnreachable as error:
            return Scan(scope, {}, RootState.ABSENT, None, faults=(ScanFault("", str(error.context["reason"])),))
        state = RootState.ALIVE if listing.found or scope else RootState.EMPTY
        return Scan(scope, listing.found, state, None, refusals=tuple(listing.refusals), ignore_files=listing.ignore_files)

    def entries(self, scope: str) -> Iterator[Entry]:
        """What the store lists at and below the uri `scope`. Raises BucketUnreachable, FileNotFoundError."""
        place = self.key_of(scope) if scope else self.base
        if self._protocol == "file":
            yield from self._walked(place)
            return
        listed = self.ask(lambda: self._files.find(place, detail=True))
        if len(listed) > self._table.objects_max:
            raise BucketUnreachable(
                url=self.root.path, reason=f"it lists more than {self._table.objects_max} objects; raise indexer.buckets.objects_max"
            )
        yield from listed.values()
        if scope and place not in listed:
            yield from filter(None, [self._entry(place)])
        if scope and not listed and self._entry(self.base) is None:
            raise FileNotFoundError(self.root.path)

    def _walked(self, start: str) -> Iterator[Entry]:
        """A folder by file:// has no flat listing. Folders of litter, and the index's own, are not entered; links are not followed."""
        folders, seen = [start], 0
        while folders:
            folder = folders.pop()
            for entry in self._listed(folder, is_start=folder == start):
                name = str(entry["name"])
                seen += 1
                if seen > self._table.objects_max:
                    raise BucketUnreachable(
                        url=self.root.path, reason=f"it has more than {self._table.objects_max} files; raise indexer.buckets.objects_max"
                    )
                if entry["type"] == "file" and not entry.get("islink"):
                    yield entry
                elif entry["type"] == "directory" and not is_litter(posixpath.basename(name)) and not self.is_own(name):
                    folders.append(name)

    def _listed(self, folder: str, *, is_start: bool) -> list[Entry]:
        try:
            return self.ask(lambda: list(self._files.ls(folder, detail=True)))
        except FileNotFoundError:
            if not is_start or (folder != self.base and self._entry(self.base) is not None):
                return []
            raise

    def excludes(self, uri: str, *, is_folder: bool = False) -> bool:
        """Whether rules, not absence, keep the document or folder `uri` out, by the ignore files of the last scan."""
        path = path_of_uri(uri.removeprefix(self.root.prefix))
        parts = path.split("/")
        if any(not part or is_litter(part) for part in parts) or self.is_own(f"{self.base}/{path}"):
            return True
        if any(self._patterns.refuse_folder("/".join(parts[:depth])) for depth in range(1, len(parts))):
            return True
        return self._patterns.refuse_folder(path) if is_folder else self._patterns.refuse_file(path)

    def use_ignore_files(self, files: Mapping[str, Signature], ancestors: Sequence[str]) -> None:
        """Puts the ignore files in force: the listed ones, and those of the folders above a scope, which no listing shows."""
        self._patterns = Patterns(self._rules.of_root(self.root.name))
        for folder in ancestors:
            seen = self._signature(self._ignore_key(folder))
            self._patterns.add_folder(folder, None if seen is None else self._read_ignore_file(folder, seen))
        for folder, seen in files.items():
            lines = self._ignore_lines.get((folder, seen)) or self._read_ignore_file(folder, seen)
            self._ignore_lines[(folder, seen)] = lines
            self._patterns.add_folder(folder, lines)
        self._ignore_lines = {key: lines for key, lines in self._ignore_lines.items() if files.get(key[0]) == key[1]}

    def _read_ignore_file(self, folder: str, seen: Signature) -> list[str]:
        """Raises BucketUnreachable also when it left since it was listed: without it nothing is known to be a document."""
        content = self._read(self._ignore_key(folder), min(seen.bytes, IGNORE_FILE_BYTES_MAX))
        if content is None:
            raise BucketUnreachable(url=self.root.path, reason=f"{IGNORE_FILE} left while it was read")
        return content.decode("utf-8", "surrogateescape").removeprefix("\ufeff").splitlines()

    def _ignore_key(self, folder: str) -> str:
        return "/".join((self.base, *filter(None, (folder,)), IGNORE_FILE))

    # --- one of it ---

    def fetch(self, uri: str, bytes_max: int, clock: Clock) -> Fetched:
        """The object's bytes as they stood at one moment, never more than `bytes_max` of them: what is said of it is asked before and
        after. Raises SourceVanished (the bucket answers, and has no such object), DocumentTooLarge, SourceUnstable, BucketUnreachable.
        """
        key = self.key_of(uri)
        for _ in range(FETCH_ATTEMPTS_MAX):
            read_at = clock.now()
            before = self._signature(key)
            if before is None:
                raise self._vanished(key)
            if before.bytes > bytes_max:
                raise DocumentTooLarge(bytes=before.bytes, bytes_max=bytes_max, uri=uri)
            content = self._read(key, before.bytes)
            if content is not None and len(content) == before.bytes and self._signature(key) == before:
                return Fetched(content, before, proves(before, read_at, is_here=self._is_here))
        raise SourceUnstable(uri=uri)

    def surely_gone(self, uri: str) -> bool:
        """Whether an object that cannot be found was deleted: the bucket answers, and holds others at its prefix."""
        try:
            if self._entry(self.key_of(uri)) is not None:
                return False
            if self._protocol == "file":
                return bool(self.ask(lambda: self._files.ls(posixpath.dirname(self.key_of(uri)), detail=False)))
            return self._entry(self.base) is not None
        except (BucketUnreachable, BucketDriverMissing, FileNotFoundError):
            return False

    def probe(self) -> bool:
        """Whether the bucket is there; an empty prefix of one is. Raises BucketUnreachable, BucketDriverMissing."""
        whole = self.base if self._protocol in ("file", "memory") else self.base.partition("/")[0]
        return self._entry(self.base) is not None or self._entry(whole) is not None

    def _vanished(self, key: str) -> SourceVanished:
        self._entry(self.base)
        return SourceVanished("The object disappeared before it was read.", path=key)

    def _signature(self, key: str) -> Signature | None:
        entry = self._entry(key)
        if entry is None or entry["type"] != "file" or entry.get("islink"):
            return None
        return signature_of(entry, key)

    def _entry(self, key: str) -> Entry | None:
        try:
            entry: Entry = self.ask(lambda: self._files.info(key))
        except FileNotFoundError:
            return None
        return entry

    def _read(self, key: str, length: int) -> bytes | None:
        """One byte more than expected, so that a longer object shows; None: it is gone. An empty one has no range to ask for."""
        if not length:
            return b""
        try:
            return bytes(self.ask(lambda: self._files.cat_file(key, start=0, end=length + 1)))
        except FileNotFoundError:
            return None

    # --- the store ---

    def key_of(self, uri: str) -> str:
        return f"{self.base}/{path_of_uri(uri.removeprefix(self.root.prefix))}"

    def is_own(self, path: str) -> bool:
        own = self._rules.own_paths if self._protocol == "file" else ()
        return any(path == one or path.startswith(one.rstrip("/") + "/") for one in own)

    @cached_property
    def base(self) -> str:
        return str(self._files._strip_protocol(self.root.path)).rstrip("/")

    @property
    def _is_here(self) -> bool:
        return self._protocol in ("file", "memory")

    @cached_property
    def _files(self) -> Any:
        try:
            import fsspec

            kind = fsspec.get_filesystem_class(self._protocol)
        except ImportError as error:
            raise BucketDriverMissing(protocol=self._protocol, package=_DRIVERS.get(self._protocol, "'evercurrent[s3]'")) from error
        options = dict(self._table.options.get(self._protocol, {}))
        return self.ask(lambda: kind(use_listings_cache=False, **options))

    def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """The store's answer. Raises FileNotFoundError, and BucketUnreachable for all else that the driver or the network does."""
        try:
            return question()
        except FileNotFoundError:
            raise
        except Exception as error:
            if not isinstance(error, OSError | ValueError | TypeError) and type(error).__module__.partition(".")[0] not in _OF_DRIVERS:
                raise
            raise BucketUnreachable(url=self.root.path, reason=self._reason(error)) from error

    def _reason(self, error: Exception) -> str:
        said = " ".join(str(error).split()) or "no reason was given"
        for secret in _secrets(self._table.options.get(self._protocol, {})):
            said = said.replace(secret, "***")
        if isinstance(error, PermissionError):
            said = f"access is denied ({said})"
        return said[:REASON_CHARS_MAX].rstrip(".")


def _secrets(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif isinstance(value, str) and len(value) >= 4 and name not in _SHOWN_OPTIONS:
            yield value


class _Listing:
    """One scan in progress."""

    def __init__(self, bucket: Bucket, scope: str) -> None:
        self._bucket = bucket
        self._scope = scope
        self._folders: dict[str, bool] = {}
        self.found: dict[str, Signature] = {}
        self.refusals: list[Refusal] = []
        self.ignore_files: dict[str, Signature] = {}

    def run(self) -> None:
        prefix, base = self._bucket.root.prefix, self._bucket.base + "/"
        inside: list[tuple[str, Signature]] = []
        for entry in self._bucket.entries(self._scope):
            name = str(entry["name"])
            if entry["type"] != "file" or name.endswith(_MARKERS) or not name.startswith(base):
                continue
            path = name[len(base) :]
            uri = prefix + uri_of_path(path)
            if not self._is_uri(uri):
                continue
            folder, _, last = path.rpartition("/")
            signature = signature_of(entry, name)
            if last == IGNORE_FILE:
                self.ignore_files[folder] = signature
            elif not is_litter(last):
                inside.append((uri, signature))
        self._bucket.use_ignore_files(self.ignore_files, self._ancestors())
        for uri, signature in inside:
            if not self._bucket.excludes(uri):
                self.found[uri] = signature

    def _is_uri(self, uri: str) -> bool:
        try:
            check_uri(uri)
        except UriRejected as error:
            self.refusals.append(Refusal(str(error.context["uri"]), str(error.context["reason"])))
            return False
        return True

    def _ancestors(self) -> list[str]:
        """The folders above the scope, the root first: their ignore files are not in the listing."""
        if not self._scope:
            return []
        parts = path_of_uri(self._scope.removeprefix(self._bucket.root.prefix)).split("/")
        return ["/".join(parts[:depth]) for depth in range(len(parts))]
