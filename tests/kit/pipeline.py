"""A whole pipeline in one process: a real folder, a catalog, one worker's bench, and an embedder that counts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indexer.embedding.hashing import HashingEmbedder
from indexer.embedding.port import Embedder, InputsRejected
from indexer.embedding.spaces import space_of
from indexer.load.registry import claims
from indexer.recipe import recipe_of
from indexer.sources.folder import Fetched
from indexer.sources.places import fetch_from, is_surely_gone
from indexer.sources.reconciling import reconcile_root
from store.clock import Clock
from store.config import EmbeddingTable, SplitTable
from store.errors import EvercurrentError
from store.model import (
    CollectionId,
    CollectionName,
    DocumentId,
    LeasedDocument,
    Namespace,
    Root,
    RootName,
    SessionId,
    SourceKind,
    Space,
)
from store.ports import Catalog
from workers.sync import Bench, Report, sync_documents

HOME = CollectionId(Namespace("default"), CollectionName("main"))
HASHING = EmbeddingTable(provider="hashing")


class CountingEmbedder:
    """The hashing embedder with a record of what it was sent, and failures on demand."""

    def __init__(self, space: Space) -> None:
        self._inner = HashingEmbedder(space)
        self.space = space
        self.sent: list[str] = []
        self.batches: list[int] = []
        self.calls = 0
        self.tokens = 0
        self.before_call: Callable[[int], None] = lambda _number: None
        """Called with the number of the call, from 1; may raise what the port may raise."""
        self.refused: dict[str, str] = {}
        """Texts that hold the key are refused with the reason."""

    def prepare(self, text: str) -> str:
        return self._inner.prepare(text)

    def embed_documents(self, texts: Sequence[str]) -> list[bytes]:
        self.calls += 1
        self.before_call(self.calls)
        self.sent += texts
        self.batches.append(len(texts))
        vectors = self._inner.embed_documents(texts)
        reasons = {place: why for place, text in enumerate(texts) for part, why in self.refused.items() if part in text}
        if reasons:
            raise InputsRejected(
                provider="counting", reasons=reasons, vectors=[b"" if place in reasons else vector for place, vector in enumerate(vectors)]
            )
        return vectors

    def embed_query(self, text: str) -> bytes:
        return self._inner.embed_query(text)

    def close(self) -> None:
        self._inner.close()


@dataclass
class Pipeline:
    catalog: Catalog
    clock: Clock
    folder: Path
    split: SplitTable = field(default_factory=lambda: SplitTable(chunk_chars_max=200))
    embedding: EmbeddingTable = HASHING
    job_documents_max: int = 64
    batch_texts_max: int = 64
    fetch_failures: dict[str, EvercurrentError] = field(default_factory=dict)
    bucket_url: str | None = None
    """The root is this bucket instead of the folder."""

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        space = space_of(self.embedding)
        assert space is not None
        self.embedders: dict[str, CountingEmbedder] = {}
        self.embedder = self.embedder_of(space)
        self.configure(self.split)
        root = Root(HOME, RootName("docs"), SourceKind.FOLDER, str(self.folder), "", self.folder.stat().st_dev)
        if self.bucket_url is not None:
            root = Root(HOME, RootName("docs"), SourceKind.BUCKET, self.bucket_url, "")
        self.root = self.catalog.ensure_root(root)
        self.bench = self.new_bench("worker-1")

    def configure(self, split: SplitTable) -> None:
        self.catalog.ensure_collection(HOME, recipe_of(split), self.embedder.space)

    def embedder_of(self, space: Space) -> CountingEmbedder:
        return self.embedders.setdefault(space.space_id, CountingEmbedder(space))

    def new_bench(self, session: str) -> Bench:
        session_id = SessionId(session)
        self.catalog.open_session(session_id, "worker", 1, self.clock.now())

        def embedder_of(space: Space) -> Embedder:
            return self.embedder_of(space)

        return Bench(
            catalog=self.catalog,
            clock=self.clock,
            session_id=session_id,
            fetch=self.fetch,
            is_gone=lambda leased: is_surely_gone(leased.root, leased.document.uri),
            embedder_of=embedder_of,
            draw=lambda: 0.5,
            lease_seconds=10,
            attempts_max=6,
            batch_texts_max=self.batch_texts_max,
        )

    def fetch(self, leased: LeasedDocument) -> Fetched:
        failure = self.fetch_failures.get(leased.document.uri)
        if failure is not None:
            raise failure
        return fetch_from(leased.root, leased.document.uri, 1_000_000, self.clock)

    # --- the folder

    def write(self, uri: str, text: str) -> None:
        path = self.folder / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def rename(self, old: str, new: str) -> None:
        (self.folder / new).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.folder / old, self.folder / new)

    def delete(self, uri: str) -> None:
        (self.folder / uri).unlink()

    # --- the pipeline, step by step

    def reconcile(self) -> None:
        found = reconcile_root(self.root, self.catalog.sightings(self.root), self.clock, claims)
        self.catalog.record(found.reconciled.intents)

    def work(self, bench: Bench | None = None) -> Report:
        """One job over what is pending now."""
        pending = self.catalog.pending(self.job_documents_max, self.clock.now())
        return sync_documents(bench or self.bench, [row.document for row in pending])

    def settle(self) -> None:
        """Reconciles and works until nothing is pending."""
        self.reconcile()
        while self.catalog.pending(1, self.clock.now()):
            self.work()

    # --- what is visible

    def document(self, uri: str) -> DocumentId:
        return HOME.document(uri)

    def texts(self) -> dict[str, list[str]]:
        """Visible chunk texts, in order, by uri."""
        with self.catalog.snapshot() as snapshot:
            return {
                visible.document.uri: [visible.chunk_text(placement) for placement in visible.layout.placements]
                for visible in snapshot.documents(HOME)
            }

    def chunk_ids(self) -> dict[str, list[str]]:
        with self.catalog.snapshot() as snapshot:
            return {
                visible.document.uri: [placement.chunk_id.hex() for placement in visible.layout.placements]
                for visible in snapshot.documents(HOME)
            }

    def state(self, uri: str) -> str:
        status = self.catalog.status_of(self.document(uri))
        return "unknown" if status is None else status.state.value


def paragraphs(*tags: str, chars: int = 170) -> str:
    """One paragraph a tag, each as long as a chunk: one paragraph is one chunk at a maximum of 200 characters."""
    return "\n\n".join(_paragraph(tag, chars) for tag in tags) + "\n"


def _paragraph(tag: str, chars: int) -> str:
    filler = "the pipeline keeps only what changed and removes what is gone "
    text = f"MARK-{tag} "
    while len(text) < chars:
        text += filler
    return text[: chars - 1].rstrip().ljust(chars - 1, "x") + "."
