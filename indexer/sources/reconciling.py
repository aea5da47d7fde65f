"""One comparison of a root with the ledger, from scan to intents: reads the source, writes nothing.

The pass of `sync` and `plan` and the watcher's own comparisons are this. It imports nothing heavy, so that finding nothing
changed stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from indexer.guard import RootState
from indexer.ignore import Rules
from indexer.reconcile import Comparison, Hashed, Looked, Reconciled, compare, settle_hashes
from indexer.sources.folder import Scan
from indexer.sources.places import Place, fetch_from, place_of
from store.clock import Clock
from store.errors import EvercurrentError
from store.model import Root, Sighting

if TYPE_CHECKING:
    from store.config import BucketsTable

FETCH_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Pass:
    """What one comparison of a root found. `reconciled.intents` is what to record."""

    scan: Scan
    reconciled: Reconciled


def reconcile_root(
    root: Root,
    sightings: Iterable[Sighting],
    clock: Clock,
    claims: Callable[[str], bool],
    rules: Rules | None = None,
    scope: str = "",
    leave_out: Container[str] = (),
    buckets: BucketsTable | None = None,
) -> Pass:
    """Scans `root` (or the uri `scope` of it), compares with `sightings`, hashes where stat does not decide.

    Take the `sightings` of the same scope. What they do not know yet is new: recording the intents twice is harmless. Documents of
    `leave_out` are passed over, as if neither side had them.
    """
    place = place_of(root, rules, buckets)
    return reconcile_scan(place, place.scan(scope), sightings, clock, claims, leave_out, buckets)


def reconcile_scan(
    place: Place,
    scan: Scan,
    sightings: Iterable[Sighting],
    clock: Clock,
    claims: Callable[[str], bool],
    leave_out: Container[str] = (),
    buckets: BucketsTable | None = None,
) -> Pass:
    """The comparison of a `scan` of the `place` that was just taken."""
    root, seen = place.root, looked(scan)
    if leave_out:
        sightings = [sighting for sighting in sightings if sighting.uri not in leave_out]
        seen = replace(seen, found={uri: signature for uri, signature in scan.found.items() if uri not in leave_out})
    comparison = compare(sightings, seen, claims, place.excludes)
    reconciled = settle_hashes(root, comparison, hash_documents(root, comparison, clock, buckets), clock.now())
    _tell(root, scan, reconciled)
    return Pass(scan, reconciled)


def looked(scan: Scan) -> Looked:
    return Looked(scan.scope, scan.found, scan.root_state, tuple(fault.uri for fault in scan.faults), scan.devices)


def hash_documents(root: Root, comparison: Comparison, clock: Clock, buckets: BucketsTable | None = None) -> dict[str, Hashed]:
    """Content hashes of what the comparison asks for. What cannot be read is left out: a worker finds the reason."""
    if not comparison.to_hash:
        return {}
    from indexer.identity import content_hash

    hashes: dict[str, Hashed] = {}
    for uri in comparison.to_hash:
        try:
            fetched = fetch_from(root, uri, FETCH_BYTES_MAX, clock, buckets)
        except EvercurrentError:
            continue
        hashes[uri] = Hashed(content_hash(fetched.content), fetched.signature, fetched.proven)
    return hashes


def _tell(root: Root, scan: Scan, reconciled: Reconciled) -> None:
    doubted = reconciled.held is not None or scan.root_state in (RootState.ABSENT, RootState.OTHER_DEVICE)
    if not (scan.faults or scan.refusals or doubted):
        return
    import structlog

    log = structlog.get_logger()
    for fault in scan.faults:
        log.warning("scan_fault", root=root.name, place=fault.uri, reason=fault.reason)
    if scan.refusals:
        log.info("scan_refused", root=root.name, refused=len(scan.refusals), first=scan.refusals[0].uri, reason=scan.refusals[0].reason)
    if doubted:
        reason = reconciled.held.reason if reconciled.held else None
        log.warning("root_doubted", root=root.name, state=str(scan.root_state), held=reconciled.counts.held, reason=reason)
