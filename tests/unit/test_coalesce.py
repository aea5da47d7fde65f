"""Claims about bursts: one change a document, whatever the order, and the source's state in the end."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from indexer.coalesce import CLOSES_AT_ONCE_MAX, Change, Lately, State, coalesce, lately_told
from indexer.events import Event, EventKind

SETTLE, SETTLE_MAX = 0.3, 5.0


def created(uri: str, at: float = 0.0) -> Event:
    return Event(EventKind.CREATED, uri, at)


def modified(uri: str, at: float = 0.0) -> Event:
    return Event(EventKind.MODIFIED, uri, at)


def closed(uri: str, at: float = 0.0) -> Event:
    return Event(EventKind.CLOSED, uri, at)


def deleted(uri: str, at: float = 0.0) -> Event:
    return Event(EventKind.DELETED, uri, at)


def moved(uri: str, to: str, at: float = 0.0) -> Event:
    return Event(EventKind.MOVED, uri, at, moved_to=to)


def said(changes: Iterable[Change]) -> list[str]:
    return sorted(f"{c.moved_from}>{c.uri}" if c.moved_from else ("+" if c.present else "-") + c.uri for c in changes)


def after(*events: Event, now: float = 100.0) -> list[str]:
    """What a burst comes to when all of it has settled."""
    state, changes, wake = coalesce({}, events, now, SETTLE, SETTLE_MAX)
    assert (dict(state), wake) == ({}, None)
    return said(changes)


def test_what_a_writer_closed_waits_for_nothing() -> None:
    state, changes, wake = coalesce({}, [created("a", 1.0), modified("a", 1.0), closed("a", 1.0)], 1.0, SETTLE, SETTLE_MAX)
    assert (said(changes), dict(state), wake) == (["+a"], {}, None)


def test_the_rest_settles_first() -> None:
    state, changes, wake = coalesce({}, [created("a", 1.0), modified("a", 1.2)], 1.4, SETTLE, SETTLE_MAX)
    assert (changes, wake) == ((), 1.5)
    assert said(coalesce(state, [], 1.5, SETTLE, SETTLE_MAX)[1]) == ["+a"]


def test_a_write_after_a_close_opens_it_again() -> None:
    assert coalesce({}, [closed("a", 1.0), modified("a", 1.1)], 1.2, SETTLE, SETTLE_MAX)[1] == ()


def test_a_document_that_never_settles_is_told_in_time() -> None:
    told: list[float] = []
    state: State = {}
    for tick in range(100):
        now = tick / 10
        state, changes, _ = coalesce(state, [modified("log", now)], now, 0.5, 2.0)
        told += [now for _ in changes]
    assert told[0] <= 2.0
    assert all(later - earlier <= 2.2 for earlier, later in pairwise(told))
    assert len(told) <= 5


def told_of_saves(times: Iterable[float], now_max: float) -> list[float]:
    """When a document saved (opened, written, closed) at `times` is told of, by a loop that looks every 10 ms."""
    told: list[float] = []
    state: State = {}
    lately: Lately = {}
    saves = list(times)
    for tick in range(int(now_max * 100)):
        now = tick / 100
        events = [closed("doc", at) for at in saves if at <= now]
        saves = [at for at in saves if at > now]
        state, changes, _ = coalesce(state, events, now, SETTLE, 2.0, lately)
        lately = lately_told(lately, state, changes, now, SETTLE)
        told += [now for _ in changes]
    assert dict(lately) == {}, "what was told long ago is forgotten"
    return told


def test_fifty_saves_in_a_second_are_a_few_changes_and_the_last_is_told() -> None:
    told = told_of_saves([tick / 50 for tick in range(50)], 3.0)
    assert len(told) <= CLOSES_AT_ONCE_MAX + 1
    assert told[0] == 0.0
    assert told[-1] >= 0.98


def test_a_document_closed_again_and_again_is_told_in_time() -> None:
    told = told_of_saves([tick / 10 for tick in range(40)], 6.0)
    assert told[:CLOSES_AT_ONCE_MAX] == [0.0, 0.1]
    assert all(later - earlier <= 2.2 for earlier, later in pairwise(told))
    assert len(told) <= CLOSES_AT_ONCE_MAX + 2
    assert told[-1] >= 3.9


def test_a_formatter_that_saves_after_the_editor_waits_for_nothing() -> None:
    assert told_of_saves([0.0, 0.05], 1.0) == [0.0, 0.05]


def test_saves_with_a_quiet_time_between_them_wait_for_nothing() -> None:
    assert told_of_saves([0.0, 0.4, 0.8, 1.2], 2.0) == [0.0, 0.4, 0.8, 1.2]


def test_a_busy_document_holds_up_no_other() -> None:
    lately = lately_told({}, {}, coalesce({}, [closed("log")], 0.0, SETTLE, SETTLE_MAX)[1], 0.0, SETTLE)
    lately = lately_told(lately, {}, coalesce({}, [closed("log", 0.1)], 0.1, SETTLE, SETTLE_MAX, lately)[1], 0.1, SETTLE)
    state, changes, _ = coalesce({}, [closed("log", 0.2), closed("doc", 0.2)], 0.2, SETTLE, SETTLE_MAX, lately)
    assert (said(changes), list(state)) == (["+doc"], ["log"])


def test_a_burst_is_one_change() -> None:
    assert after(created("a"), modified("a"), modified("a"), closed("a"), modified("a")) == ["+a"]


def test_delete_and_create_is_one_present() -> None:
    assert after(deleted("a", 1.0), created("a", 1.1), closed("a", 1.1)) == ["+a"]


def test_create_and_delete_is_one_absent() -> None:
    assert after(created("a"), closed("a"), deleted("a")) == ["-a"]


def test_an_atomic_save_from_an_ignored_name_waits_for_nothing() -> None:
    assert said(coalesce({}, [closed("doc", 1.0)], 1.0, SETTLE, SETTLE_MAX)[1]) == ["+doc"]


def test_an_atomic_save_from_a_name_of_its_own_waits_for_nothing() -> None:
    events = [created("doc.new", 1.0), closed("doc.new", 1.0), moved("doc.new", "doc", 1.0)]
    assert said(coalesce({}, events, 1.0, SETTLE, SETTLE_MAX)[1]) == ["+doc"]


def test_a_rename_has_both_ends() -> None:
    assert after(moved("a", "b")) == ["a>b"]


def test_a_chain_of_renames_is_one() -> None:
    assert after(moved("a", "b"), moved("b", "c"), moved("c", "d")) == ["-b", "-c", "a>d"]


def test_a_rename_there_and_back_is_a_look_at_the_same_document() -> None:
    assert after(moved("a", "b"), moved("b", "a")) == ["+a", "-b"]


def test_a_renamed_document_that_is_deleted_is_gone_from_both_places() -> None:
    assert after(moved("a", "b"), deleted("b")) == ["-a", "-b"]


def test_a_rename_onto_a_document_takes_its_place() -> None:
    assert after(modified("b"), moved("a", "b")) == ["a>b"]


def test_a_swap_changes_both_and_moves_none() -> None:
    assert after(moved("a", "t"), moved("b", "a"), moved("t", "b")) == ["+a", "+b", "-t"]


def test_a_place_that_is_taken_again_was_not_renamed_away() -> None:
    assert after(moved("doc", "doc.bak"), created("doc"), closed("doc")) == ["+doc", "+doc.bak"]


def test_a_place_that_was_told_of_is_no_origin_later() -> None:
    state, changes, _ = coalesce({}, [moved("doc", "bak", 1.0), created("doc", 1.0), closed("doc", 1.0)], 1.0, SETTLE, SETTLE_MAX)
    assert said(changes) == ["+doc"]
    assert said(coalesce(state, [deleted("doc", 1.1)], 9.0, SETTLE, SETTLE_MAX)[1]) == ["+bak", "-doc"]


def test_a_renamed_document_is_never_told_gone_before_its_new_place() -> None:
    state, changes, _ = coalesce({}, [moved("a", "b", 1.0), modified("b", 1.2)], 1.3, SETTLE, SETTLE_MAX)
    assert said(changes) == ["a>b"]
    assert dict(state) == {}


def test_a_repeated_event_changes_nothing() -> None:
    assert after(moved("a", "b"), moved("a", "b"), created("b")) == ["a>b"]
    assert after(deleted("a"), deleted("a")) == ["-a"]


def test_a_new_document_is_told_as_created() -> None:
    (change,) = coalesce({}, [created("a"), closed("a")], 9.0, SETTLE, SETTLE_MAX)[1]
    assert change.created
    (change,) = coalesce({}, [modified("a"), closed("a")], 9.0, SETTLE, SETTLE_MAX)[1]
    assert not change.created


# --- the law ------------------------------------------------------------------------------------------------

NAMES = "abcd"
operations = st.lists(
    st.tuples(st.sampled_from(["write", "open", "delete", "rename", "wait", "look"]), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    max_size=30,
)


@given(st.sets(st.sampled_from(NAMES)), operations)
def test_the_changes_of_any_script_make_the_ledger_equal_to_the_source(start: set[str], script: list[tuple[str, str, str]]) -> None:
    source = {name: number for number, name in enumerate(sorted(start))}
    ledger = dict(source)
    number, now = 100, 0.0
    state: State = {}
    events: list[Event] = []
    for operation, name, other in script:
        number += 1
        now += 0.01
        match operation:
            case "write" | "open":
                events += [modified(name, now) if name in source else created(name, now)]
                events += [closed(name, now)] if operation == "write" else []
                source[name] = number
            case "delete" if name in source:
                del source[name]
                events.append(deleted(name, now))
            case "rename" if name in source and name != other:
                source[other] = source.pop(name)
                events.append(moved(name, other, now))
            case "wait":
                now += 0.4
            case "look":
                state = look(state, events, now, source, ledger)
                events = []
            case _:
                pass
    look(state, events, now + 99, source, ledger)
    assert ledger == source


def look(state: State, events: list[Event], now: float, source: dict[str, int], ledger: dict[str, int]) -> State:
    state, changes, wake = coalesce(state, events, now, SETTLE, SETTLE_MAX)
    assert (wake is None) is (not state)
    uris = [change.uri for change in changes] + [change.moved_from for change in changes if change.moved_from]
    assert len(uris) == len(set(uris))
    for change in changes:
        assert change.present is (change.uri in source)
        if change.present:
            ledger[change.uri] = source[change.uri]
            if change.moved_from is not None:
                assert change.moved_from not in source
                ledger.pop(change.moved_from, None)
        else:
            ledger.pop(change.uri, None)
    return state
