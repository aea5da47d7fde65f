from __future__ import annotations

from evercurrent.summary import ChunkNumbers, DocumentNumbers, Failure, Summary, people_lines, summary_of
from store.model import (
    Change,
    ChangeKind,
    CollectionId,
    CollectionName,
    DocumentState,
    DocumentStatus,
    Instant,
    Namespace,
    RootName,
    Seq,
    Version,
)

HOME = CollectionId(Namespace("default"), CollectionName("main"))
INDEXED, DELETED = ChangeKind.INDEXED, ChangeKind.DELETED


def change(
    uri: str, kind: ChangeKind = INDEXED, *, seq: int = 1, moved_from: str | None = None, first: bool = False, **counts: int
) -> Change:
    source = None if moved_from is None else HOME.document(moved_from)
    return Change(Seq(seq), Instant(0), kind, HOME, HOME.document(uri), Version(seq), first=first, moved_from=source, **counts)


def status(uri: str, state: DocumentState, code: str | None = None, message: str | None = None) -> DocumentStatus:
    return DocumentStatus(HOME.document(uri), state, Version(2), Version(1), 0, RootName("main"), Instant(0), code=code, message=message)


def summary(changes: list[Change], statuses: tuple[DocumentStatus, ...] = (), claimed: int = 0) -> Summary:
    return summary_of(changes, statuses, claimed=claimed, ignored=0, embedded=0, seconds=1.0)


def test_added_updated_and_deleted_are_told_apart() -> None:
    rows = [change("new.md", first=True, added=3), change("old.md", added=1, kept=4, dropped=1), change("gone.md", DELETED, dropped=2)]
    found = summary(rows, claimed=5)
    assert found.documents == DocumentNumbers(added=1, updated=1, unchanged=3, deleted=1)
    assert found.chunks == ChunkNumbers(added=4, kept=4, dropped=3)


def test_a_rename_is_one_moved_document_and_drops_nothing() -> None:
    rows = [change("b.md", moved_from="a.md", first=True, moved=3), change("a.md", DELETED, dropped=3)]
    found = summary(rows, claimed=1)
    assert (found.documents, found.chunks) == (DocumentNumbers(moved=1), ChunkNumbers(moved=3))


def test_a_rename_with_an_edit_drops_what_was_not_taken_over() -> None:
    rows = [change("b.md", moved_from="a.md", first=True, moved=4, added=1), change("a.md", DELETED, dropped=5)]
    assert summary(rows).chunks == ChunkNumbers(added=1, moved=4, dropped=1)


def test_a_document_that_came_and_went_within_the_pass_is_neither_added_nor_deleted() -> None:
    rows = [change("x.md", first=True, seq=1), change("x.md", DELETED, seq=2)]
    assert summary(rows).documents == DocumentNumbers()


def test_a_document_changed_twice_counts_once() -> None:
    rows = [change("x.md", seq=1), change("x.md", seq=2)]
    assert summary(rows, claimed=1).documents == DocumentNumbers(updated=1)


def test_an_empty_document_counts_as_added_and_empty() -> None:
    found = summary([change("e.md", first=True)], (status("e.md", DocumentState.EMPTY),), claimed=1)
    assert found.documents == DocumentNumbers(added=1, empty=1)


def test_a_document_that_was_empty_before_is_merely_unchanged() -> None:
    assert summary([], (status("e.md", DocumentState.EMPTY),), claimed=1).documents == DocumentNumbers(unchanged=1)


def test_a_quarantined_document_is_failed_with_its_reason_and_not_unchanged() -> None:
    bad = status("bad.md", DocumentState.QUARANTINED, "text_undecodable", "No text.")
    found = summary([], (bad,), claimed=3)
    assert found.failures == (Failure("bad.md", "text_undecodable", "No text."),)
    assert found.documents == DocumentNumbers(unchanged=2, failed=1)


def test_the_json_has_the_words_of_the_contract() -> None:
    words = summary([]).as_json()
    assert list(words) == ["documents", "chunks", "embedded", "reused", "seconds", "failures"]
    assert list(words["documents"]) == ["added", "updated", "unchanged", "moved", "deleted", "failed", "empty", "ignored"]
    assert list(words["chunks"]) == ["added", "kept", "moved", "dropped"]


def test_people_read_a_failure_in_its_own_line() -> None:
    bad = status("bad.md", DocumentState.QUARANTINED, "text_undecodable", "No text.")
    assert people_lines(summary([], (bad,)))[-1] == "failed: bad.md: No text. [text_undecodable]"
