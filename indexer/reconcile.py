"""What a scan and the ledger together say should now be true. Pure: two steps, since only bytes decide what stat cannot.

`compare` goes through stat signatures and names the uris whose bytes must be hashed; the shell hashes them; `settle_hashes` makes
the intents. A changed signature over unchanged bytes costs no worker, a renamed document is recognised, and what the guard does
not believe is held.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from indexer.guard import Hold, RootState, guard
from store.model import (
    Absent,
    Cause,
    ContentHash,
    DocumentId,
    DocumentState,
    Held,
    Ignored,
    Instant,
    Intent,
    Present,
    Root,
    Seen,
    Sighting,
    Signature,
    Urgency,
)

HASH_BYTES_MAX = 512 * 1024 * 1024
"""Bytes read in one comparison to spare the workers; what does not fit becomes a present intent, and a worker decides."""
FRESH_DOCUMENTS_MAX = 64
"""A comparison that finds more changes than this is bulk work and lets a lone save pass."""

LOST_VOLUME = Hold("the volume they stood on is not there")
_LEFT_ALONE = frozenset({DocumentState.SUPPRESSED, DocumentState.CONFLICT})
_AWAITED = frozenset({DocumentState.PENDING, DocumentState.QUARANTINED})
"""Their recorded signature is the one they were noticed with: unchanged, a worker or a person has the next word."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """What hashing a document's bytes found."""

    content_hash: ContentHash
    signature: Signature
    proven: bool


@dataclass(frozen=True, slots=True)
class Looked:
    """What a scan saw, as far as comparing needs it (`indexer.sources.folder.Scan` is one)."""

    scope: str
    found: Mapping[str, Signature]
    root_state: RootState
    unreadable: tuple[str, ...] = ()
    """Uris of places that could not be looked into: what is known at or below them is not missing."""
    devices: frozenset[int] = frozenset()
    """Of the folders that were looked into; empty: not known."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a comparison found, for summaries."""

    unchanged: int = 0
    created: int = 0
    modified: int = 0
    moved: int = 0
    missing: int = 0
    held: int = 0
    ignored: int = 0
    """Newly ignored."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first step's findings. `to_hash` is empty when stat alone decides."""

    to_hash: tuple[str, ...]
    unchanged: int
    known: int
    root_state: RootState
    doubtful: tuple[tuple[Sighting, Signature], ...] = ()
    """Same length as recorded, so only the bytes can tell."""
    returned: tuple[tuple[Sighting, Signature], ...] = ()
    """Held until now, and there again just as recorded."""
    modified: tuple[tuple[Sighting, Signature], ...] = ()
    created: tuple[tuple[str, Signature], ...] = ()
    unclaimed: tuple[tuple[str, Signature], ...] = ()
    missing: tuple[Sighting, ...] = ()
    lost: frozenset[str] = frozenset()
    """Uris of those that are missing with all that is known of the volume they stood on: it was unmounted."""
    excluded: tuple[Sighting, ...] = ()
    """Not found because rules keep them out by now: a decision, so the guard is not asked. Nor is it for claims of another root's
    document, of which nothing is served."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What should now be true, in the order to record it: moves, presents, the rest."""

    intents: tuple[Intent, ...]
    counts: Counts
    held: Hold | None = None


def compare(
    sightings: Iterable[Sighting],
    looked: Looked,
    claims: Callable[[str], bool],
    excludes: Callable[[str], bool] = lambda _uri: False,
    hash_bytes_max: int = HASH_BYTES_MAX,
) -> Comparison:
    """Compares what the ledger remembers with what was seen, by stat signature.

    `claims`: whether a loader takes a uri. `excludes`: whether rules keep a uri out (asked of missing ones only).
    """
    found = dict(looked.found)
    tally = _Tally()
    indexed, empty = DocumentState.INDEXED, DocumentState.EMPTY
    devices = looked.devices
    for sighting in sightings:
        signature = found.pop(sighting.uri, None)
        state = sighting.state
        if signature is not None and sighting.signature is not None and sighting.signature.device not in devices:
            tally.seen_devices.add(sighting.signature.device)
        if signature == sighting.signature and sighting.proven and (state is indexed or state is empty) and signature is not None:
            tally.unchanged += 1
        elif signature is not None:
            tally.compare_found(sighting, signature, claims)
        else:
            tally.compare_missing(sighting, looked, excludes)
    for uri, signature in found.items():
        (tally.created if claims(uri) else tally.unclaimed).append((uri, signature))
    return tally.close(looked, hash_bytes_max)


