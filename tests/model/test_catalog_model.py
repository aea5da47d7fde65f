"""A catalog driven at random beside plain dictionaries of files: whatever happens in between, it ends level with them.

Each adapter goes its own way, and both go one way together, giving the same answers at every step.

`MODEL_EXAMPLES=2000` searches longer; by default the run is short and always the same.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from kit.builders import (
    HOME,
    LEASE_SECONDS,
    Worker,
    absent,
    chunks_of,
    content_hash,
    document,
    furnish,
    present,
    recipe,
    root,
    signature,
    space,
    vector_of,
)
from kit.twins import open_catalog

from store.clock import SimulatedClock
from store.errors import CursorLapsed
from store.model import Described, DocumentId, DocumentState, Held, Instant, LeasedDocument, Outcome, Position, RootName, Seen
from store.ports import Catalog, Snapshot

URIS = ("a.md", "b.md", "c.md", "d.md")
LINES = ("one", "two", "three", "four")
NOTES, SECOND = "notes", "second"
ROOTS = {NOTES: root(), SECOND: root("second", "second/", "/srv/second")}
LOADED = {"author": "loader", "kind": "text"}
"""What the loader finds in every document."""
RETENTION_SECONDS = 100.0
SETTLE_ROUNDS_MAX = 20
MEMORY_FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Nothing here asks whether a disk keeps what it was given."""

uris = st.sampled_from(URIS)
texts = st.lists(st.sampled_from(LINES), max_size=4).map("\n".join)
workers = st.integers(0, 1)
names = st.sampled_from((NOTES, NOTES, SECOND))
patches = st.dictionaries(st.sampled_from(["author", "own"]), st.sampled_from([None, "ada", "mira"]), min_size=1)


class Follower:
    """A consumer that knows only the change log and the present state of the documents it names."""

    def __init__(self) -> None:
        self.position: Position | None = None
        self.documents: dict[str, str] = {}

    def follow(self, snapshot: Snapshot) -> None:
        try:
            changes = None if self.position is None else snapshot.changes(self.position, HOME)
        except CursorLapsed:
            changes = None
        if changes is None or changes.rebuild:
            self.documents = shown(snapshot)
        else:
            for changed in changes.documents:
                self.documents.pop(changed.uri, None)
            self.documents.update(shown(snapshot, changes.documents))
        self.position = snapshot.position


def owner_of(text: str) -> str:
    """The root whose file it is: those of the second say so."""
    return SECOND if text.startswith(SECOND) else NOTES


def shown(snapshot: Snapshot, only: tuple[DocumentId, ...] | None = None) -> dict[str, str]:
    return {visible.document.uri: visible.text for visible in snapshot.documents(HOME, only)}


