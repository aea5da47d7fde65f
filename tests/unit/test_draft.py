"""From a leased document to what its commit would do: what changes nothing ends here, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kit.builders import document, root

from indexer.embedding.spaces import space_of
from indexer.identity import content_hash
from indexer.recipe import recipe_of
from indexer.sources.folder import Fetched
from store.config import EmbeddingTable, SplitTable
from store.errors import DocumentUnparsable
from store.model import Build, BuildId, Cause, ChunkRecord, Fence, LeasedDocument, Metadata, Recorded, Signature, Unchanged, Version
from workers.draft import Draft, Premises, draft_document

CONTENT = b"The tide turns at noon.\n"
SPACE = space_of(EmbeddingTable(provider="hashing"))
assert SPACE is not None
BUILD = Build(BuildId(1), recipe_of(SplitTable()), SPACE)
UPLOAD = LeasedDocument(
    document("a.txt"), Fence(1), Version(2), root(), Cause.UPLOADED, attempts=0, signature=None, content_hash=content_hash(CONTENT)
)


def drafted(leased: LeasedDocument, recorded: Recorded) -> Draft | Unchanged:
    fetched = Fetched(CONTENT, Signature(len(CONTENT), 1, 1, 1), True)
    return draft_document(leased, fetched, [BUILD], Premises({BUILD.build_id: recorded}, {}))


def recorded_with(metadata: Metadata) -> Recorded:
    """What is recorded after the document was indexed with `metadata`."""
    draft = drafted(replace(UPLOAD, metadata=metadata), Recorded())
    assert isinstance(draft, Draft)
    (made,) = draft.cuts
    return Recorded(
        version=Version(1),
        content_hash=draft.content_hash,
        layout=made.cut.layout,
        metadata=made.cut.metadata,
        own_metadata=metadata,
        title=made.cut.title,
        media_type=made.cut.media_type,
        chunks=tuple(ChunkRecord(chunk.chunk_id, chunk.text_hash, chunk.occurrence, chunk.input_hash) for chunk in made.plan.add),
    )


def test_equal_bytes_with_equal_metadata_change_nothing() -> None:
    for metadata in ({}, {"team": "harbour"}):
        assert isinstance(drafted(replace(UPLOAD, metadata=metadata), recorded_with(metadata)), Unchanged)


def test_metadata_that_was_taken_away_from_equal_bytes_is_a_change() -> None:
    draft = drafted(UPLOAD, recorded_with({"team": "harbour"}))
    assert isinstance(draft, Draft)
    (made,) = draft.cuts
    assert (made.plan.is_noop, dict(made.cut.metadata)) == (True, {})


def test_a_described_file_of_equal_bytes_is_not_even_loaded() -> None:
    """No loader claims the name: loading would be refused."""
    described = replace(UPLOAD, document=document("a.png"), content_hash=None, metadata={"team": "harbour"})
    recorded = Recorded(version=Version(1), content_hash=content_hash(CONTENT), own_metadata={"team": "harbour"})
    assert isinstance(drafted(described, recorded), Unchanged)
    with pytest.raises(DocumentUnparsable):
        drafted(described, replace(recorded, own_metadata={}))
    with pytest.raises(DocumentUnparsable):
        drafted(replace(described, media_type="image/png"), recorded)
