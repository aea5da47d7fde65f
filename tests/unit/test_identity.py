"""Identity: the same text in the same document is the same chunk, wherever it stands; nothing else is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexer.identity import chunk_id, content_hash, identify, input_hash, layout_of, text_hash
from store.model import CollectionId, CollectionName, DocumentId, LoadedText, Namespace, Piece, Placement, Uri

HOME = CollectionId(Namespace("default"), CollectionName("main"))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def document(namespace: str, collection: str, uri: str) -> DocumentId:
    return DocumentId(Namespace(namespace), CollectionName(collection), Uri(uri))


def test_ids_are_the_same_on_every_machine_and_in_every_release() -> None:
    assert text_hash("Köln").hex() == "3f473f6322367f8b0f1d76796850d85f"
    assert chunk_id(HOME.document("a/b.md"), text_hash("Köln"), 1).hex() == "29fe588b0c293081bc7b734dfa32fd7e"
    assert content_hash(b"Koeln").hex() == "58e4c9ea3533d19a8e5b2ce04da0b480"


@given(NAMES, NAMES, NAMES, NAMES, NAMES, NAMES)
def test_no_two_spellings_of_a_document_share_a_chunk_id(a: str, b: str, c: str, d: str, e: str, f: str) -> None:
    one, other = document(a, b, c), document(d, e, f)
    hashed = text_hash("text")
    assert (one == other) == (chunk_id(one, hashed, 0) == chunk_id(other, hashed, 0))


def test_a_letter_moved_between_collection_and_uri_is_another_document() -> None:
    hashed = text_hash("text")
    assert chunk_id(document("n", "ab", "c"), hashed, 0) != chunk_id(document("n", "a", "bc"), hashed, 0)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_the_input_hash_is_the_hash_of_exactly_what_is_sent(prefix: str, text: str) -> None:
    assert input_hash(prefix, text) == text_hash(prefix + text)
    assert input_hash("", text) == text_hash(text)


def test_equal_texts_are_told_apart_by_their_occurrence() -> None:
    loaded = LoadedText("one two one", "text/plain")
    pieces = [(Piece(0, 3), {}), (Piece(4, 7), {"page": 2}), (Piece(8, 11), {})]
    chunks = identify(HOME.document("d"), loaded, pieces)
    assert [(chunk.text, chunk.occurrence) for chunk in chunks] == [("one", 0), ("two", 0), ("one", 1)]
    assert len({chunk.chunk_id for chunk in chunks}) == 3
    assert all(chunk.input_hash == chunk.text_hash == text_hash(chunk.text) for chunk in chunks)
    assert layout_of(chunks).placements[1] == Placement(chunks[1].chunk_id, 4, 7, {"page": 2})


def test_a_chunk_keeps_its_id_when_it_moves_and_when_its_metadata_changes() -> None:
    before = identify(HOME.document("d"), LoadedText("a b", "text/plain"), [(Piece(0, 1), {}), (Piece(2, 3), {})])
    after = identify(HOME.document("d"), LoadedText("x b a", "text/plain"), [(Piece(2, 3), {"page": 1}), (Piece(4, 5), {})])
    assert {chunk.chunk_id for chunk in before} == {chunk.chunk_id for chunk in after}


def test_a_prefix_changes_what_is_embedded_and_not_who_the_chunk_is() -> None:
    loaded = LoadedText("text", "text/plain")
    plain = identify(HOME.document("d"), loaded, [(Piece(0, 4), {})])[0]
    prefixed = identify(HOME.document("d"), loaded, [(Piece(0, 4), {})], prefix="passage: ")[0]
    assert prefixed.input_hash == text_hash("passage: text")
    assert (prefixed.chunk_id, prefixed.text_hash) == (plain.chunk_id, plain.text_hash)