@dataclass(slots=True)
class _Tally:
    """A comparison in progress."""

    unchanged: int = 0
    waiting: int = 0
    known: int = 0
    doubtful: list[tuple[Sighting, Signature]] = field(default_factory=list)
    modified: list[tuple[Sighting, Signature]] = field(default_factory=list)
    created: list[tuple[str, Signature]] = field(default_factory=list)
    unclaimed: list[tuple[str, Signature]] = field(default_factory=list)
    missing: list[Sighting] = field(default_factory=list)
    excluded: list[Sighting] = field(default_factory=list)
    returned: list[tuple[Sighting, Signature]] = field(default_factory=list)
    seen_devices: set[int] = field(default_factory=set)
    """Recorded devices that no folder stands on now, of documents that were found all the same: a volume came back as another."""

    def compare_found(self, sighting: Sighting, signature: Signature, claims: Callable[[str], bool]) -> None:
        same = signature == sighting.signature
        state = sighting.state
        if state in _LEFT_ALONE:
            return
        if state is DocumentState.IGNORED:
            if claims(sighting.uri):
                self.modified.append((sighting, signature))
            return
        self.known += 1
        if not claims(sighting.uri):
            self.unclaimed.append((sighting.uri, signature))
        elif state in _AWAITED:
            if same:
                self.waiting += 1
            else:
                self.modified.append((sighting, signature))
        elif sighting.content_hash is None or sighting.signature is None or signature.bytes != sighting.signature.bytes:
            self.modified.append((sighting, signature))
        elif same and sighting.proven:
            self.returned.append((sighting, signature))
        else:
            self.doubtful.append((sighting, signature))

    def compare_missing(self, sighting: Sighting, looked: Looked, excludes: Callable[[str], bool]) -> None:
        if sighting.state is DocumentState.SUPPRESSED or any(_is_below(sighting.uri, place) for place in looked.unreadable):
            return
        if not _is_below(sighting.uri, looked.scope):
            return
        is_there = looked.root_state in (RootState.ALIVE, RootState.EMPTY)
        if sighting.state is DocumentState.CONFLICT:
            if is_there:
                self.excluded.append(sighting)
            return
        if is_there and excludes(sighting.uri):
            self.excluded.append(sighting)
            return
        if sighting.state is not DocumentState.IGNORED:
            self.known += 1
        self.missing.append(sighting)

    def close(self, looked: Looked, hash_bytes_max: int) -> Comparison:
        lost = frozenset(sighting.uri for sighting in self.missing if self._stood_on_a_lost_volume(sighting, looked))
        sizes = {uri: signature.bytes for uri, signature in self._worth_hashing()}
        return Comparison(
            to_hash=tuple(_within(sizes, hash_bytes_max)),
            unchanged=self.unchanged + self.waiting,
            known=self.known + self.unchanged,
            root_state=looked.root_state,
            doubtful=tuple(self.doubtful),
            returned=tuple(self.returned),
            modified=tuple(self.modified),
            created=tuple(self.created),
            unclaimed=tuple(self.unclaimed),
            missing=tuple(self.missing),
            lost=lost,
            excluded=tuple(self.excluded),
        )

    def _stood_on_a_lost_volume(self, sighting: Sighting, looked: Looked) -> bool:
        if not looked.devices or sighting.signature is None or sighting.state is DocumentState.IGNORED:
            return False
        return sighting.signature.device not in looked.devices and sighting.signature.device not in self.seen_devices

    def _worth_hashing(self) -> Iterator[tuple[str, Signature]]:
        for sighting, signature in self.doubtful:
            yield sighting.uri, signature
        by_identity = {sighting.signature for sighting in self.missing}
        lengths = {sighting.signature.bytes for sighting in self.missing if sighting.signature and sighting.content_hash}
        for uri, signature in self.created:
            if signature.bytes and signature.bytes in lengths and signature not in by_identity:
                yield uri, signature


def _within(sizes: Mapping[str, int], bytes_max: int) -> Iterator[str]:
    """The smallest first, while they fit."""
    for uri in sorted(sizes, key=lambda uri: (sizes[uri], uri)):
        bytes_max -= sizes[uri]
        if bytes_max < 0:
            return
        yield uri


def _is_below(uri: str, place: str) -> bool:
    return not place or uri == place or uri.startswith(place.rstrip("/") + "/")


def settle_hashes(root: Root, comparison: Comparison, hashes: Mapping[str, Hashed], now: Instant) -> Reconciled:
    """Makes the intents. `hashes` holds what was hashed of `comparison.to_hash`; what is not in it is left to a worker."""
    changed = list(comparison.modified)
    seen = [Seen(root.home.document(sighting.uri), signature, proven=True) for sighting, signature in comparison.returned]
    same_bytes = 0
    for sighting, signature in comparison.doubtful:
        hashed = hashes.get(sighting.uri)
        if hashed is None or hashed.content_hash != sighting.content_hash:
            changed.append((sighting, signature))
            continue
        same_bytes += 1
        if hashed.signature != sighting.signature or hashed.proven or sighting.state is DocumentState.HELD:
            seen.append(Seen(root.home.document(sighting.uri), hashed.signature, hashed.proven))
    arrived = dict(comparison.created) | {sighting.uri: signature for sighting, signature in changed}
    moved_from = pair_renames(comparison.missing, arrived, {uri for uri, _ in comparison.created}, hashes)
    left = set(moved_from.values())
    missing = [sighting for sighting in comparison.missing if sighting.uri not in left]
    lost = [sighting for sighting in missing if sighting.uri in comparison.lost]
    gone = sum(sighting.state is not DocumentState.IGNORED and sighting.uri not in comparison.lost for sighting in missing)
    hold = guard(gone, comparison.known, comparison.root_state)
    if hold is None and lost:
        leaving = [sighting for sighting in missing if sighting.uri not in comparison.lost]
        return _reconciled(root, comparison, arrived, moved_from, leaving, lost, LOST_VOLUME, seen, same_bytes, now)
    leaving, held = (missing, []) if hold is None else ([], missing)
    return _reconciled(root, comparison, arrived, moved_from, leaving, held, hold, seen, same_bytes, now)


