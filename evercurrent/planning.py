"""What a pass would do, counted without doing it: documents are read, cut and planned, nothing is embedded, nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evercurrent.passes import Look, owned
from evercurrent.summary import ChunkNumbers, DocumentNumbers, numbers_json
from indexer.fields import Fields
from indexer.load.registry import LoadAny, claims, load
from indexer.sources.folder import Fetched
from indexer.sources.places import fetch_from
from store.clock import Clock
from store.config import BucketsTable, EmbeddingTable
from store.errors import EvercurrentError
from store.model import (
    Absent,
    Build,
    BuildId,
    Cause,
    Chunk,
    Collection,
    DocumentId,
    Fence,
    Ignored,
    InputHash,
    LeasedDocument,
    Present,
    Recorded,
    Root,
    Signature,
    Space,
    Unchanged,
    Version,
)
from store.ports import Catalog
from workers.draft import NO_FIELDS, Draft, Premises, draft_document


@dataclass(frozen=True, slots=True)
class Reader:
    """How documents are read: a root's document as it stands now, by its uri, and its text."""

    fetch: Callable[[Root, str], Fetched]
    load: LoadAny
    fields: Fields


DOCUMENTS_A_READ = 256
TEXTS_PER_SECOND = {"hashing": 20_000.0, "local": 300.0, "openai": 100.0}
DOCUMENTS_PER_SECOND = 1_000.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """What `sync` would report now, and what it would cost."""

    documents: DocumentNumbers
    chunks: ChunkNumbers
    embedded: int
    reused: int
    tokens: int
    cost: float
    currency: str
    seconds_estimate: float

    def as_json(self) -> dict[str, Any]:
        return {
            "documents": numbers_json(self.documents),
            "chunks": numbers_json(self.chunks),
            "embedded": self.embedded,
            "reused": self.reused,
            "tokens": self.tokens,
            "cost": self.cost,
            "currency": self.currency,
            "seconds_estimate": self.seconds_estimate,
        }


@dataclass(slots=True)
class _Count:
    """A forecast in progress."""

    added: int = 0
    updated: int = 0
    moved: int = 0
    failed: int = 0
    empty: int = 0
    untouched: int = 0
    kept_chunks: int = 0
    moved_chunks: int = 0
    added_chunks: int = 0
    dropped_chunks: int = 0
    born: dict[str, dict[InputHash, str]] = field(default_factory=dict)
    """Texts by input hash, by space: each is embedded once at most."""


def forecast(
    catalog: Catalog,
    looks: Sequence[Look],
    builds: Sequence[Build],
    collection: Collection | None,
    table: EmbeddingTable,
    clock: Clock,
    bytes_max: int,
    still_failed: frozenset[DocumentId] = frozenset(),
    still_pending: frozenset[DocumentId] = frozenset(),
    buckets: BucketsTable | None = None,
    load: LoadAny = load,
    fields: Fields = NO_FIELDS,
) -> Forecast:
    """What recording the looks' intents would lead to. `builds` are those that would be served or growing then.

    `still_failed`: quarantined documents that would not be tried again. `still_pending`: what an earlier pass left to be indexed.
    """

    reader = Reader(lambda root, uri: fetch_from(root, uri, bytes_max, clock, buckets), load, fields)
    count = _Count(failed=len(still_failed))
    presents = [intent for seen in looks for intent in seen.found.reconciled.intents if isinstance(intent, Present)]
    presents += _left_over(looks, still_pending, clock)
    counted = still_failed.union(intent.document for intent in presents)
    roots = {seen.target.root.name: seen.target.root for seen in looks}
    for start in range(0, len(presents), DOCUMENTS_A_READ):
        batch = presents[start : start + DOCUMENTS_A_READ]
        for intent, premises in zip(batch, _premises(catalog, batch, builds, collection), strict=True):
            _count_document(count, intent, roots[intent.root], builds, premises, reader)
    known_builds = () if collection is None else collection.builds
    for build in builds:
        if collection is not None and build not in known_builds:
            _count_regrowth(count, looks, build, clock, reader, counted)
    absent = [intent for seen in looks for intent in seen.found.reconciled.intents if isinstance(intent, Absent | Ignored)]
    deleted, dropped = _leaving(catalog, absent, collection)
    embedded, tokens = _to_embed(catalog, count, builds, collection)
    claimed = sum(seen.claimed for seen in looks)
    changed = count.added + count.updated + count.moved
    return Forecast(
        documents=DocumentNumbers(
            added=count.added,
            updated=count.updated,
            unchanged=max(0, claimed - changed - count.failed),
            moved=count.moved,
            deleted=deleted,
            failed=count.failed,
            empty=count.empty,
            ignored=sum(seen.ignored for seen in looks),
        ),
        chunks=ChunkNumbers(count.added_chunks, count.kept_chunks, count.moved_chunks, count.dropped_chunks + dropped),
        embedded=embedded,
        reused=max(0, count.added_chunks - embedded),
        tokens=tokens,
        cost=round(tokens * table.price_per_million_tokens / 1_000_000, 6),
        currency=table.currency,
        seconds_estimate=round(embedded / TEXTS_PER_SECOND[table.provider] + changed / DOCUMENTS_PER_SECOND, 2),
    )


