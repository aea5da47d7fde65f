"""What a reader sees of a chunk: whose key wins, and what is always there."""

from __future__ import annotations

from dataclasses import replace

from store.catalog.visible import FILTERABLE_ALWAYS, chunk_metadata, narrowed, visible_chunk
from store.model import ChunkId, CollectionId, CollectionName, Instant, Layout, Namespace, Placement, Version, VisibleDocument

HOME = CollectionId(Namespace("default"), CollectionName("main"))
PLACEMENT = Placement(ChunkId(b"c" * 16), 0, 5, {"headings": ["Setup"], "page": 3})
DOCUMENT = VisibleDocument(
    HOME.document("guide/a.md"),
    Version(7),
    "Guide",
    "text/markdown",
    "en",
    {"team": "ops", "title": "mine", "page": "front"},
    ("user:u",),
    Instant(1_800_000_000.25),
    "alpha beta",
    Layout((PLACEMENT, Placement(ChunkId(b"d" * 16), 6, 10))),
)


def test_the_always_filterable_fields_stand_beside_the_documents_own() -> None:
    assert chunk_metadata(DOCUMENT, PLACEMENT) == {
        "team": "ops",
        "doc_title": "mine",
        "doc_page": "front",
        "headings": ["Setup"],
        "page": 3,
        "document": "guide/a.md",
        "source": "guide/a.md",
        "title": "Guide",
        "media_type": "text/markdown",
        "language": "en",
        "version": 7,
        "indexed_at": "2027-01-15T08:00:00.250Z",
    }


def test_a_field_without_value_is_missing() -> None:
    metadata = chunk_metadata(replace(DOCUMENT, title=None, language=None), Placement(ChunkId(b"e" * 16), 0, 1))
    assert not metadata.keys() & {"title", "language", "headings", "page"}


def test_a_documents_own_key_never_passes_for_a_field_of_the_catalog() -> None:
    own = replace(DOCUMENT, metadata=dict.fromkeys(FILTERABLE_ALWAYS, "forged"), title=None, language=None)
    metadata = chunk_metadata(own, Placement(ChunkId(b"e" * 16), 0, 1))
    assert {key for key, value in metadata.items() if value == "forged"} == {f"doc_{name}" for name in FILTERABLE_ALWAYS}


def test_a_chunk_keeps_its_own_metadata_over_the_documents() -> None:
    assert chunk_metadata(DOCUMENT, Placement(ChunkId(b"e" * 16), 0, 1, {"team": "dev"}))["team"] == "dev"


def test_a_chunks_text_is_the_slice_of_its_placement() -> None:
    chunk = visible_chunk(DOCUMENT, 1, stale=True)
    assert (chunk.text, chunk.ordinal, chunk.start, chunk.end, chunk.stale, chunk.acl) == ("beta", 1, 6, 10, True, ("user:u",))


def test_a_text_that_waits_for_the_next_is_read_by_whom_both_name() -> None:
    assert narrowed(("user:a", "user:b"), ("user:b", "user:c")) == ("user:b",)
    assert narrowed(("*",), ("user:b",)) == ("user:b",)
    assert narrowed(("user:a",), ("*",)) == ("user:a",)
    assert (narrowed(None, ("*",)), narrowed(("*",), None)) == (None, None)
