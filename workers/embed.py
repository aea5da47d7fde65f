"""Embeds what a job's drafts need and the space does not have: each text once, batched across the documents.

All but the last batch are staged in the catalog, so that a killed worker pays again only for the batch in flight; vectors that cost
nothing are not. A text that the provider refuses fails only the documents that hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from indexer.embedding.batching import batches
from indexer.embedding.port import Embedder, InputsRejected
from store.errors import EvercurrentError, InputRejected, Transient
from store.model import CollectionId, InputHash, SessionId, Space
from store.ports import Commits, Tally

log = structlog.get_logger()

BATCH_CHARS_MAX = 400_000
FREE_PROVIDERS = frozenset({"hashing"})
"""Their vectors are made again sooner than written ahead of the commit and read back."""


@dataclass(slots=True)
class Embedded:
    """What came of embedding one space's texts."""

    vectors: dict[InputHash, bytes] = field(default_factory=dict)
    """New, not staged: they travel with the commit."""
    sent: set[InputHash] = field(default_factory=set)
    """Texts that were really sent and answered."""
    failures: dict[InputHash, EvercurrentError] = field(default_factory=dict)
    """Why a text has no vector: the provider refuses it, or did not answer."""


def embed_missing(
    texts: Mapping[InputHash, str],
    home: CollectionId,
    embedder: Embedder,
    catalog: Commits,
    session_id: SessionId,
    batch_texts_max: int,
) -> Embedded:
    """Embeds those of `texts` whose vector the namespace does not hold. Running it twice is harmless: what is staged is not sent again."""
    done = Embedded()
    missing = catalog.missing(home, embedder.space, texts.keys())
    todo = list(batches({input_hash: texts[input_hash] for input_hash in missing}, batch_texts_max, BATCH_CHARS_MAX))
    for number, batch in enumerate(todo, start=1):
        try:
            vectors = embed_batch(batch, embedder, done)
        except EvercurrentError as error:
            done.failures.update((input_hash, error) for rest in todo[number - 1 :] for input_hash, _ in rest)
            catalog.stage(session_id, home, embedder.space, done.vectors)
            break
        if number < len(todo) and embedder.space.provider not in FREE_PROVIDERS:
            catalog.stage(session_id, home, embedder.space, vectors)
        else:
            done.vectors.update(vectors)
    return done


def embed_batch(batch: Sequence[tuple[InputHash, str]], embedder: Embedder, done: Embedded) -> dict[InputHash, bytes]:
    try:
        vectors = embedder.embed_documents([text for _, text in batch])
        reasons: Mapping[int, str] = {}
    except InputsRejected as error:
        vectors, reasons = error.vectors, error.reasons
    accepted: dict[InputHash, bytes] = {}
    for place, ((input_hash, _), vector) in enumerate(zip(batch, vectors, strict=True)):
        done.sent.add(input_hash)
        if place in reasons:
            done.failures[input_hash] = InputRejected(provider=embedder.space.provider, reason=reasons[place])
        else:
            accepted[input_hash] = vector
    return accepted


def failure_of(inputs: Iterable[InputHash], failures: Mapping[InputHash, EvercurrentError]) -> EvercurrentError | None:
    """What a document's failure is: a refused text counts more than a provider that did not answer."""
    found = [failures[input_hash] for input_hash in inputs if input_hash in failures]
    lasting = [error for error in found if not isinstance(error, Transient)]
    return next(iter(lasting or found), None)


def embedding_tallies(embedder: Embedder, calls_before: int, tokens_before: int, namespace: str) -> list[Tally]:
    return [
        Tally("evercurrent_embedding_calls_total", (), embedder.calls - calls_before),
        Tally("evercurrent_embedded_tokens_total", (("namespace", namespace),), embedder.tokens - tokens_before),
    ]


def spaces_of(spaces: Iterable[Space]) -> list[Space]:
    """Each space once, in order."""
    return list({space.space_id: space for space in spaces}.values())