class CatalogMachine(RuleBasedStateMachine):
    """Files of two roots change, are renamed and vanish, and claim each other's uris; documents are described; workers lease, die,
    come late; snapshots stay open; builds grow and are switched; roots are removed and collections dropped."""

    adapter = "memory"

    @initialize()
    def open(self) -> None:
        self.cleanup = ExitStack()
        folder = Path(self.cleanup.enter_context(tempfile.TemporaryDirectory(dir=MEMORY_FOLDER)))
        self.clock = SimulatedClock()
        self.catalog: Catalog = open_catalog(self.adapter, folder, self.clock)
        self.cleanup.callback(self.catalog.close)
        furnish(self.catalog)
        self.files: dict[str, dict[str, str]] = {name: {} for name in ROOTS}
        self.deleted: set[tuple[str, str]] = set()
        self.workers = [Worker(self.catalog, self.clock) for _ in range(2)]
        self.work: list[list[Outcome]] = [[], []]
        self.pinned: list[tuple[Snapshot, dict[str, str], ExitStack]] = []
        self.follower = Follower()
        self.builds = 1
        self.drops = 0

    # --- files ----------------------------------------------------------------------------------------------

    @rule(name=names, uri=uris, text=texts)
    def write(self, name: str, uri: str, text: str) -> None:
        self.catalog.ensure_root(ROOTS[name])
        self.files[name][uri] = text if name == NOTES else f"{SECOND}\n{text}"
        self.deleted.discard((name, uri))
        self.catalog.record([present(uri, root=name, noticed_at=self.clock.now())])

    @rule(name=names, uri=uris)
    def delete(self, name: str, uri: str) -> None:
        self.catalog.ensure_root(ROOTS[name])
        self.files[name].pop(uri, None)
        self.catalog.record([replace(absent(uri), root=RootName(name))])
        self.deleted.add((name, uri))

    @rule(name=names, old=uris, new=uris)
    def rename(self, name: str, old: str, new: str) -> None:
        files = self.files[name]
        if old != new and old in files:
            files[new] = files.pop(old)
            self.deleted.discard((name, new))
            self.catalog.record([present(new, root=name, moved_from=old, noticed_at=self.clock.now())])

    @rule(name=names, one=uris, other=uris)
    def swap(self, name: str, one: str, other: str) -> None:
        files = self.files[name]
        if one != other and {one, other} <= files.keys():
            files[one], files[other] = files[other], files[one]
            self.catalog.record([present(one, root=name, moved_from=other), present(other, root=name, moved_from=one)])

    @rule(uri=uris)
    def hold(self, uri: str) -> None:
        status = self.catalog.status_of(document(uri))
        if status is not None and uri in self.files[status.root]:
            self.catalog.record([Held(document(uri), Instant(0), "the folder is empty")])

    @rule(uri=uris, patch=patches)
    def describe(self, uri: str, patch: dict[str, str | None]) -> None:
        """Seen at once, and what was taken away gives the loader's back."""
        (version,) = self.catalog.record([Described(document(uri), patch)])
        with self.catalog.snapshot() as snapshot:
            for visible in snapshot.documents(HOME, [document(uri)]):
                assert version is not None
                for key, value in patch.items():
                    assert visible.metadata.get(key) == (LOADED.get(key) if value is None else value)

    @rule(uri=uris, acl=st.sampled_from([None, ("*",), ("user:ada",)]))
    def permit(self, uri: str, acl: tuple[str, ...] | None) -> None:
        self.catalog.record([Described(document(uri), acl=acl)])

    @rule(name=st.sampled_from((NOTES, SECOND)))
    def remove_root(self, name: str) -> None:
        self.catalog.ensure_root(ROOTS[name])
        self.catalog.remove_root(HOME, RootName(name), self.clock.now())
        assert self.catalog.record([present(URIS[0], root=name)]) == [None]
        assert list(self.catalog.sightings(ROOTS[name])) == []
        self.deleted |= {(name, uri) for uri in URIS}
        self.files[name].clear()
        self.catalog.ensure_root(ROOTS[name])

    @precondition(lambda self: self.drops < 2)
    @rule()
    def drop_collection(self) -> None:
        """The sources are empty afterwards: what comes back would be seen."""
        self.drops += 1
        self.catalog.drop_collection(HOME, self.clock.now())
        assert self.catalog.collection(HOME) is None
        for name in ROOTS:
            self.deleted |= {(name, uri) for uri in URIS}
            self.files[name].clear()
        furnish(self.catalog)

    # --- workers --------------------------------------------------------------------------------------------

    @rule(number=workers, uri=uris)
    def begin(self, number: int, uri: str) -> None:
        leased = self.workers[number].try_lease(uri)
        if leased is not None:
            self.work[number].append(self.outcome(self.workers[number], leased))

    @rule(number=workers, uri=uris, again=st.booleans())
    def fail(self, number: int, uri: str, again: bool) -> None:
        leased = self.workers[number].try_lease(uri)
        if leased is not None:
            self.work[number].append(self.workers[number].failed(leased, self.clock.now() + 1 if again else None))

    @rule(number=workers)
    def commit(self, number: int) -> None:
        self.workers[number].commit(*self.work[number])
        self.work[number] = []

    @rule(number=workers)
    def kill(self, number: int) -> None:
        """The process dies; what it was about to commit comes late, under its old session."""
        self.catalog.end_session(self.workers[number].session_id)
        self.workers[number].commit(*self.work[number])
        self.workers[number], self.work[number] = Worker(self.catalog, self.clock), []

    @rule(seconds=st.sampled_from([1.0, LEASE_SECONDS + 1, RETENTION_SECONDS + 1]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.catalog.beat(self.workers[0].session_id, self.clock.now())

    @rule()
    def sweep(self) -> None:
        self.catalog.sweep(self.clock.now(), RETENTION_SECONDS, LEASE_SECONDS)
        for number, worker in enumerate(self.workers):
            if not self.catalog.beat(worker.session_id, self.clock.now()):
                self.workers[number], self.work[number] = Worker(self.catalog, self.clock), []

    def outcome(self, worker: Worker, leased: LeasedDocument) -> Outcome:
        text = self.files[leased.root.name].get(leased.document.uri)
        if text is None:
            return worker.vanished(leased)
        collection = self.catalog.collection(HOME)
        assert collection is not None
        recorded = self.catalog.recorded([(leased.document, build) for build in collection.builds])
        held = [(one.content_hash, dict(one.own_metadata)) for one in recorded if one.version]
        if leased.moved_from is None and held == [(content_hash(text), dict(leased.metadata))] * len(recorded):
            return worker.unchanged(leased, text, tuple(build.build_id for build in collection.builds))
        outcome = worker.indexed(leased, text)
        return replace(outcome, cuts=tuple(replace(cut, metadata=LOADED) for cut in outcome.cuts))

    # --- builds ---------------------------------------------------------------------------------------------

    @precondition(lambda self: self.builds < 4)
    @rule()
    def grow(self) -> None:
        self.builds += 1
        self.catalog.ensure_collection(HOME, recipe(f"recipe-{self.builds}"), space())

    @rule()
    def switch(self) -> None:
        self.catalog.switch(HOME, self.clock.now())

    # --- readers --------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.pinned) < 3)
    @rule()
    def pin(self) -> None:
        stack = ExitStack()
        snapshot = stack.enter_context(self.catalog.snapshot())
        self.pinned.append((snapshot, shown(snapshot), stack))

    @precondition(lambda self: self.pinned)
    @rule()
    def unpin(self) -> None:
        self.pinned.pop(0)[2].close()

    # --- what is always true --------------------------------------------------------------------------------

    @invariant()
    def nothing_contradicts_itself(self) -> None:
        if hasattr(self, "catalog"):
            assert list(self.catalog.findings()) == []

    @invariant()
    def a_deleted_document_stays_away(self) -> None:
        if hasattr(self, "catalog"):
            with self.catalog.snapshot() as snapshot:
                assert not self.deleted & {(owner_of(text), uri) for uri, text in shown(snapshot).items()}

    @invariant()
    def a_follower_of_the_log_is_level_with_the_catalog(self) -> None:
        if hasattr(self, "catalog"):
            with self.catalog.snapshot() as snapshot:
                self.follower.follow(snapshot)
                assert self.follower.documents == shown(snapshot)

    @invariant()
    def what_is_visible_is_whole(self) -> None:
        if hasattr(self, "catalog"):
            with self.catalog.snapshot() as snapshot:
                vectors = {(vector.document, vector.chunk_id): vector.vector for vector in snapshot.vectors(HOME)}
                wanted = {
                    (visible.document, chunk.chunk_id): vector_of(chunk.input_hash)
                    for visible in snapshot.documents(HOME)
                    for chunk in chunks_of(visible.document, visible.text)
                }
                assert vectors == wanted

    @invariant()
    def a_pinned_snapshot_stays_what_it_was(self) -> None:
        for snapshot, expected, _ in getattr(self, "pinned", []):
            assert shown(snapshot) == expected

    def teardown(self) -> None:
        if not hasattr(self, "catalog"):
            return
        try:
            for *_, stack in self.pinned:
                stack.close()
            self.settle()
        finally:
            self.cleanup.close()

    def settle(self) -> None:
        """No more changes: held documents are seen again, failures retried, and the catalog ends level with the files."""
        for uri in URIS:
            status = self.catalog.status_of(document(uri))
            if status is not None and status.state is DocumentState.HELD:
                self.catalog.record([Seen(document(uri), signature(1), True) if uri in self.files[status.root] else absent(uri)])
        self.catalog.retry(None, HOME, self.clock.now())
        worker = Worker(self.catalog, self.clock)
        for _ in range(SETTLE_ROUNDS_MAX):
            self.clock.advance(LEASE_SECONDS + 2)
            self.catalog.beat(worker.session_id, self.clock.now())
            waiting = self.catalog.pending(100, self.clock.now())
            if not waiting:
                break
            for one in waiting:
                worker.commit(self.outcome(worker, worker.lease(one.document.uri)))
        self.catalog.switch(HOME, self.clock.now())
        collection = self.catalog.collection(HOME)
        assert collection is not None
        assert collection.growing is None
        self.what_is_visible_is_whole()
        with self.catalog.snapshot() as snapshot:
            assert shown(snapshot) == self.expected()

    def expected(self) -> dict[str, str]:
        """Of a uri that both roots have, either's: its owner's."""
        owners = {uri: status.root for uri in URIS if (status := self.catalog.status_of(document(uri))) is not None}
        known = {uri for files in self.files.values() for uri in files}
        return {uri: self.files[owners[uri]][uri] for uri in known}


EXAMPLES = {"memory": 60, "sqlite": 15, "both": 15}


@pytest.mark.parametrize("adapter", sorted(EXAMPLES))
def test_a_catalog_ends_level_with_its_files_whatever_happened(adapter: str) -> None:
    machine: Any = type("Machine", (CatalogMachine,), {"adapter": adapter})
    examples = int(os.environ.get("MODEL_EXAMPLES", EXAMPLES[adapter]))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize="MODEL_EXAMPLES" not in os.environ,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