def tokens_of(text: str) -> int:
    """An estimate: four characters a token in alphabetic text, one in ideographic."""
    wide = sum(character >= "\u2e80" for character in text)
    return wide + -(-(len(text) - wide) // 4)


def _count_document(count: _Count, intent: Present, root: Root, builds: Sequence[Build], premises: Premises, reader: Reader) -> None:
    leased = LeasedDocument(
        document=intent.document,
        fence=Fence(0),
        wanted_version=Version(0),
        root=root,
        cause=intent.cause,
        attempts=0,
        signature=intent.signature,
        moved_from=intent.moved_from,
    )
    try:
        drafted = draft_document(leased, reader.fetch(root, intent.document.uri), builds, premises, reader.load, reader.fields)
    except EvercurrentError:
        count.failed += 1
        return
    if isinstance(drafted, Unchanged):
        count.untouched += 1
        return
    _count_draft(count, drafted, premises)


def _left_over(looks: Sequence[Look], still_pending: frozenset[DocumentId], clock: Clock) -> Iterator[Present]:
    """What the pending documents' intents would be now."""
    for seen in looks:
        for document, signature in _claimed(seen):
            if document in still_pending:
                yield Present(document, seen.target.root.name, Cause.MODIFIED, clock.now(), signature=signature)


def _claimed(seen: Look) -> Iterator[tuple[DocumentId, Signature]]:
    for uri, signature in seen.found.scan.found.items():
        if claims(uri):
            yield seen.target.root.home.document(uri), signature


def _count_regrowth(
    count: _Count, looks: Sequence[Look], build: Build, clock: Clock, reader: Reader, counted: frozenset[DocumentId]
) -> None:
    """A new build reads and cuts every document anew: those not `counted` yet are updated by it, unless they cannot be read now.

    What the space already holds is not embedded again.
    """
    nothing = Premises({build.build_id: Recorded()}, {})
    alone, beside = _Count(born=count.born), _Count(born=count.born)
    for seen in looks:
        root = seen.target.root
        for document, signature in _claimed(seen):
            intent = Present(document, root.name, Cause.RECUT, clock.now(), signature=signature)
            _count_document(beside if document in counted else alone, intent, root, (build,), nothing, reader)
    count.updated += alone.added
    count.failed += alone.failed
    count.empty += alone.empty
    count.added_chunks += alone.added_chunks


def _count_draft(count: _Count, drafted: Draft, premises: Premises) -> None:
    if drafted.leased.moved_from is not None:
        count.moved += 1
    elif any(recorded.version for recorded in premises.recorded.values()):
        count.updated += 1
    else:
        count.added += 1
    first = drafted.cuts[0]
    count.empty += not first.cut.layout.placements
    count.kept_chunks += len(first.plan.keep)
    count.moved_chunks += len(first.plan.move)
    count.added_chunks += len(first.plan.add)
    left = premises.moved_from.get(first.build.build_id, Recorded()).chunks
    count.dropped_chunks += len(first.plan.drop) + len(left) - len(first.plan.move)
    for one in drafted.cuts:
        count.born.setdefault(one.build.space.space_id, {}).update(_texts(one.plan.born))


def _texts(chunks: Iterable[Chunk]) -> dict[InputHash, str]:
    return {chunk.input_hash: chunk.text for chunk in chunks}


def _premises(catalog: Catalog, batch: Sequence[Present], builds: Sequence[Build], collection: Collection | None) -> list[Premises]:
    """What is recorded of each document and of what it was moved from; nothing in a collection that does not exist."""
    known = () if collection is None else collection.builds
    asked = [(document, build) for intent in batch for document in (intent.document, intent.moved_from) if document for build in known]
    found = zip(asked, catalog.recorded(asked), strict=True)
    recorded = {(document, build.build_id): one for (document, build), one in found}

    def of(document: DocumentId) -> dict[BuildId, Recorded]:
        return {build.build_id: recorded.get((document, build.build_id), Recorded()) for build in builds}

    return [Premises(of(intent.document), {} if intent.moved_from is None else of(intent.moved_from)) for intent in batch]


def _leaving(catalog: Catalog, intents: Sequence[Absent | Ignored], collection: Collection | None) -> tuple[int, int]:
    """Documents that are visible and would go, and their chunks."""
    if collection is None or not intents:
        return 0, 0
    recorded = catalog.recorded([(document, collection.served) for document in owned(catalog, intents)])
    visible = [one for one in recorded if one.version]
    return len(visible), sum(len(one.chunks) for one in visible)


def _to_embed(catalog: Catalog, count: _Count, builds: Sequence[Build], collection: Collection | None) -> tuple[int, int]:
    texts, tokens = 0, 0
    spaces: dict[str, Space] = {build.space.space_id: build.space for build in builds}
    for space_id, born in count.born.items():
        missing: Iterable[InputHash] = born if collection is None else catalog.missing(collection.home, spaces[space_id], born.keys())
        for input_hash in missing:
            texts += 1
            tokens += tokens_of(born[input_hash])
    return texts, tokens
