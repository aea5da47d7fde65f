"""Claims about comparing a scan with the ledger: what changes, what does not, who was renamed, what is held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.guard import RootState
from indexer.reconcile import Comparison, Hashed, Looked, Reconciled, compare, settle_hashes
from store.model import (
    Absent,
    Cause,
    CollectionId,
    CollectionName,
    ContentHash,
    DocumentState,
    Held,
    Ignored,
    Instant,
    Namespace,
    Present,
    Root,
    RootName,
    Seen,
    Sighting,
    Signature,
    SourceKind,
    Uri,
    Version,
)

HOME = CollectionId(Namespace("default"), CollectionName("main"))
ROOT = Root(HOME, RootName("docs"), SourceKind.FOLDER, "/docs", "")
NOW = Instant(1000.0)


def signature(inode: int, length: int = 10, mtime: int = 1, device: int = 7) -> Signature:
    return Signature(length, mtime, inode, device)


def content(name: str) -> ContentHash:
    return ContentHash(name.encode().ljust(16, b"."))


def known(
    uri: str,
    seen: Signature | None,
    state: DocumentState = DocumentState.INDEXED,
    proven: bool = True,
    holds: str | None = "same",
) -> Sighting:
    return Sighting(Uri(uri), state, seen, proven, content(holds) if holds is not None else None, Version(1))


def step(
    sightings: Iterable[Sighting],
    found: Mapping[str, Signature],
    bytes_of: Mapping[str, str] | None = None,
    state: RootState = RootState.ALIVE,
    scope: str = "",
    unreadable: tuple[str, ...] = (),
    claims: Callable[[str], bool] = lambda uri: uri.endswith(".md"),
    excludes: Callable[[str], bool] = lambda _uri: False,
    hash_bytes_max: int = 1 << 20,
    devices: frozenset[int] = frozenset(),
) -> Reconciled:
    comparison = compare(sightings, Looked(scope, found, state, unreadable, devices), claims, excludes, hash_bytes_max)
    return settle_hashes(ROOT, comparison, hashed(comparison, found, bytes_of or {}), NOW)


def hashed(comparison: Comparison, found: Mapping[str, Signature], bytes_of: Mapping[str, str]) -> dict[str, Hashed]:
    return {uri: Hashed(content(bytes_of.get(uri, "same")), found[uri], proven=True) for uri in comparison.to_hash}


def said(reconciled: Reconciled) -> list[str]:
    """Intents in short: `+new`, `~changed`, `old>new`, `-gone`, `?ignored`, `!held`, `=seen`."""
    return [short(intent) for intent in reconciled.intents]


def short(intent: object) -> str:
    match intent:
        case Present(document, _, Cause.MOVED, moved_from=old):
            assert old is not None
            return f"{old.uri}>{document.uri}"
        case Present(document, _, cause):
            return ("+" if cause is Cause.CREATED else "~") + document.uri
        case Absent(document):
            return "-" + document.uri
        case Ignored(document):
            return "?" + document.uri
        case Held(document):
            return "!" + document.uri
        case Seen(document):
            return "=" + document.uri
    raise AssertionError(intent)


def test_nothing_changed_is_no_intent_and_no_hash() -> None:
    found = {"a.md": signature(1), "b.md": signature(2)}
    comparison = compare([known(uri, seen) for uri, seen in found.items()], Looked("", found, RootState.ALIVE), lambda _uri: True)
    assert comparison.to_hash == ()
    assert settle_hashes(ROOT, comparison, {}, NOW).intents == ()


def test_each_plain_change_is_one_intent() -> None:
    sightings = [known("changed.md", signature(1)), known("gone.md", signature(2)), known("same.md", signature(3))]
    found = {"changed.md": signature(1, length=11), "same.md": signature(3), "new.md": signature(4, length=99), "new.bin": signature(5)}
    reconciled = step(sightings, found)
    assert said(reconciled) == ["~changed.md", "+new.md", "-gone.md", "?new.bin"]
    assert (reconciled.counts.created, reconciled.counts.modified, reconciled.counts.missing, reconciled.counts.unchanged) == (1, 1, 1, 1)


def test_a_present_intent_carries_what_was_seen() -> None:
    (intent,) = step([], {"new.md": signature(4)}).intents
    assert intent == Present(HOME.document("new.md"), ROOT.name, Cause.CREATED, NOW, signature=signature(4))


def test_a_touch_costs_no_worker() -> None:
    sightings = [known(f"{n}.md", signature(n)) for n in range(20)]
    found = {f"{n}.md": signature(n, mtime=2) for n in range(20)}
    reconciled = step(sightings, found)
    assert [intent for intent in reconciled.intents if not isinstance(intent, Seen)] == []
    assert reconciled.counts.unchanged == 20


def test_bytes_decide_where_the_length_is_the_same() -> None:
    assert said(step([known("a.md", signature(1))], {"a.md": signature(1, mtime=2)}, {"a.md": "other"})) == ["~a.md"]


def test_an_unproven_signature_proves_nothing() -> None:
    unproven = known("a.md", signature(1), proven=False)
    assert said(step([unproven], {"a.md": signature(1)}, {"a.md": "other"})) == ["~a.md"]
    assert said(step([unproven], {"a.md": signature(1)})) == ["=a.md"]


def test_an_unproven_document_that_stays_unproven_is_not_written_again() -> None:
    found = {"a.md": signature(1)}
    comparison = compare([known("a.md", signature(1), proven=False)], Looked("", found, RootState.ALIVE), lambda _uri: True)
    hashes = {"a.md": Hashed(content("same"), signature(1), proven=False)}
    assert settle_hashes(ROOT, comparison, hashes, NOW).intents == ()


def test_what_exceeds_the_bound_of_hashed_bytes_is_left_to_a_worker() -> None:
    sightings = [known("big.md", signature(1, length=100)), known("small.md", signature(2, length=10))]
    found = {"big.md": signature(1, length=100, mtime=2), "small.md": signature(2, length=10, mtime=2)}
    assert said(step(sightings, found, hash_bytes_max=50)) == ["~big.md", "=small.md"]


def test_a_rename_is_recognised_by_the_file_itself() -> None:
    assert said(step([known("old.md", signature(1))], {"new.md": signature(1)})) == ["old.md>new.md"]


def test_a_case_only_rename_is_a_rename() -> None:
    assert said(step([known("Readme.md", signature(1))], {"README.md": signature(1)})) == ["Readme.md>README.md"]


def test_a_copy_that_replaced_its_original_is_a_rename_by_its_bytes() -> None:
    assert said(step([known("old.md", signature(1))], {"new.md": signature(9, mtime=5)})) == ["old.md>new.md"]
    assert said(step([known("old.md", signature(1))], {"new.md": signature(9)}, {"new.md": "other"})) == ["+new.md", "-old.md"]


def test_empty_files_are_never_paired_by_their_bytes() -> None:
    assert said(step([known("old.md", signature(1, length=0))], {"new.md": signature(9, length=0)})) == ["+new.md", "-old.md"]


def test_a_reused_inode_alone_is_no_rename() -> None:
    assert said(step([known("old.md", signature(1))], {"new.md": signature(1, length=33, mtime=4)})) == ["+new.md", "-old.md"]


def test_a_rename_onto_an_existing_document_takes_its_place() -> None:
    sightings = [known("a.md", signature(1, length=5), holds="A"), known("b.md", signature(2), holds="B")]
    assert said(step(sightings, {"b.md": signature(1, length=5)})) == ["a.md>b.md"]


def test_a_swap_changes_both_and_moves_none() -> None:
    sightings = [known("a.md", signature(1, mtime=1), holds="A"), known("b.md", signature(2, mtime=2), holds="B")]
    found = {"a.md": signature(2, mtime=2), "b.md": signature(1, mtime=1)}
    assert said(step(sightings, found, {"a.md": "B", "b.md": "A"})) == ["~a.md", "~b.md"]


def test_a_chain_of_renames_moves_what_left_and_keeps_the_rest() -> None:
    sightings = [known("a.md", signature(1, length=5), holds="A"), known("b.md", signature(2, length=6), holds="B")]
    found = {"b.md": signature(1, length=5), "c.md": signature(2, length=6)}
    assert said(step(sightings, found)) == ["a.md>b.md", "+c.md"]


def test_equal_documents_are_paired_by_inode_before_bytes() -> None:
    sightings = [known(f"old/{n}.md", signature(n, mtime=n)) for n in range(1, 6)]
    found = {f"new/{6 - n}.md": signature(n, mtime=n) for n in range(1, 6)}
    assert sorted(said(step(sightings, found))) == [f"old/{n}.md>new/{6 - n}.md" for n in range(1, 6)]


def test_equal_documents_copied_elsewhere_keep_their_base_names() -> None:
    sightings = [known(f"old/{n}.md", signature(n)) for n in range(1, 6)]
    found = {f"new/{n}.md": signature(100 - n, mtime=9) for n in range(1, 6)}
    assert sorted(said(step(sightings, found))) == [f"old/{n}.md>new/{n}.md" for n in range(1, 6)]


def test_an_old_document_is_the_source_of_one_rename_only() -> None:
    assert said(step([known("old.md", signature(1))], {"x.md": signature(1), "y.md": signature(1)})) == ["old.md>x.md", "+y.md"]


def test_quarantined_and_pending_documents_wait_until_their_file_changes() -> None:
    for state in (DocumentState.QUARANTINED, DocumentState.PENDING):
        waiting = known("a.md", signature(1), state, proven=False, holds=None)
        assert said(step([waiting], {"a.md": signature(1)})) == []
        assert said(step([waiting], {"a.md": signature(1, mtime=2)})) == ["~a.md"]


@pytest.mark.parametrize("state", [DocumentState.SUPPRESSED, DocumentState.CONFLICT])
def test_suppressed_and_foreign_documents_are_left_alone(state: DocumentState) -> None:
    assert said(step([known("a.md", signature(1), state)], {"a.md": signature(1, length=3)})) == []
    nobodys = known("a.md", signature(1), DocumentState.SUPPRESSED)
    assert said(step([nobodys], {"other.md": signature(2, length=3)})) == ["+other.md"]


def test_a_claim_leaves_with_its_file_and_the_guard_is_not_asked() -> None:
    claims = [known(f"{number}.md", signature(number), DocumentState.CONFLICT, proven=False, holds=None) for number in range(20)]
    assert sorted(said(step(claims, {}, state=RootState.EMPTY))) == sorted(f"-{number}.md" for number in range(20))
    assert said(step(claims, {}, state=RootState.ABSENT)) == []


def test_an_ignored_file_is_told_once() -> None:
    ignored = known("a.bin", signature(1), DocumentState.IGNORED, holds=None)
    assert said(step([ignored], {"a.bin": signature(1, length=77, mtime=8)})) == []


def test_an_ignored_file_that_a_loader_claims_now_is_present() -> None:
    assert said(step([known("a.md", signature(1), DocumentState.IGNORED, holds=None)], {"a.md": signature(1)})) == ["~a.md"]


def test_a_mass_disappearance_is_held_and_lets_go_without_a_worker() -> None:
    sightings = [known(f"{n}.md", signature(n)) for n in range(50)]
    assert said(step(sightings, {}, state=RootState.EMPTY)) == [f"!{n}.md" for n in range(50)]
    held = [known(f"{n}.md", signature(n), DocumentState.HELD) for n in range(50)]
    assert said(step(held, {}, state=RootState.EMPTY)) == []
    assert said(step(held, {f"{n}.md": signature(n) for n in range(50)})) == [f"={n}.md" for n in range(50)]


def test_a_moved_folder_is_no_disappearance() -> None:
    sightings = [known(f"old/{n}.md", signature(n)) for n in range(50)]
    reconciled = step(sightings, {f"new/{n}.md": signature(n) for n in range(50)})
    assert reconciled.held is None
    assert reconciled.counts.moved == 50


def test_documents_in_a_place_that_could_not_be_read_are_not_missing() -> None:
    sightings = [known("closed/a.md", signature(1)), known("closed.md", signature(2)), known("open.md", signature(3))]
    assert said(step(sightings, {"open.md": signature(3)}, unreadable=("closed",))) == ["-closed.md"]


def test_a_scoped_pass_touches_its_scope_only() -> None:
    sightings = [known("guide/a.md", signature(1)), known("guide2/b.md", signature(2)), known("guide", signature(3))]
    assert said(step(sightings, {}, scope="guide")) == ["-guide/a.md", "-guide"]


def test_documents_that_rules_keep_out_now_leave_without_the_guard() -> None:
    sightings = [known(f"drafts/{n}.md", signature(n)) for n in range(20)]
    reconciled = step(sightings, {}, excludes=lambda uri: uri.startswith("drafts/"), state=RootState.EMPTY)
    assert reconciled.held is None
    assert reconciled.counts.missing == 20


@given(
    before=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 6), max_size=8),
    after=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 6), max_size=8),
)
def test_recording_the_intents_makes_the_ledger_equal_to_the_source(before: dict[str, int], after: dict[str, int]) -> None:
    """Files are inodes here; an inode's bytes never change, so what a uri shows is which inode stands there."""
    sightings = [known(uri, signature(inode), holds=str(inode)) for uri, inode in before.items()]
    found = {uri: signature(inode) for uri, inode in after.items()}
    reconciled = step(sightings, found, {uri: str(inode) for uri, inode in after.items()}, claims=lambda _uri: True)
    ledger, sources = dict(before), []
    if not after and before:
        assert all(isinstance(intent, Held) for intent in reconciled.intents) or reconciled.held is None
    for intent in reconciled.intents:
        match intent:
            case Present(document, moved_from=old):
                ledger[document.uri] = after[document.uri]
                if old is not None:
                    sources.append(old.uri)
                    assert ledger.pop(old.uri) == after[document.uri]
            case Absent(document):
                del ledger[document.uri]
            case _:
                pass
    assert ledger == after
    assert len(sources) == len(set(sources))