def pair_renames(
    missing: Iterable[Sighting], arrived: Mapping[str, Signature], new: set[str], hashes: Mapping[str, Hashed]
) -> dict[str, str]:
    """New uri -> old uri: a missing document whose file stands elsewhere now, each old one used once.

    The same inode, device, length and time is the same file, also over an existing name; failing that a new file of the same bytes
    is the document moved by copying, the same base name first.
    """
    lost = [sighting for sighting in missing if sighting.state is not DocumentState.IGNORED]
    by_identity: dict[Hashable, list[str]] = {}
    for sighting in sorted(lost, key=lambda sighting: sighting.uri):
        if sighting.signature is not None:
            by_identity.setdefault(sighting.signature, []).append(sighting.uri)
    pairs = dict(_pair_by(by_identity, {uri: arrived[uri] for uri in sorted(arrived)}))
    used = set(pairs.values())
    by_hash: dict[Hashable, list[str]] = {}
    for sighting in sorted(lost, key=lambda sighting: sighting.uri):
        if sighting.content_hash is not None and sighting.uri not in used:
            by_hash.setdefault(sighting.content_hash, []).append(sighting.uri)
    pairs.update(_pair_by(by_hash, {uri: hashes[uri].content_hash for uri in sorted(new - set(pairs)) if uri in hashes}))
    return pairs


def _pair_by(lost: dict[Hashable, list[str]], arrived: Mapping[str, Hashable]) -> Iterator[tuple[str, str]]:
    """Pairs what arrived with what was lost under the same key, of several the one with the same base name first."""
    rest: list[str] = []
    for uri, key in arrived.items():
        olds = lost.get(key, [])
        same_name = next((old for old in olds if _base_name(old) == _base_name(uri)), None)
        if same_name is None:
            rest.append(uri)
        else:
            olds.remove(same_name)
            yield uri, same_name
    for uri in rest:
        if left := lost.get(arrived[uri]):
            yield uri, left.pop(0)


def _base_name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _reconciled(
    root: Root,
    comparison: Comparison,
    arrived: Mapping[str, Signature],
    moved_from: Mapping[str, str],
    leaving: list[Sighting],
    held: list[Sighting],
    hold: Hold | None,
    seen: list[Seen],
    same_bytes: int,
    now: Instant,
) -> Reconciled:
    created = {uri for uri, _ in comparison.created}
    document = root.home.document
    urgency = Urgency.BULK if len(arrived) > FRESH_DOCUMENTS_MAX else Urgency.FRESH

    def present(uri: str) -> Present:
        old = moved_from.get(uri)
        cause = Cause.MOVED if old is not None else Cause.CREATED if uri in created else Cause.MODIFIED
        source = document(old) if old is not None else None
        return Present(document(uri), root.name, cause, now, urgency, signature=arrived[uri], moved_from=source)

    absent = [sighting.uri for sighting in (*comparison.excluded, *leaving)]
    intents: list[Intent] = [present(uri) for uri in sorted(arrived, key=lambda uri: (uri not in moved_from, uri))]
    intents += [Absent(document(uri), Cause.DELETED, now, root=root.name) for uri in absent]
    intents += [Ignored(document(uri), root.name, now, signature) for uri, signature in comparison.unclaimed]
    intents += _held(document, held, hold, now)
    intents += seen
    counts = Counts(
        unchanged=comparison.unchanged + len(comparison.returned) + same_bytes,
        created=len(created - set(moved_from)),
        modified=len(set(arrived) - created - set(moved_from)),
        moved=len(moved_from),
        missing=len(absent),
        held=sum(sighting.state is not DocumentState.IGNORED for sighting in held),
        ignored=len(comparison.unclaimed),
    )
    return Reconciled(tuple(intents), counts, hold)


def _held(document: Callable[[str], DocumentId], held: list[Sighting], hold: Hold | None, now: Instant) -> Iterator[Held]:
    if hold is None:
        return
    for sighting in held:
        if sighting.state not in (DocumentState.HELD, DocumentState.IGNORED):
            yield Held(document(sighting.uri), now, hold.reason)
