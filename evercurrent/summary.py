"""What a pass did, as CONTRACTS words it. Pure: change-log rows and ledger states in, one value out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evercurrent.say import counted
from store.model import Change, ChangeKind, DocumentState, DocumentStatus


@dataclass(frozen=True, slots=True)
class DocumentNumbers:
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    moved: int = 0
    deleted: int = 0
    failed: int = 0
    empty: int = 0
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class ChunkNumbers:
    added: int = 0
    kept: int = 0
    moved: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    document: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Summary:
    documents: DocumentNumbers
    chunks: ChunkNumbers
    embedded: int
    """Texts really sent to the embedder."""
    reused: int
    seconds: float
    failures: tuple[Failure, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "documents": numbers_json(self.documents),
            "chunks": numbers_json(self.chunks),
            "embedded": self.embedded,
            "reused": self.reused,
            "seconds": round(self.seconds, 3),
            "failures": [{"document": f.document, "code": f.code, "message": f.message} for f in self.failures],
        }


def numbers_json(numbers: DocumentNumbers | ChunkNumbers) -> dict[str, int]:
    return {name: getattr(numbers, name) for name in numbers.__slots__}


def summary_of(
    changes: Iterable[Change],
    statuses: Sequence[DocumentStatus],
    *,
    faults: Sequence[Failure] = (),
    claimed: int,
    ignored: int,
    embedded: int,
    seconds: float,
) -> Summary:
    """The summary of a pass.

    `changes`: change-log rows of the pass and its scope, in order. `statuses`: its documents in the states quarantined and empty.
    `faults`: places that could not be looked into. `claimed`, `ignored`: files that the scan found, by whether a loader takes them.
    """
    rows = list(changes)
    quarantined = tuple(
        Failure(status.document.uri, status.code or "internal", status.message or "")
        for status in statuses
        if status.state is DocumentState.QUARANTINED
    )
    failures = (*quarantined, *faults)
    added, updated, moved, deleted = _fates(rows)
    changed = {row.document for row in rows if row.kind is ChangeKind.INDEXED}
    moved_chunks = sum(row.moved for row in rows)
    documents = DocumentNumbers(
        added=added,
        updated=updated,
        unchanged=max(0, claimed - added - updated - moved - len(quarantined)),
        moved=moved,
        deleted=deleted,
        failed=len(failures),
        empty=len(changed & {status.document for status in statuses if status.state is DocumentState.EMPTY}),
        ignored=ignored,
    )
    chunks = ChunkNumbers(
        added=sum(row.added for row in rows),
        kept=sum(row.kept for row in rows),
        moved=moved_chunks,
        dropped=sum(row.dropped for row in rows) - moved_chunks,  # the old uri of a move drops the rows that the new one took over
    )
    return Summary(documents, chunks, embedded, sum(row.reused for row in rows), seconds, failures)


def _fates(rows: Sequence[Change]) -> tuple[int, int, int, int]:
    """Each document once, by what became of it in the end: added, updated, moved, deleted. The old uri of a move counts for nothing."""
    left_by_move = {row.moved_from for row in rows if row.moved_from is not None}
    first: set[object] = set()
    last: dict[object, ChangeKind] = {}
    moved: set[object] = set()
    for row in rows:
        if row.document is None:
            continue
        last[row.document] = row.kind
        if row.first:
            first.add(row.document)
        if row.moved_from is not None:
            moved.add(row.document)
    there = {document for document, kind in last.items() if kind is not ChangeKind.DELETED}
    gone = set(last) - there - left_by_move
    added = (first & there) - moved
    return len(added), len(there - added - moved), len(moved & there), len(gone - first)


def people_lines(summary: Summary) -> list[str]:
    """The summary for people."""
    documents, chunks = summary.documents, summary.chunks
    named = [(name, count) for name, count in numbers_json(documents).items() if count]
    lines = ["documents: " + (", ".join(f"{count} {name}" for name, count in named) or "none")]
    lines.append(f"chunks: {chunks.added} added, {chunks.kept} kept, {chunks.moved} moved, {chunks.dropped} dropped")
    lines.append(f"embedded {counted(summary.embedded, 'text')}, reused {summary.reused}, in {summary.seconds:.1f} s")
    lines += [f"failed: {failure.document}: {failure.message} [{failure.code}]" for failure in summary.failures]
    return lines
