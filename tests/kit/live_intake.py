"""An intake's application over a real catalog, with a worker behind its bell: what is uploaded is indexed before the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indexer.collections import Collections
from indexer.embedding.hashing import HashingEmbedder
from indexer.http import IntakeReports, application
from indexer.uploads import FetchedUpload, Uploads, fetch_upload
from indexer.wiring import open_catalog
from store.clock import SystemClock
from store.config import Config, IndexerTable, UploadsTable
from store.folder import DataFolder
from store.model import LeasedDocument, SessionId
from store.ports import Catalog
from workers.sync import Bench, sync_documents


@dataclass
class LiveIntake:
    app: Any
    catalog: Catalog
    uploads: Uploads
    config: Config


@contextmanager
def live_intake(data: Path, **limits: Any) -> Iterator[LiveIntake]:
    """`limits` are of `indexer.uploads`."""
    embedding = IndexerTable().embedding.model_copy(update={"provider": "hashing"})
    config = Config(indexer=IndexerTable(uploads=UploadsTable(**{"free_bytes_min": 0, **limits}), embedding=embedding))
    clock, folder = SystemClock(), DataFolder(data)
    catalog = open_catalog(folder, config, clock)
    session = SessionId("live-worker")
    catalog.open_session(session, "worker", 1, clock.now())
    working = threading.Lock()

    def fetch(leased: LeasedDocument) -> FetchedUpload:
        return fetch_upload(uploads.blobs, leased, config.indexer.document_bytes_max)

    bench = Bench(
        catalog=catalog,
        clock=clock,
        session_id=session,
        fetch=fetch,
        is_gone=lambda _leased: False,
        embedder_of=HashingEmbedder,
        draw=lambda: 0.5,
        lease_seconds=60,
        attempts_max=6,
        batch_texts_max=64,
    )

    def work() -> None:
        with working:
            pending = catalog.pending(64, clock.now())
            if pending:
                sync_documents(bench, [row.document for row in pending])

    uploads = Uploads(catalog, folder, config, clock, work)
    reports = IntakeReports(lambda: (), lambda: (), lambda _seconds: None, dict, lambda: b"")
    collections = Collections(catalog, clock, uploads.furnish, work, uploads.fields)
    yield LiveIntake(application(catalog, reports, uploads, collections), catalog, uploads, config)
    catalog.close()
