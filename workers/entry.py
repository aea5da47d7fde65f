"""Where a job enters: the only dotted name that travels. Decodes names and hands them to what this process installed.

Catalog and embedder are opened once a process, by its wiring, before the first job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from indexer.feed import documents_of
from store.errors import EvercurrentError, Rejected
from store.model import DocumentId

Bench = Callable[[Sequence[DocumentId]], None]
"""Carries out one job. Returns when every document has its outcome; raises DocumentsQuarantined when some were quarantined."""


class DocumentsQuarantined(Rejected):
    """Ends the job failed, so that the dashboard shows it; the documents' own outcomes are recorded already."""

    code = "documents_quarantined"
    sentence = "{count} of {documents} documents were quarantined: {first}"


class BenchMissing(EvercurrentError):
    code = "bench_missing"
    sentence = "A job arrived in a process that was not set up for work; start workers by `evercurrent worker` or `evercurrent up`."


_installed: list[Bench] = []


def install(bench: Bench) -> None:
    """Sets what carries out this process's jobs; a second call replaces it."""
    _installed[:] = [bench]


def index_documents(payload: object) -> None:
    """RQ's entry. May run twice for the same documents: each looks at the source as it is, under a lease.

    Raises PayloadUnknown, BenchMissing and what the bench raises.
    """
    documents = documents_of(payload)
    if not _installed:
        raise BenchMissing
    _installed[0](documents)