# --- volumes inside of a root -------------------------------------------------------------------------------

ON_VOLUME = [known("v/a.md", signature(1, device=9)), known("v/b.md", signature(2, device=9), holds="b")]
BESIDE = [known(f"{number}.md", signature(10 + number), holds=f"{number}") for number in range(5)]
FOUND_BESIDE = {sighting.uri: sighting.signature for sighting in BESIDE if sighting.signature is not None}


def test_documents_of_a_volume_that_is_gone_are_held_however_few_they_are() -> None:
    result = step([*BESIDE, *ON_VOLUME], FOUND_BESIDE, devices=frozenset({7}))
    assert {(type(intent), intent.document.uri) for intent in result.intents} == {(Held, "v/a.md"), (Held, "v/b.md")}
    assert (result.counts.held, result.counts.missing) == (2, 0)


def test_a_deletion_beside_a_lost_volume_is_one() -> None:
    result = step([*BESIDE, *ON_VOLUME], dict(list(FOUND_BESIDE.items())[1:]), devices=frozenset({7}))
    assert [intent.document.uri for intent in result.intents if isinstance(intent, Absent)] == ["0.md"]
    assert (result.counts.held, result.counts.missing) == (2, 1)


def test_a_deletion_on_a_volume_that_is_there_is_one() -> None:
    result = step([*BESIDE, *ON_VOLUME], FOUND_BESIDE, devices=frozenset({7, 9}))
    assert {type(intent) for intent in result.intents} == {Absent}


def test_a_volume_that_came_back_under_another_number_may_have_lost_a_document() -> None:
    result = step([*BESIDE, *ON_VOLUME], FOUND_BESIDE | {"v/a.md": signature(1, device=12)}, devices=frozenset({7, 12}))
    assert {(type(intent), intent.document.uri) for intent in result.intents} == {(Seen, "v/a.md"), (Absent, "v/b.md")}


def test_documents_of_a_lost_volume_that_stand_elsewhere_now_were_moved() -> None:
    found = FOUND_BESIDE | {"w/b.md": signature(30)}
    result = step([*BESIDE, *ON_VOLUME], found, {"w/b.md": "b"}, devices=frozenset({7}))
    assert [(intent.moved_from and intent.moved_from.uri) for intent in result.intents if isinstance(intent, Present)] == ["v/b.md"]
    assert [intent.document.uri for intent in result.intents if isinstance(intent, Held)] == ["v/a.md"]


def test_where_devices_are_not_known_nothing_is_held_for_them() -> None:
    assert {type(intent) for intent in step([*BESIDE, *ON_VOLUME], FOUND_BESIDE).intents} == {Absent}
