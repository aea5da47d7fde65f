"""Every embedder keeps the port's promises: hashing, local, and openai against a server of our own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from kit.embedding_server import EmbeddingServer

from indexer.embedding.port import Embedder
from indexer.embedding.spaces import prepared
from indexer.embedding.wiring import embedder_for, embedder_of
from store.config import EmbeddingTable

TEXTS = ("The quick brown fox jumps over the lazy dog.", "敏捷的棕色狐狸跳过懒狗。", "x", "GET /v1/search 200 12ms", "naïve café 🦊")


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture(scope="module", params=["hashing", "local", "openai"])
def table(request: pytest.FixtureRequest, server: EmbeddingServer) -> EmbeddingTable:
    if request.param == "openai":
        return EmbeddingTable(provider="openai", base_url=server.base_url, model="small", document_prefix="passage: ")
    return EmbeddingTable(provider=request.param, document_prefix="passage: ", query_prefix="query: ")


@pytest.fixture(scope="module")
def embedder(table: EmbeddingTable) -> Iterator[Embedder]:
    built = embedder_for(table)
    yield built
    built.close()
    built.close()


def values(vector: bytes) -> np.ndarray:
    return np.frombuffer(vector, dtype="<f4")


def test_there_is_one_vector_a_text_of_the_spaces_dimensions_and_unit_length(embedder: Embedder) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert [embedder.space.dimensions] * len(TEXTS) == [len(values(vector)) for vector in vectors]
    np.testing.assert_allclose([np.linalg.norm(values(vector)) for vector in vectors], 1.0, atol=1e-6)


def test_equal_texts_have_equal_bits_whatever_else_is_in_the_call(embedder: Embedder) -> None:
    together = embedder.embed_documents(TEXTS)
    alone = [embedder.embed_documents([text])[0] for text in TEXTS]
    backwards = embedder.embed_documents(TEXTS[::-1] * 3)
    assert together == alone
    assert together[::-1] * 3 == backwards


def test_different_texts_have_different_vectors(embedder: Embedder) -> None:
    assert len(TEXTS) == len(set(embedder.embed_documents(TEXTS)))


def test_no_texts_make_no_call(embedder: Embedder) -> None:
    before = embedder.calls
    assert embedder.embed_documents([]) == []
    assert before == embedder.calls


def test_a_query_has_a_unit_vector_of_the_space(embedder: Embedder) -> None:
    vector = values(embedder.embed_query("brown fox"))
    assert embedder.space.dimensions == len(vector)
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)


def test_a_blank_query_is_the_zero_vector(embedder: Embedder) -> None:
    if embedder.space.provider != "openai":
        embedder = embedder_for(EmbeddingTable(provider=embedder.space.provider))
    assert bytes(4 * embedder.space.dimensions) == embedder.embed_query(" \n ")


def test_a_lone_surrogate_does_no_harm(embedder: Embedder) -> None:
    assert 4 * embedder.space.dimensions == len(embedder.embed_query("fox \ud800"))


def test_prepare_is_prefix_and_text_and_agrees_with_the_space(embedder: Embedder) -> None:
    assert "passage: fox" == embedder.prepare("fox") == prepared(embedder.space, "fox")


def test_the_prefix_is_sent_once(embedder: Embedder, table: EmbeddingTable) -> None:
    plain = embedder_for(table.model_copy(update={"document_prefix": ""}))
    assert plain.embed_documents(["passage: fox"]) == embedder.embed_documents(["fox"])
    plain.close()


def test_a_recorded_space_is_rebuilt_with_equal_vectors_under_another_configuration(embedder: Embedder, table: EmbeddingTable) -> None:
    other = EmbeddingTable(provider="local" if table.provider == "hashing" else "hashing")
    rebuilt = embedder_of(embedder.space, other)
    assert embedder.space == rebuilt.space
    assert embedder.embed_documents(TEXTS) == rebuilt.embed_documents(TEXTS)
    rebuilt.close()


def test_threads_may_share_an_embedder(embedder: Embedder) -> None:
    expected = embedder.embed_documents(TEXTS)
    seen: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: seen.append(embedder.embed_documents(TEXTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [expected] * 4 == seen
