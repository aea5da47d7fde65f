"""Failure sequences against the product itself: real processes, a real watcher, HTTP. Nothing of a room decides what is right here.

`perform` does the steps of one sequence on a data folder of its own and then holds what is served against what is expected: in the
export, in the three modes of search, in the counters. Only a `sleep` step waits real time; all else waits on a state.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kit.product import PATIENCE_SECONDS, Up, await_state, get_json, post_json
from kit.sequence_files import Ground, Step, paragraph, tags_of
from kit.sequence_stage import KERNEL_QUEUE, Stage, settings_of

COUNTERS = {
    "max_embeds_since_mark": "evercurrent_embedded_texts_total",
    "max_vector_writes": "evercurrent_vector_rows_written_total",
    "max_jobs_since_mark": "evercurrent_jobs_total",
}
TAGGED = frozenset({"paras", "tag", "live", "gone"})
"""Where a sequence names tags."""
MODES = ("keyword", "dense", "hybrid")
ALL_HITS = 1000
KEEPER = "keeper.bin"
DELETED_AT_ONCE_MAX = 9
"""The guard holds from the next one on."""
EVERY_PARAGRAPH = "the pipeline keeps only what changed"
Row = dict[str, Any]
"""A line of the export."""
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class FailureSequence:
    id: str
    steps: tuple[Step, ...]
    expect: Mapping[str, Any]

    def round(self, number: int) -> FailureSequence:
        """The same with other paragraphs, so that a repetition finds none of them embedded."""
        return self if number == 0 else replace(self, steps=tuple(renamed(self.steps, number)), expect=renamed(self.expect, number))

    @property
    def is_plain(self) -> bool:
        """Whether it changes files under a running product, and asks for nothing else of it."""
        special = {"config", "inject", "start_watcher", "stop_watcher", "redis", "kill_worker", "start_reader"}
        return special.isdisjoint(step["op"] for step in self.steps)

    @property
    def starts_late(self) -> bool:
        """Whether there are files, or nothing at all, before a watcher runs."""
        operations = [step["op"] for step in self.steps if step["op"] not in ("config", "inject")]
        watcher = [operation for operation in operations if operation in ("start_watcher", "stop_watcher")]
        return bool(watcher) and (watcher[0] == "start_watcher" or operations[0] == "stop_watcher")


def read_sequences(path: Path) -> dict[str, FailureSequence]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {row["id"]: FailureSequence(row["id"], tuple(row["steps"]), row["expect"]) for row in rows}


def renamed(part: Any, number: int) -> Any:
    """A part of a sequence with every tag renamed."""
    if isinstance(part, Mapping):
        return {name: with_suffix(value, number) if name in TAGGED else renamed(value, number) for name, value in part.items()}
    return [renamed(each, number) for each in part] if isinstance(part, (list, tuple)) else part


def with_suffix(tags: Any, number: int) -> Any:
    if isinstance(tags, Mapping):
        return {name: with_suffix(value, number) for name, value in tags.items()}
    return [with_suffix(each, number) for each in tags] if isinstance(tags, list) else f"{tags}.{number}"


def perform(sequence: FailureSequence, mode: str, folder: Path, rounds: int = 1) -> None:
    """Does the sequence `rounds` times on one data folder. Raises AssertionError that names what was expected and what was found."""
    ground = Ground(folder)
    own_queue = any(step["op"] == "redis" for step in sequence.steps)
    faults = [{key: value for key, value in step.items() if key != "op"} for step in sequence.steps if step["op"] == "inject"]
    stage = Stage(folder, ground.root, settings_of(mode), faults, own_queue)
    try:
        for number in range(rounds):
            _Performance(sequence.round(number), ground, stage).play()
    finally:
        stage.close()


class SharedStage:
    """One running product for plain sequences, one after the other: each begins with an empty root and paragraphs of its own.

    Polling cannot tell an emptied root from a lost one: there a file that no loader claims stays in the root, and a sequence that leaves
    more documents than the guard lets go at once is the product's last. What a sequence leaves behind (tombstones, kept vectors,
    positions) the next one meets. After a failure the next begins anew.
    """

    def __init__(self, mode: str, new_folder: Callable[[], Path]) -> None:
        self._mode = mode
        self._new_folder = new_folder
        self._open: tuple[Ground, Stage] | None = None
        self._performed = 0

    def perform(self, sequence: FailureSequence) -> None:
        assert sequence.is_plain
        try:
            if self._open is None:
                folder = self._new_folder()
                ground = Ground(folder)
                self._open = ground, Stage(folder, ground.root, settings_of(self._mode))
            ground, stage = self._open
            performance = _Performance(sequence.round(self._performed), ground, stage)
            self._performed += 1
            ground.clear(KEEPER if self._mode == "polling" else None)
            performance.play()
            if self._mode == "polling" and len(ground.files()) > DELETED_AT_ONCE_MAX:
                self.close()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._open is not None:
            _, stage = self._open
            self._open = None
            stage.close()


@dataclass
class _Performance:
    sequence: FailureSequence
    ground: Ground
    stage: Stage
    marked: dict[str, float] = field(default_factory=dict)
    sent_before: int = 0
    written_at: dict[str, float] = field(default_factory=dict)
    """Of the tags that must be found in time: when they were first written, and when they were first found."""
    found_at: dict[str, float] = field(default_factory=dict)
    ids_marked: dict[str, dict[str, str]] = field(default_factory=dict)

    def play(self) -> None:
        steps = self.sequence.steps
        if not self.sequence.starts_late and self.stage.up is None:
            self._configure(step for step in steps if step["op"] == "config")
            self.stage.start()
        if self.stage.up is not None:
            self._idle(is_last=False)
            self._count()
        for number, step in enumerate(steps):
            self._do(step, is_last=number == len(steps) - 1)
        self._hold_against_expected()

    @property
    def up(self) -> Up:
        assert self.stage.up is not None, "the sequence asks before anything runs"
        return self.stage.up

    # --- steps ---

    def _do(self, step: Step, *, is_last: bool) -> None:
        if step["op"] in self.ground.operations:
            self._note_written(step)
            self.ground.do(step)
            return
        match step["op"]:
            case "idle":
                self._idle(is_last)
            case "sleep":
                self._sleep(step["s"])
            case "mark":
                self._mark()
            case "config":
                self._configure([step])
            case "inject":
                if step["what"] == "overflow_event":
                    self.stage.overflow(self._fill_kernel_queue)
            case "start_watcher":
                self.stage.start_watcher()
            case "stop_watcher":
                if self.stage.up is not None:
                    self._count()
                    self.stage.stop_watcher()
            case "kill_worker":
                self.stage.kill_worker(step["sig"])
            case "start_worker":
                self.stage.start_worker()
            case "redis":
                self.stage.move_queue(step["action"])
            case "start_reader":
                self.stage.start_reader()
            case "reader_query":
                self._expect_of_reader(step["tag"], set(step["paths"]), step["by_s"])
            case "reindex":
                self._reindex(step.get("path"))
            case "assert_live":
                self._expect_live(step["live"], self._export())
            case "assert_health":
                self._expect_health(step["value"])
            case "assert_embeds":
                embedded = self._since_mark("evercurrent_embedded_texts_total")
                assert embedded <= step["max"], f"{embedded} texts embedded since the mark, at most {step['max']} expected"
            case "assert_searchable":
                self._expect_found_in_time(step["tag"], step["by_s"])
            case unknown:
                raise NotImplementedError(f"no such step: {unknown}")

    def _idle(self, is_last: bool) -> None:
        """By HTTP between the steps, by the command at the end: both promise the same, and one is cheaper."""
        if is_last:
            self.up.settle(self.sequence.expect.get("within_s", PATIENCE_SECONDS))
        else:
            post_json(f"{self.up.url('intake')}/v1/settle?timeout={PATIENCE_SECONDS}", {}, seconds_max=PATIENCE_SECONDS + 10)

    def _sleep(self, seconds: float) -> None:
        """Waits real time; meanwhile looks for the tags that must be found in time."""
        until = time.monotonic() + seconds
        pause = threading.Event()
        while (left := until - time.monotonic()) > 0:
            for tag in self.written_at.keys() - self.found_at.keys():
                if self._documents_with(tag):
                    self.found_at[tag] = time.monotonic()
            pause.wait(min(left, 0.1))

    def _count(self) -> None:
        self.marked = {name: self.up.metric(name) for name in COUNTERS.values()}

    def _mark(self) -> None:
        """While no watcher runs the counters stand where they stood when it was stopped, and nobody tells them."""
        if not self.stage.is_watcher_stopped:
            self._count()
        self.sent_before = len(self.stage.provider.sent) if self.stage.provider is not None else 0
        if "ids_unchanged" in self.sequence.expect:
            self.ids_marked = ids_of(self._export())

    def _configure(self, steps: Any) -> None:
        names = {
            "chunk_size": "INDEXER__SPLIT__CHUNK_CHARS_MAX",
            "workers": "WORKERS__COUNT",
            "embed_batch": "INDEXER__EMBEDDING__BATCH_TEXTS_MAX",
            "batch_size": "INDEXER__EMBEDDING__BATCH_TEXTS_MAX",
        }
        for step in steps:
            self.stage.settings |= {f"EVERCURRENT_{names[key]}": str(value) for key, value in step.items() if key != "op"}

    def _reindex(self, path: str | None) -> None:
        """A pass over the scope that must read every document again: its times changed, its bytes did not."""
        for found in [self.ground.path(path)] if path else self.ground.files():
            found.touch()
        self.stage.command.succeed("sync", str(self.ground.path(path or "")))

    def _fill_kernel_queue(self) -> None:
        """Touches two files in turn: the kernel joins events that are equal to the one before."""
        files = self.ground.files()[:2]
        for number in range(int(KERNEL_QUEUE.read_text("ascii")) + 1000):
            files[number % 2].touch()

    def _note_written(self, step: Step) -> None:
        awaited = {each["tag"] for each in self.sequence.steps if each["op"] == "assert_searchable"}
        for tag in awaited.intersection(step.get("paras", ())):
            self.written_at.setdefault(tag, time.monotonic())

    # --- what is served ---

    def _export(self) -> list[Row]:
        return self.stage.command.succeed("export").lines

    def _hits(self, query: str, mode: str, url: str | None = None, where: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        body = {"query": query, "mode": mode, "k": ALL_HITS, "filter": dict(where or {})}
        answer = post_json(f"{url or self.up.url('retriever')}/v1/collections/main/search", body)
        hits: list[dict[str, Any]] = answer["hits"]
        return hits

    def _documents_with(self, tag: str, mode: str = "keyword", url: str | None = None, where: Mapping[str, Any] | None = None) -> set[str]:
        return {hit["document"] for hit in self._hits(paragraph(tag), mode, url, where) if tag in tags_of(hit["text"])}

    def _since_mark(self, name: str) -> float:
        return self.up.metric(name) - self.marked.get(name, 0.0)

    # --- what is expected ---

    def _hold_against_expected(self) -> None:
        expect, rows = self.sequence.expect, self._export()
        checks: dict[str, Callable[[Any], None]] = {
            "live": lambda live: self._expect_live(live, rows),
            "gone": self._expect_gone,
            "live_count": lambda count: self._equal("live documents", count, len({row["document"] for row in rows})),
            "vectors": lambda count: self._equal("chunks left", count, len(rows)),
            "no_duplicates": lambda _wanted: self._expect_no_duplicates(rows),
            "failed_jobs": lambda count: self._equal("failed documents", count, len(self._failed())),
            "failed_paths": lambda paths: self._equal("failed documents", sorted(paths), self._failed()),
            "health": self._expect_health,
            "ids_unchanged": lambda documents: self._expect_ids_unchanged(documents, ids_of(rows)),
            "chunk_sizes": lambda bounds: self._expect_chunk_sizes(bounds, rows),
            "max_texts_sent": self._expect_texts_sent,
            "search": self._expect_search,
        }
        checks |= {bound: partial(self._expect_at_most, name) for bound, name in COUNTERS.items()}
        spoken_for = {"within_s", "repeat", "note", "needs_non_root"}
        for name in expect.keys() - spoken_for:
            checks[name](expect[name])

    def _equal(self, what: str, expected: Any, found: Any) -> None:
        assert found == expected, f"{self.sequence.id}: {what}: expected {expected!r}, found {found!r}"

    def _expect_live(self, live: Mapping[str, Any], rows: Sequence[Row]) -> None:
        expected = sorted((document, tag) for document, tags in spread(live).items() for tag in tags)
        in_order: dict[str, list[str]] = {}
        for row in rows:
            in_order.setdefault(row["document"], []).extend(tags_of(row["text"]))
        self._equal("live in the export", spread(live), in_order)
        for mode in MODES:
            hits = self._hits(EVERY_PARAGRAPH, mode)
            found = sorted((hit["document"], tag) for hit in hits for tag in tags_of(hit["text"]))
            self._equal(f"live in {mode} search", expected, found)

    def _expect_gone(self, tags: Sequence[str]) -> None:
        for tag in tags:
            for mode in MODES:
                self._equal(f"{tag} in {mode} search", set(), self._documents_with(tag, mode))

    def _expect_no_duplicates(self, rows: Sequence[Row]) -> None:
        texts = Counter((row["document"], row["text"]) for row in rows)
        ids = Counter(row["chunk_id"] for row in rows)
        self._equal("chunks that stand twice", [], [each for each, count in (texts + ids).items() if count > 1])

    def _failed(self) -> list[str]:
        rows = get_json(f"{self.up.url('intake')}/v1/collections/main/documents?state=quarantined")["documents"]
        assert all(row["code"] and row["message"] for row in rows), f"a failure without a reason: {rows}"
        return sorted(row["document"] for row in rows)

    def _expect_health(self, value: str) -> None:
        health = self.stage.command.run("status", "--json").json["health"]
        self._equal(f"health {health['reasons']}", value, health["state"])

    def _expect_ids_unchanged(self, documents: Sequence[str], now: Mapping[str, Mapping[str, str]]) -> None:
        for document in documents:
            before = {tag: chunk_id for tag, chunk_id in self.ids_marked[document].items() if tag in now[document]}
            self._equal(f"chunk ids of {document}", before, now[document])

    def _expect_chunk_sizes(self, bounds: Sequence[int], rows: Sequence[Row]) -> None:
        shortest, longest = bounds
        sizes = [len(row["text"]) for row in rows]
        assert all(shortest < size <= longest for size in sizes), f"{self.sequence.id}: chunks of {sizes} characters"

    def _expect_at_most(self, name: str, most: float) -> None:
        assert self.up.metric(name) > 0, f"{self.sequence.id}: {name} never rose, so it bounds nothing"
        found = self._since_mark(name)
        assert found <= most, f"{self.sequence.id}: {name} rose by {found:g}, at most {most} expected"

    def _expect_texts_sent(self, most: int) -> None:
        assert self.stage.provider is not None
        sent = len(self.stage.provider.sent) - self.sent_before
        assert sent <= most, f"{self.sequence.id}: {sent} texts sent to the provider, at most {most} expected"

    def _expect_search(self, searches: Sequence[Mapping[str, Any]]) -> None:
        for asked in searches:
            for mode in MODES:
                found = self._documents_with(asked["tag"], mode, where=asked.get("filter"))
                self._equal(f"{asked['tag']} with {asked.get('filter')} in {mode} search", set(asked["paths"]), found)

    def _expect_of_reader(self, tag: str, documents: set[str], seconds_max: float) -> None:
        def found() -> bool:
            return self._documents_with(tag, url=self.stage.reader_url) == documents

        await_state(found, f"the reader finds {tag} in {sorted(documents)}", seconds_max)

    def _expect_found_in_time(self, tag: str, seconds_max: float) -> None:
        assert tag in self.found_at, f"{self.sequence.id}: {tag} was not found while the file grew"
        took = self.found_at[tag] - self.written_at[tag]
        assert took <= seconds_max, f"{self.sequence.id}: {tag} was found {took:.1f} s after it was written, {seconds_max} s allowed"


def ids_of(rows: Sequence[Row]) -> dict[str, dict[str, str]]:
    """Chunk ids by document and tag."""
    ids: dict[str, dict[str, str]] = {}
    for row in rows:
        for tag in tags_of(row["text"]):
            ids.setdefault(row["document"], {})[tag] = row["chunk_id"]
    return ids


def spread(live: Mapping[str, Any]) -> dict[str, list[str]]:
    """`f{2..3}.md: T{i}` written out: f2.md: [T2], f3.md: [T3]."""
    documents: dict[str, list[str]] = {}
    for name, tags in live.items():
        span = _RANGE.search(name)
        if span is None:
            documents[name] = list(tags)
            continue
        for number in range(int(span[1]), int(span[2]) + 1):
            documents[_RANGE.sub(str(number), name)] = [tags.replace("{i}", str(number))]
    return documents
