"""Collections as their owners see them: listed, created, and deleted with everything in them; a namespace is what its collections are.

`main` exists in every namespace: before its first document it is listed as empty, and after a deletion it is empty again.
What was uploaded goes with the next sweep of the data folder; readers let go of what they keep by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from indexer.fields import Fields, fields_json
from store.clock import Clock
from store.errors import UnknownCollection
from store.model import MAIN_COLLECTION, Collection, CollectionId, CollectionName, DocumentState, Namespace
from store.ports import Counts

log = structlog.get_logger()


class CollectionsReader(Protocol):
    """What of the catalog a listing reads."""

    def collection(self, home: CollectionId) -> Collection | None: ...

    def collections(self) -> list[Collection]: ...

    def namespaces(self) -> list[Namespace]: ...

    def counts(self, home: CollectionId) -> Counts: ...


class CollectionsKeeper(CollectionsReader, Protocol):
    def drop_collection(self, home: CollectionId, now: Any) -> int: ...


class Collections:
    """Safe for threads. Every method may block: call it off an event loop.

    `furnish` creates a collection within the limits when it is not there; `ring` wakes whoever follows the catalog;
    `fields` tells what is declared of its documents' metadata.
    """

    def __init__(
        self,
        catalog: CollectionsKeeper,
        clock: Clock,
        furnish: Callable[[CollectionId], None],
        ring: Callable[[], None],
        fields: Callable[[CollectionId], Fields],
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._furnish = furnish
        self._ring = ring
        self._fields = fields

    def listed(self, namespace: Namespace) -> list[dict[str, Any]]:
        rows = list_collections(self._catalog, namespace)
        return [row | self._declared(CollectionId(namespace, CollectionName(row["collection"]))) for row in rows]

    def create(self, home: CollectionId) -> tuple[dict[str, Any], bool]:
        """The collection as it is listed, and whether it is new. Idempotent. Raises CollectionsFull."""
        is_new = self._catalog.collection(home) is None
        if is_new:
            self._furnish(home)
            log.info("collection_created", namespace=home.namespace, collection=home.collection)
        return collection_json(self._catalog, home) | self._declared(home), is_new

    def _declared(self, home: CollectionId) -> dict[str, Any]:
        return {"fields": fields_json(self._fields(home))}

    def drop(self, home: CollectionId) -> int:
        """Returns the documents that were removed. Raises UnknownCollection, but never for `main`."""
        documents = drop_collection(self._catalog, home, self._clock)
        self._ring()
        return documents

    def namespaces(self) -> list[dict[str, Any]]:
        return list_namespaces(self._catalog)

    def drop_namespace(self, namespace: Namespace) -> Mapping[str, int]:
        """Returns the documents that were removed, by collection. One without collections is none, and nothing happens."""
        removed = drop_namespace(self._catalog, namespace, self._clock)
        self._ring()
        return removed


def list_collections(catalog: CollectionsReader, namespace: Namespace) -> list[dict[str, Any]]:
    """Those of a namespace by name, `main` among them."""
    homes = {collection.home for collection in catalog.collections() if collection.home.namespace == namespace}
    homes.add(CollectionId(namespace, MAIN_COLLECTION))
    return [collection_json(catalog, home) for home in sorted(homes)]


def list_namespaces(catalog: CollectionsReader) -> list[dict[str, Any]]:
    """Those that have a collection, by name, with the names of these."""
    collections = catalog.collections()
    return [
        {"namespace": name, "collections": sorted(one.home.collection for one in collections if one.home.namespace == name)}
        for name in catalog.namespaces()
    ]


def collection_json(catalog: CollectionsReader, home: CollectionId) -> dict[str, Any]:
    collection = catalog.collection(home)
    if collection is None:
        return _row(home, Counts({}, 0, None), None, None, None)
    served, growing = collection.served, collection.growing
    return _row(
        home, catalog.counts(home), served.recipe.recipe_id, served.space.space_id, None if growing is None else growing.recipe.recipe_id
    )


def _row(home: CollectionId, counts: Counts, recipe: str | None, space: str | None, growing: str | None) -> dict[str, Any]:
    documents = {state.value: counts.states.get(state, 0) for state in DocumentState if state is not DocumentState.DELETED}
    return {
        "collection": home.collection,
        "documents": documents,
        "chunks": counts.chunks,
        "recipe": recipe,
        "space": space,
        "growing": growing,
    }


def drop_collection(catalog: CollectionsKeeper, home: CollectionId, clock: Clock) -> int:
    if catalog.collection(home) is None and home.collection != MAIN_COLLECTION:
        raise UnknownCollection(collection=home.collection, namespace=home.namespace)
    documents = catalog.drop_collection(home, clock.now())
    log.info("collection_dropped", namespace=home.namespace, collection=home.collection, documents=documents)
    return documents


def drop_namespace(catalog: CollectionsKeeper, namespace: Namespace, clock: Clock) -> dict[str, int]:
    homes = sorted(collection.home for collection in catalog.collections() if collection.home.namespace == namespace)
    removed: dict[str, int] = {home.collection: drop_collection(catalog, home, clock) for home in homes}
    log.info("namespace_dropped", namespace=namespace, collections=len(removed))
    return removed


@dataclass(frozen=True, slots=True)
class Size:
    """What a deletion would take along."""

    documents: int
    chunks: int


def size_of(catalog: CollectionsReader, home: CollectionId) -> Size:
    """Raises UnknownCollection, but never for `main`."""
    if catalog.collection(home) is None:
        if home.collection != MAIN_COLLECTION:
            raise UnknownCollection(collection=home.collection, namespace=home.namespace)
        return Size(0, 0)
    counts = catalog.counts(home)
    gone = (DocumentState.DELETED, DocumentState.IGNORED)
    return Size(sum(count for state, count in counts.states.items() if state not in gone), counts.chunks)
