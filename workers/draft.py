"""From a leased document to what its commit would do: fetch, then load, cut, identify and plan. Pure after the read.

Nothing here embeds or commits. A document whose bytes or text turn out to be the recorded ones ends here, as Unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from indexer.embedding.spaces import prepared
from indexer.fields import Fields, fitting
from indexer.identity import content_hash, identify, input_hash, layout_of
from indexer.load.registry import LoadAny, load
from indexer.plan import plan_document
from indexer.recipe import split_settings
from indexer.sources.folder import Fetched
from indexer.split.cut import cut
from indexer.uploads import FetchedUpload
from store.model import (
    Build,
    BuildId,
    Chunk,
    ContentHash,
    Cut,
    DocumentId,
    Fault,
    Indexed,
    InputHash,
    LeasedDocument,
    LoadedText,
    Metadata,
    Plan,
    Recorded,
    Signature,
    Space,
    Unchanged,
    Version,
)

NO_FIELDS: Fields = MappingProxyType({})
Fetch = Callable[[LeasedDocument], Fetched | FetchedUpload]


@dataclass(frozen=True, slots=True)
class DraftCut:
    """A cut that lacks its vectors."""

    build: Build
    recorded: Recorded
    plan: Plan
    cut: Cut


@dataclass(frozen=True, slots=True)
class Draft:
    """A document that will change: everything of its commit but the vectors."""

    leased: LeasedDocument
    content_hash: ContentHash
    signature: Signature | None
    proven: bool
    build_ids: tuple[BuildId, ...]
    cuts: tuple[DraftCut, ...]
    moved_from_version: Version
    faults: tuple[Fault, ...] = ()

    @property
    def document(self) -> DocumentId:
        return self.leased.document

    def inputs(self, space_id: str) -> dict[InputHash, str]:
        """Chunk texts by input hash, of all that is born in builds of this space."""
        return {
            chunk.input_hash: chunk.text for drafted in self.cuts if drafted.build.space.space_id == space_id for chunk in drafted.plan.born
        }


@dataclass(frozen=True, slots=True)
class Premises:
    """What the catalog holds of a document, read once before its draft: by build, its own rows and those it was moved from."""

    recorded: Mapping[BuildId, Recorded]
    moved_from: Mapping[BuildId, Recorded]


def draft_document(
    leased: LeasedDocument,
    fetched: Fetched | FetchedUpload,
    builds: Sequence[Build],
    premises: Premises,
    read: LoadAny = load,
    fields: Fields = NO_FIELDS,
) -> Draft | Unchanged:
    """`fields`: what the collection declares of its documents' metadata. Raises what the loader raises: Rejected's kinds."""
    digest = content_hash(fetched.content)
    build_ids = tuple(build.build_id for build in builds)
    unchanged = Unchanged(leased.document, leased.wanted_version, leased.fence, digest, fetched.signature, fetched.proven, build_ids)
    if _bytes_are_all(leased) and _holds_these_bytes(leased, premises, build_ids, digest):
        return unchanged
    loaded = declared(read(leased.document.uri, fetched.content, leased.media_type), fields)
    drafted = [draft_cut(leased, loaded, build, premises) for build in builds]
    changed = tuple(one for one in drafted if leased.moved_from is not None or changes_anything(one, leased.metadata))
    if not changed:
        return unchanged
    served = premises.moved_from.get(build_ids[0], Recorded())
    return Draft(leased, digest, fetched.signature, fetched.proven, build_ids, changed, served.version, loaded.faults)


def declared(loaded: LoadedText, fields: Fields) -> LoadedText:
    """The text with what of its metadata keeps to the declarations."""
    metadata, faults = fitting(loaded.metadata, fields)
    return replace(loaded, metadata=metadata, faults=(*loaded.faults, *faults)) if faults else loaded


def _bytes_are_all(leased: LeasedDocument) -> bool:
    """What the loader finds comes from the bytes alone: of an upload it may be said what they are."""
    return leased.moved_from is None and leased.content_hash is None and leased.media_type is None


def _holds_these_bytes(leased: LeasedDocument, premises: Premises, build_ids: Sequence[BuildId], digest: ContentHash) -> bool:
    recorded = [premises.recorded[build_id] for build_id in build_ids]
    return all(one.content_hash == digest and dict(one.own_metadata) == dict(leased.metadata) for one in recorded)


def draft_cut(leased: LeasedDocument, loaded: LoadedText, build: Build, premises: Premises) -> DraftCut:
    recorded = premises.recorded[build.build_id]
    pieces = cut(loaded, split_settings(build.recipe, leased.root.name))
    chunks = with_inputs(identify(leased.document, loaded, pieces), build.space)
    plan = plan_document(recorded.chunks, chunks, premises.moved_from.get(build.build_id, Recorded()).chunks)
    return DraftCut(
        build,
        recorded,
        plan,
        Cut(
            build_id=build.build_id,
            planned_from=recorded.version,
            plan=plan,
            layout=layout_of(chunks),
            text=loaded.text,
            title=loaded.title,
            media_type=loaded.media_type,
            language=loaded.language,
            metadata=loaded.metadata,
        ),
    )


def with_inputs(chunks: Sequence[Chunk], space: Space) -> tuple[Chunk, ...]:
    """The chunks with the input hash of exactly what this space's embedder is sent: prefix and text, after truncation."""
    return tuple(
        chunk if (sent := prepared(space, chunk.text)) == chunk.text else replace(chunk, input_hash=input_hash("", sent))
        for chunk in chunks
    )


def changes_anything(drafted: DraftCut, own_metadata: Metadata) -> bool:
    recorded, new = drafted.recorded, drafted.cut
    return not (
        recorded.version
        and drafted.plan.is_noop
        and recorded.layout == new.layout
        and (recorded.title, recorded.media_type) == (new.title, new.media_type)
        and dict(recorded.metadata) == dict(new.metadata)
        and dict(recorded.own_metadata) == dict(own_metadata)
    )


def indexed_of(draft: Draft, vectors: Mapping[str, Mapping[InputHash, bytes]], embedded: int) -> Indexed:
    """The draft with its vectors: `vectors` by space, those that are neither recorded nor staged."""
    return Indexed(
        document=draft.document,
        version=draft.leased.wanted_version,
        fence=draft.leased.fence,
        content_hash=draft.content_hash,
        signature=draft.signature,
        proven=draft.proven,
        cuts=tuple(_with_vectors(drafted, vectors.get(drafted.build.space.space_id, {})) for drafted in draft.cuts),
        moved_from=draft.leased.moved_from,
        moved_from_version=draft.moved_from_version,
        embedded=embedded,
        build_ids=draft.build_ids,
        own_metadata=draft.leased.metadata,
        faults=draft.faults,
    )


def _with_vectors(drafted: DraftCut, vectors: Mapping[InputHash, bytes]) -> Cut:
    own = {chunk.input_hash: vectors[chunk.input_hash] for chunk in drafted.plan.born if chunk.input_hash in vectors}
    return replace(drafted.cut, vectors=own)
