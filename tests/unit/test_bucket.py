"""A bucket as a source: what its listing is taken for, what it costs, and what is not believed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.buckets import Objects, counting_bucket
from kit.pipeline import HOME, Pipeline

from indexer.bucket_polls import BucketPoll, BucketPolls, PollTimes
from indexer.guard import RootState
from indexer.ignore import Rules
from indexer.load.registry import claims
from indexer.sources.bucket import Bucket
from indexer.sources.etags import proves, signature_of
from indexer.sources.folder import Scan
from indexer.sources.places import bucket_of
from store.catalog.sqlite import SqliteCatalog
from store.clock import SystemClock
from store.config import BucketsTable
from store.errors import BucketDriverMissing, BucketUnreachable, DocumentTooLarge, SourceUnstable, SourceVanished
from store.model import Absent, Cause, Failed, Root, RootName, SourceKind

CLOCK = SystemClock()


@pytest.fixture
def objects() -> Iterator[Objects]:
    with counting_bucket() as objects:
        yield objects


@pytest.fixture
def pipeline(tmp_path: Path, objects: Objects) -> Iterator[Pipeline]:
    with opened(tmp_path) as pipeline:
        yield pipeline


@contextmanager
def opened(folder: Path) -> Iterator[Pipeline]:
    catalog = SqliteCatalog.open(folder / "data", CLOCK)
    yield Pipeline(catalog, CLOCK, folder / "unused", bucket_url=Objects.url)
    catalog.close()


def root(prefix: str = "", url: str = Objects.url) -> Root:
    return Root(HOME, RootName("docs"), SourceKind.BUCKET, url, prefix)


def bucket(rules: Rules | None = None, table: BucketsTable | None = None, prefix: str = "") -> Bucket:
    return bucket_of(root(prefix), rules, table)


def poll_of(pipeline: Pipeline) -> BucketPoll:
    table = BucketsTable()
    return BucketPoll(bucket_of(pipeline.root), pipeline.catalog, table, PollTimes(60, 300), claims, lambda: None, CLOCK)


def work(pipeline: Pipeline) -> None:
    while pipeline.catalog.pending(1, CLOCK.now()):
        pipeline.work()


def fill(objects: Objects, count: int) -> None:
    for number in range(count):
        objects.put(f"d{number}.md", f"text number {number}")


# --- what it costs ------------------------------------------------------------------------------------------


def test_a_scan_is_one_listing_and_no_request_an_object(objects: Objects) -> None:
    fill(objects, 50)
    assert len(bucket().scan().found) == 50
    assert (objects.kind.listings, objects.kind.asked_of_one, objects.kind.reads) == (1, 0, [])


def test_unchanged_etags_cost_no_read(pipeline: Pipeline, objects: Objects) -> None:
    fill(objects, 5)
    pipeline.settle()
    objects.kind.reads.clear()
    fill(objects, 5)  # the same bytes, written again
    pipeline.settle()
    assert objects.kind.reads == []


def test_a_listing_like_the_last_one_is_not_compared(pipeline: Pipeline, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(objects, 3)
    poll = poll_of(pipeline)
    poll.look()
    monkeypatch.setattr(poll, "_ledger", None)
    poll.look()
    assert objects.kind.listings == 2


# --- what changes -------------------------------------------------------------------------------------------


def test_a_poll_finds_what_was_put_changed_and_deleted(pipeline: Pipeline, objects: Objects) -> None:
    poll = poll_of(pipeline)
    objects.put("a.md", "one")
    objects.put("sub/b.md", "two")
    poll.look()
    work(pipeline)
    assert pipeline.texts() == {"a.md": ["one"], "sub/b.md": ["two"]}
    objects.put("a.md", "uno")
    objects.delete("sub/b.md")
    objects.put("c.md", "three")
    poll.look()
    work(pipeline)
    assert pipeline.texts() == {"a.md": ["uno"], "c.md": ["three"]}


@pytest.mark.parametrize("tagged", [True, False])
def test_a_rename_embeds_nothing_and_is_a_move(pipeline: Pipeline, objects: Objects, tagged: bool) -> None:
    if not tagged:
        objects.kind.etags = staticmethod(lambda name, content: f'"0x{hash((name, content)):X}"')
    objects.put("old/a.md", "a text that moves")
    objects.put("b.md", "stays")
    pipeline.settle()
    sent = len(pipeline.embedder.sent)
    objects.rename("old/a.md", "new/a.md")
    poll = poll_of(pipeline)
    poll.look()
    (pending,) = pipeline.catalog.pending(10, CLOCK.now())
    assert (pending.document.uri, pipeline.state("old/a.md")) == ("new/a.md", "indexed")
    objects.kind.reads.clear()
    work(pipeline)
    assert (len(pipeline.embedder.sent), set(pipeline.texts())) == (sent, {"b.md", "new/a.md"})
    assert objects.kind.reads == ["/bucket/docs/new/a.md"]


def test_a_strong_rename_is_paired_without_a_read(pipeline: Pipeline, objects: Objects) -> None:
    for name in ("x/one.md", "x/two.md"):
        objects.put(name, "the same bytes in both")
    pipeline.settle()
    objects.kind.reads.clear()
    objects.rename("x/one.md", "z/one.md")
    objects.rename("x/two.md", "y/two.md")
    poll_of(pipeline).look()
    moved = {leased.document.uri: leased.moved_from for leased in lease_all(pipeline)}
    assert {new: old.uri if old else None for new, old in moved.items()} == {"z/one.md": "x/one.md", "y/two.md": "x/two.md"}
    assert objects.kind.reads == []


def lease_all(pipeline: Pipeline):  # type: ignore[no-untyped-def]
    pending = [row.document for row in pipeline.catalog.pending(100, CLOCK.now())]
    return pipeline.catalog.lease(pending, pipeline.bench.session_id, CLOCK.now(), 10)


NAMES = st.sampled_from(["a.md", "b.md", "sub/a.md", "sub/c.md", "d.txt", "x.zzz", ".hidden.md"])
TEXTS = st.sampled_from(["one", "two", "three", ""])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, TEXTS), st.tuples(st.just("delete"), NAMES, TEXTS), st.tuples(st.just("rename"), NAMES, NAMES)
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(STEPS, max_size=6), min_size=1, max_size=4), st.booleans())
def test_after_any_script_one_poll_equals_a_fresh_build(script: list[list[tuple[str, str, str]]], tagged: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch, counting_bucket() as objects:
        if not tagged:
            objects.kind.etags = staticmethod(lambda _name, _content: None)
        objects.put("keep.md", "always here")
        folder = Path(scratch)
        (folder / "kept").mkdir()
        with opened(folder / "kept") as pipeline:
            poll = poll_of(pipeline)
            for burst in script:
                for step, name, more in burst:
                    run_step(objects, step, name, more)
                poll.look()
                work(pipeline)
            kept = pipeline.texts()
            assert list(pipeline.catalog.findings()) == []
        (folder / "fresh").mkdir()
        with opened(folder / "fresh") as pipeline:
            pipeline.settle()
            assert kept == pipeline.texts()


def run_step(objects: Objects, step: str, name: str, more: str) -> None:
    there = f"/bucket/docs/{name}" in objects.kind.store
    if step == "put":
        objects.put(name, more)
    elif step == "delete" and there:
        objects.delete(name)
    elif step == "rename" and there and name != more:
        objects.rename(name, more)


# --- what is not believed -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure", [PermissionError("AccessDenied"), TimeoutError("the read timed out"), OSError("connection reset"), ValueError("bad region")]
)
def test_a_listing_that_fails_deletes_nothing_and_the_next_poll_goes_on(pipeline: Pipeline, objects: Objects, failure: Exception) -> None:
    fill(objects, 3)
    poll = poll_of(pipeline)
    poll.look()
    work(pipeline)
    objects.kind.failure = failure
    objects.delete("d0.md")
    poll.look()
    assert (poll.failure or "").startswith("it cannot be listed: ")
    assert {pipeline.state(f"d{number}.md") for number in range(3)} == {"indexed"}
    objects.kind.failure = None
    poll.look()
    assert (poll.failure, pipeline.state("d0.md"), pipeline.state("d1.md")) == (None, "deleted", "indexed")


@pytest.mark.parametrize("left", [0, 4])
def test_an_empty_or_cut_listing_holds_what_is_missing_until_it_is_there_again(pipeline: Pipeline, objects: Objects, left: int) -> None:
    fill(objects, 20)
    poll = poll_of(pipeline)
    poll.look()
    work(pipeline)
    objects.kind.listed_max = left
    poll.look()
    states = [pipeline.state(f"d{number}.md") for number in range(20)]
    assert (states.count("held"), states.count("indexed")) == (20 - left, left)
    assert poll.held_reason is not None
    assert len(pipeline.texts()) == 20
    objects.kind.listed_max = None
    poll.look()
    assert {pipeline.state(f"d{number}.md") for number in range(20)} == {"indexed"}
    assert poll.held_reason is None


def test_an_empty_listing_is_not_believed_of_a_single_document_either(pipeline: Pipeline, objects: Objects) -> None:
    fill(objects, 1)
    pipeline.settle()
    objects.kind.listed_max = 0
    poll_of(pipeline).look()
    assert pipeline.state("d0.md") == "held"


def test_a_bucket_that_is_gone_holds_its_documents(pipeline: Pipeline, objects: Objects) -> None:
    fill(objects, 2)
    poll = poll_of(pipeline)
    poll.look()
    work(pipeline)
    objects.kind.failure = FileNotFoundError("NoSuchBucket")
    poll.look()
    assert (pipeline.state("d0.md"), len(pipeline.texts())) == ("held", 2)


def test_what_a_person_let_go_is_held_no_longer_though_the_listing_is_the_same(pipeline: Pipeline, objects: Objects) -> None:
    fill(objects, 2)
    poll = poll_of(pipeline)
    poll.look()
    work(pipeline)
    objects.kind.listed_max = 0
    poll.look()
    assert poll.held_reason == "the root is empty"
    pipeline.catalog.record([Absent(pipeline.document(f"d{number}.md"), Cause.DELETED, CLOCK.now()) for number in range(2)])
    poll.look()
    assert (poll.held_reason, pipeline.texts()) == (None, {})


def test_a_bucket_with_too_many_objects_is_not_compared(objects: Objects) -> None:
    fill(objects, 4)
    scan = bucket(table=BucketsTable(objects_max=3)).scan()
    assert (scan.root_state, [fault.uri for fault in scan.faults]) == (RootState.ABSENT, [""])


def test_a_question_is_answered_by_a_listing_that_began_after_it(pipeline: Pipeline, objects: Objects) -> None:
    fill(objects, 1)
    polls = BucketPolls([pipeline.root], pipeline.catalog, BucketsTable(poll_seconds=600), 300, claims, lambda: None, CLOCK)
    polls.start()
    try:
        assert polls.settled(30)
        objects.put("late.md", "late")
        assert polls.settled(30)
        assert pipeline.state("late.md") == "pending"
        objects.kind.failure = TimeoutError("no answer")
        assert not polls.settled(0.05)
        assert polls.unlisted() == ("bucket docs could not be listed",)
        assert polls.health() == ("docs: it cannot be listed: no answer",)
        objects.kind.failure = None
        assert polls.settled(30)
        assert (polls.unlisted(), polls.health()) == ((), ())
    finally:
        polls.stop()


def test_a_listing_that_fails_while_somebody_waits_is_tried_again_at_once(
    pipeline: Pipeline, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(objects, 1)
    monkeypatch.setattr("indexer.bucket_polls.RETRY_SECONDS", 0.01)
    scan, failures = Bucket.scan, iter([True, True, True, False])

    def scan_at_the_fourth(bucket: Bucket, scope: str = "") -> Scan:
        if next(failures, False):
            raise BucketUnreachable(url=Objects.url, reason="no answer")
        return scan(bucket, scope)

    monkeypatch.setattr(Bucket, "scan", scan_at_the_fourth)
    polls = BucketPolls([pipeline.root], pipeline.catalog, BucketsTable(poll_seconds=600), 300, claims, lambda: None, CLOCK)
    polls.start()
    try:
        assert polls.settled(20)
    finally:
        polls.stop()


# --- names --------------------------------------------------------------------------------------------------


def test_keys_that_are_no_uris_are_refused_by_name_and_markers_are_passed_over(objects: Objects) -> None:
    for key in ("../up.md", "a//b.md", "./c.md", "nul\0.md", "x" * 1025 + ".md", "folder/", "old_$folder$", "good.md"):
        objects.put(key, "text")
    scan = bucket().scan()
    assert list(scan.found) == ["good.md"]
    assert sorted(refusal.reason for refusal in scan.refusals) == [
        "it contains a NUL",
        "it has the segment ''",
        "it has the segment '.'",
        "it has the segment '..'",
        "it is longer than 1024 bytes",
    ]


def test_undecodable_and_escaped_looking_names_have_uris_of_their_own_and_are_read_by_them(objects: Objects) -> None:
    for key in ("caf\udce9.md", "caf%E9.md", "中 文.md"):
        objects.put(key, key.encode("utf-8", "surrogateescape"))
    found = bucket(prefix="n/").scan().found
    assert set(found) == {"n/caf%E9.md", "n/caf%25E9.md", "n/中 文.md"}
    assert bucket(prefix="n/").fetch("n/caf%E9.md", 100, CLOCK).content == b"caf\xe9.md"


def test_rules_and_ignore_files_keep_objects_out_as_in_a_folder(objects: Objects) -> None:
    for key in ("a.md", "skip/b.md", "sub/c.md", "sub/d.md", ".git/e.md", "f.md~", "out/g.md"):
        objects.put(key, "x")
    objects.put(".evercurrentignore", "skip/\n")
    objects.put("sub/.evercurrentignore", "d.md\n")
    one = bucket(Rules(exclude=("out/",)))
    assert set(one.scan().found) == {"a.md", "sub/c.md"}
    assert sorted(objects.kind.reads) == ["/bucket/docs/.evercurrentignore", "/bucket/docs/sub/.evercurrentignore"]
    objects.kind.reads.clear()
    one.scan()
    assert objects.kind.reads == []  # their ETags are as before
    assert set(bucket().scan("skip").found) == set()
    assert set(bucket().scan("sub").found) == {"sub/c.md"}


def test_a_new_ignore_file_takes_documents_out_without_asking_the_guard(pipeline: Pipeline, objects: Objects) -> None:
    fill(objects, 20)
    objects.put("keep.txt", "kept")
    pipeline.settle()
    objects.put(".evercurrentignore", "*.md\n")
    pipeline.settle()
    assert set(pipeline.texts()) == {"keep.txt"}


def test_a_scope_is_the_object_and_what_is_below_it(objects: Objects) -> None:
    for key in ("sub/a.md", "sub/deep/b.md", "subway.md", "c.md"):
        objects.put(key, key)
    assert set(bucket().scan("sub").found) == {"sub/a.md", "sub/deep/b.md"}
    assert set(bucket().scan("c.md").found) == {"c.md"}
    gone = bucket().scan("gone")
    assert (dict(gone.found), gone.root_state) == ({}, RootState.ALIVE)
    objects.clear()
    assert bucket().scan("sub").root_state is RootState.ABSENT


# --- an object's bytes --------------------------------------------------------------------------------------


def test_an_object_that_changes_while_it_is_read_is_read_again(objects: Objects) -> None:
    objects.put("a.md", "before")
    changes = iter(["during", "finally"])

    def change(_name: str) -> None:
        if (text := next(changes, None)) is not None:
            objects.put("a.md", text)

    objects.kind.before_read = staticmethod(change)
    fetched = bucket().fetch("a.md", 100, CLOCK)
    assert (fetched.content, fetched.proven, len(objects.kind.reads)) == (b"finally", True, 3)
    assert fetched.signature == bucket().scan().found["a.md"]


def test_an_object_that_never_stands_still_is_unstable(objects: Objects) -> None:
    objects.put("a.md", "0")
    objects.kind.before_read = staticmethod(lambda _name: objects.put("a.md", objects.texts()["a.md"] + "0"))
    with pytest.raises(SourceUnstable):
        bucket().fetch("a.md", 100, CLOCK)


def test_no_more_than_the_limit_is_ever_read(objects: Objects) -> None:
    objects.put("a.md", "x" * 101)
    with pytest.raises(DocumentTooLarge):
        bucket().fetch("a.md", 100, CLOCK)
    assert objects.kind.reads == []
    assert bucket().fetch("a.md", 101, CLOCK).content == b"x" * 101


def test_an_object_is_gone_only_when_the_bucket_answers(objects: Objects) -> None:
    objects.put("other.md", "x")
    with pytest.raises(SourceVanished):
        bucket().fetch("a.md", 100, CLOCK)
    assert bucket().surely_gone("a.md")
    assert not bucket().surely_gone("other.md")
    objects.kind.failure_of_one = PermissionError("AccessDenied")
    with pytest.raises(BucketUnreachable, match="access is denied"):
        bucket().fetch("a.md", 100, CLOCK)
    assert not bucket().surely_gone("a.md")
    objects.kind.failure_of_one = None
    objects.clear()
    assert not bucket().surely_gone("a.md")


def test_a_missing_object_of_a_bucket_that_then_does_not_answer_is_not_taken_for_gone(objects: Objects) -> None:
    one = bucket()
    objects.put("other.md", "x")
    assert one.base == "/bucket/docs"
    objects.kind.after_missing = TimeoutError("no answer")
    with pytest.raises(BucketUnreachable, match="no answer"):
        one.fetch("a.md", 100, CLOCK)


# --- signatures ---------------------------------------------------------------------------------------------

DIGEST = "9e107d9d372bb6826bd81d3542a419d6"


def test_a_digest_says_the_same_of_every_key_and_any_other_tag_of_one_key_alone() -> None:
    for tag in (DIGEST, f"{DIGEST}-3"):
        assert signature_of({"size": 3, "ETag": f'"{tag}"'}, "a") == signature_of({"size": 3, "ETag": tag}, "b")
    for entry in ({"size": 3, "etag": "0x8DC"}, {"size": 3, "generation": "17"}, {"size": 0, "ETag": DIGEST}):
        assert signature_of(entry, "a") == signature_of(entry, "a") != signature_of(entry, "b")
        assert proves(signature_of(entry, "a"), 0.0, is_here=False)


def test_what_differs_in_the_tag_or_the_length_differs() -> None:
    one = {"size": 3, "ETag": "0x8DC", "LastModified": 5.0}
    signatures = {signature_of(entry, "a") for entry in (one, {**one, "ETag": "0x8DD"}, {**one, "size": 4}, {**one, "ETag": 'W/"1"'})}
    assert len(signatures) == 4


def test_a_time_proves_after_two_seconds_here_and_after_a_quarter_of_an_hour_elsewhere_and_none_never() -> None:
    timed = signature_of({"size": 3, "LastModified": datetime.fromtimestamp(1000, UTC), "ETag": 'W/"1"'}, "a")
    assert [proves(timed, at, is_here=True) for at in (1001.0, 1003.0)] == [False, True]
    assert [proves(timed, at, is_here=False) for at in (1003.0, 1901.0)] == [False, True]
    assert not proves(signature_of({"size": 3}, "a"), 1e9, is_here=True)


def test_a_bucket_that_does_not_answer_never_sets_a_document_aside(pipeline: Pipeline, objects: Objects) -> None:
    fill(objects, 1)
    pipeline.reconcile()
    objects.kind.failure_of_one = TimeoutError("no answer")
    (leased,) = lease_all(pipeline)
    from workers.sync import failed

    for attempts in range(20):
        outcome = failed(pipeline.bench, replace_attempts(leased, attempts), BucketUnreachable(url="u", reason="r"))
        assert isinstance(outcome, Failed)
        assert outcome.retry_at is not None


def replace_attempts(leased, attempts: int):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return replace(leased, attempts=attempts)


def test_no_secret_of_the_options_stands_in_a_message(objects: Objects) -> None:
    objects.put("a.md", "x")
    objects.kind.failure = OSError("key AKIAEXAMPLE with s3cr3t-value was refused at http://host")
    table = BucketsTable(options={"memory": {"key": "AKIAEXAMPLE", "client": {"secret": "s3cr3t-value"}, "endpoint_url": "http://host"}})
    (fault,) = bucket(table=table).scan().faults
    assert fault.reason == "key *** with *** was refused at http://host"
    assert "s3cr3t" not in repr(table)


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(BucketDriverMissing, match=r"pip install 'evercurrent\[s3\]'"):
        bucket_of(root(url="s3://b/x")).scan()
