"""One job over a real folder and a catalog: what lands, what is refused, what is never embedded twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.pipeline import HOME, Pipeline, paragraphs

from store.catalog.sqlite import SqliteCatalog
from store.clock import SystemClock
from store.config import EmbeddingTable, SplitTable
from store.errors import CatalogCorrupt, EmbedderRateLimited, EmbedderRefused, EmbedderUnavailable
from store.model import Absent, Cause, Failed, Indexed, Position, Refusal, Refused, Seq
from workers.entry import DocumentsQuarantined
from workers.sync import run_job, sync_documents


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    clock = SystemClock()
    catalog = SqliteCatalog.open(tmp_path / "data", clock)
    yield Pipeline(catalog, clock, tmp_path / "docs")
    catalog.close()


def test_a_new_document_is_cut_embedded_and_visible(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B"))
    pipeline.settle()
    assert [text[:6] for text in pipeline.texts()["a.md"]] == ["MARK-A", "MARK-B"]
    assert len(pipeline.embedder.sent) == 2
    assert list(pipeline.catalog.findings()) == []


def test_a_second_pass_over_the_same_folder_does_nothing(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B"))
    pipeline.settle()
    head = pipeline.catalog.position()
    pipeline.settle()
    assert (pipeline.catalog.position(), len(pipeline.embedder.sent)) == (head, 2)


def test_one_edited_paragraph_of_three_embeds_one_chunk_and_keeps_the_other_ids(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B", "C"))
    pipeline.settle()
    before = pipeline.chunk_ids()["a.md"]
    pipeline.write("a.md", paragraphs("A", "B2", "C"))
    pipeline.settle()
    after = pipeline.chunk_ids()["a.md"]
    assert (len(pipeline.embedder.sent), after[0], after[2]) == (4, before[0], before[2])
    assert "MARK-B " not in "".join(pipeline.texts()["a.md"])


def test_a_line_inserted_at_the_top_moves_chunks_without_writing_their_rows(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B"))
    pipeline.settle()
    pipeline.write("a.md", paragraphs("NEW", "A", "B"))
    pipeline.settle()
    with pipeline.catalog.snapshot() as snapshot:
        last = next(iter(snapshot.log(HOME, Position(snapshot.position.incarnation, Seq(snapshot.position.seq - 1)))))
    assert (last.added, last.kept, last.dropped, last.embedded) == (1, 2, 0, 1)


def test_a_rename_embeds_nothing_and_the_old_uri_leaves_in_the_same_commit(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B"))
    pipeline.settle()
    pipeline.rename("a.md", "b.md")
    pipeline.reconcile()
    assert list(pipeline.texts()) == ["a.md"], "the old uri is served until the new one is committed"
    pipeline.work()
    assert (list(pipeline.texts()), len(pipeline.embedder.sent)) == (["b.md"], 2)


def test_a_copy_reuses_the_vectors_of_its_original(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B"))
    pipeline.settle()
    pipeline.write("copy.md", paragraphs("A", "B"))
    pipeline.settle()
    assert (len(pipeline.embedder.sent), sorted(pipeline.texts())) == (2, ["a.md", "copy.md"])


def test_equal_texts_of_one_job_are_sent_once(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.write("b.md", paragraphs("A"))
    pipeline.settle()
    assert len(pipeline.embedder.sent) == 1


def test_a_revert_inside_the_retention_window_embeds_nothing(pipeline: Pipeline) -> None:
    for text in (paragraphs("A"), paragraphs("B"), paragraphs("A")):
        pipeline.write("a.md", text)
        pipeline.settle()
    assert len(pipeline.embedder.sent) == 2


def test_an_empty_document_is_empty_and_embeds_nothing(pipeline: Pipeline) -> None:
    pipeline.write("a.md", " \n\n")
    pipeline.settle()
    assert (pipeline.state("a.md"), pipeline.embedder.calls, pipeline.texts()) == ("empty", 0, {"a.md": []})


def test_a_document_emptied_and_refilled_comes_back_without_embedding(pipeline: Pipeline) -> None:
    for text in (paragraphs("A"), "", paragraphs("A")):
        pipeline.write("a.md", text)
        pipeline.settle()
    assert (pipeline.state("a.md"), len(pipeline.embedder.sent)) == ("indexed", 1)


def test_one_bad_document_is_quarantined_and_its_neighbours_land(pipeline: Pipeline) -> None:
    pipeline.write("good.md", paragraphs("G"))
    (pipeline.folder / "bad.txt").write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 4)
    pipeline.reconcile()
    documents = [row.document for row in pipeline.catalog.pending(10, pipeline.clock.now())]
    with pytest.raises(DocumentsQuarantined, match=r"1 of 2 documents were quarantined: bad\.txt"):
        run_job(pipeline.bench, documents)
    assert (pipeline.state("good.md"), pipeline.state("bad.txt")) == ("indexed", "quarantined")


def test_a_document_that_turns_bad_keeps_its_last_good_version_served(pipeline: Pipeline) -> None:
    pipeline.write("a.txt", paragraphs("A"))
    pipeline.settle()
    (pipeline.folder / "a.txt").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 4)
    pipeline.settle()
    assert (pipeline.state("a.txt"), len(pipeline.texts()["a.txt"])) == ("quarantined", 1)


def test_a_text_that_the_provider_refuses_fails_only_the_document_that_holds_it(pipeline: Pipeline) -> None:
    pipeline.write("good.md", paragraphs("G"))
    pipeline.write("bad.md", paragraphs("X", "POISON"))
    pipeline.embedder.refused = {"POISON": "it is too long"}
    pipeline.reconcile()
    report = pipeline.work()
    assert sorted((type(outcome), outcome.document.uri) for outcome, _ in report.outcomes if isinstance(outcome, Indexed)) == [
        (Indexed, "good.md")
    ]
    assert pipeline.state("bad.md") == "quarantined"


def test_what_was_embedded_before_the_provider_failed_is_not_embedded_again(pipeline: Pipeline) -> None:
    pipeline.batch_texts_max = 2
    pipeline.bench.batch_texts_max = 2
    pipeline.write("a.md", paragraphs(*"ABCDEF"))
    pipeline.reconcile()

    def fail_third(number: int) -> None:
        if number == 3:
            raise EmbedderRateLimited(provider="counting", retry_after_seconds=0)

    pipeline.embedder.before_call = fail_third
    report = pipeline.work()
    assert isinstance(report.outcomes[0][0], Failed)
    assert pipeline.state("a.md") == "pending"
    pipeline.catalog.retry([pipeline.document("a.md")], HOME, pipeline.clock.now())
    sync_documents(pipeline.bench, [pipeline.document("a.md")])
    assert (len(pipeline.embedder.sent), len(set(pipeline.embedder.sent))) == (6, 6)


def test_an_embedder_that_is_down_leaves_nothing_half_done(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.reconcile()

    def down(_number: int) -> None:
        raise EmbedderUnavailable(provider="counting", reason="connection refused")

    pipeline.embedder.before_call = down
    pipeline.work()
    status = pipeline.catalog.status_of(pipeline.document("a.md"))
    assert status is not None
    assert (status.state, status.attempts, status.code, pipeline.texts()) == ("pending", 1, "embedder_unavailable", {})
    assert status.retry_at is not None
    assert status.retry_at <= pipeline.clock.now() + 1.0


def test_a_deletion_beats_the_work_in_flight(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.reconcile()

    def delete_meanwhile(_number: int) -> None:
        pipeline.catalog.record([Absent(pipeline.document("a.md"), Cause.DELETED, pipeline.clock.now())])

    pipeline.embedder.before_call = delete_meanwhile
    report = pipeline.work()
    assert [verdict for _, verdict in report.outcomes] == [Refused(Refusal.WANTED_ABSENT)]
    assert (pipeline.texts(), pipeline.state("a.md")) == ({}, "deleted")


def test_a_save_during_the_work_is_indexed_after_it(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.reconcile()

    def save_meanwhile(number: int) -> None:
        if number == 1:
            pipeline.write("a.md", paragraphs("A", "B"))
            pipeline.reconcile()

    pipeline.embedder.before_call = save_meanwhile
    pipeline.work()
    assert (pipeline.state("a.md"), len(pipeline.texts()["a.md"])) == ("pending", 1)
    pipeline.settle()
    assert (pipeline.state("a.md"), len(pipeline.texts()["a.md"]), len(pipeline.embedder.sent)) == ("indexed", 2, 2)


def test_a_worker_that_lost_its_lease_changes_nothing(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.reconcile()
    other = pipeline.new_bench("worker-2")

    def lose_the_lease(number: int) -> None:
        if number == 1:
            pipeline.catalog.end_session(pipeline.bench.session_id)
            sync_documents(other, [pipeline.document("a.md")])

    pipeline.embedder.before_call = lose_the_lease
    report = pipeline.work()
    assert [verdict for _, verdict in report.outcomes] == [Refused(Refusal.FENCE_OLD)]
    assert (pipeline.state("a.md"), len(pipeline.texts()["a.md"])) == ("indexed", 1)


def test_a_file_that_is_gone_when_the_worker_looks_is_deleted(pipeline: Pipeline) -> None:
    pipeline.write("neighbour.md", paragraphs("N"))
    pipeline.write("a.md", paragraphs("A"))
    pipeline.settle()
    pipeline.write("a.md", paragraphs("B"))
    pipeline.reconcile()
    pipeline.delete("a.md")
    pipeline.work()
    assert (pipeline.state("a.md"), list(pipeline.texts())) == ("deleted", ["neighbour.md"])


def test_a_file_whose_folder_is_empty_when_the_worker_looks_is_held_and_served(pipeline: Pipeline) -> None:
    """An unmounted folder inside a living root looks just so."""
    pipeline.write("root.md", paragraphs("R"))
    pipeline.write("mounted/a.md", paragraphs("A"))
    pipeline.settle()
    pipeline.write("mounted/a.md", paragraphs("B"))
    pipeline.reconcile()
    pipeline.delete("mounted/a.md")
    pipeline.work()
    assert (pipeline.state("mounted/a.md"), [text[:6] for text in pipeline.texts()["mounted/a.md"]]) == ("held", ["MARK-A"])
    assert pipeline.catalog.leased(pipeline.clock.now(), 10) == set()
    pipeline.reconcile()
    assert pipeline.state("mounted/a.md") == "deleted", "a scan that finds one document missing is believed"


def test_a_file_that_is_not_there_for_a_new_build_is_held_and_not_deleted(pipeline: Pipeline) -> None:
    pipeline.write("neighbour.md", paragraphs("N"))
    pipeline.write("a.md", paragraphs("A"))
    pipeline.settle()
    pipeline.delete("a.md")
    pipeline.configure(SplitTable(chunk_chars_max=400))
    pipeline.work()
    assert (pipeline.state("a.md"), sorted(pipeline.texts())) == ("held", ["a.md", "neighbour.md"])


def test_a_wrong_key_or_model_quarantines_nothing(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.reconcile()

    def refuse(_number: int) -> None:
        raise EmbedderRefused(provider="counting", reason="no such key")

    pipeline.embedder.before_call = refuse
    pipeline.work()
    status = pipeline.catalog.status_of(pipeline.document("a.md"))
    assert status is not None
    assert (status.state, status.code) == ("pending", "embedder_refused")


def test_small_documents_of_a_job_are_served_before_a_large_one_is_embedded(pipeline: Pipeline) -> None:
    pipeline.write("a-large.md", paragraphs(*(f"L{number}" for number in range(600))))
    pipeline.write("small.md", paragraphs("S"))
    served: list[list[str]] = []
    pipeline.embedder.before_call = lambda _number: served.append(list(pipeline.texts()))
    pipeline.reconcile()
    pipeline.work()
    assert served[0] == []
    assert served[-1] == ["small.md"]
    assert sorted(pipeline.texts()) == ["a-large.md", "small.md"]


def test_what_landed_before_a_job_broke_stays_and_only_the_rest_is_given_back(pipeline: Pipeline) -> None:
    pipeline.write("a-large.md", paragraphs(*(f"L{number}" for number in range(600))))
    pipeline.write("small.md", paragraphs("S"))
    pipeline.reconcile()

    class TimeIsOut(Exception):
        pass

    pipeline.bench.passes_through = (TimeIsOut,)

    def run_out(number: int) -> None:
        if number == 2:
            raise TimeIsOut

    pipeline.embedder.before_call = run_out
    with pytest.raises(TimeIsOut):
        pipeline.work()
    assert (pipeline.state("small.md"), pipeline.state("a-large.md")) == ("indexed", "pending")
    assert pipeline.catalog.leased(pipeline.clock.now(), 10) == set()


def test_another_chunk_size_grows_beside_and_is_switched_at_once(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B", "C", "D"))
    pipeline.write("b.md", paragraphs("E"))
    pipeline.settle()
    pipeline.configure(SplitTable(chunk_chars_max=400))
    pipeline.job_documents_max = 1
    pipeline.work()
    assert not pipeline.catalog.switch(HOME, pipeline.clock.now())
    assert len(pipeline.texts()["a.md"]) == 4, "the served build is whole until the switch"
    pipeline.settle()
    assert pipeline.catalog.switch(HOME, pipeline.clock.now())
    assert len(pipeline.texts()["a.md"]) < 4
    assert list(pipeline.catalog.findings()) == []


def test_an_edit_while_a_build_grows_reaches_the_served_one_too(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B"))
    pipeline.write("b.md", paragraphs("E"))
    pipeline.settle()
    pipeline.configure(SplitTable(chunk_chars_max=400))
    pipeline.write("a.md", paragraphs("A", "B2"))
    pipeline.reconcile()
    sync_documents(pipeline.bench, [pipeline.document("a.md")])
    assert "MARK-B2" in "".join(pipeline.texts()["a.md"])


def test_another_space_is_embedded_beside_and_never_mixed(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A", "B"))
    pipeline.settle()
    first = pipeline.embedder
    other = EmbeddingTable(provider="hashing", document_prefix="passage: ")
    from indexer.embedding.spaces import space_of

    space = space_of(other)
    assert space is not None
    pipeline.embedder = pipeline.embedder_of(space)
    pipeline.configure(SplitTable(chunk_chars_max=200))
    pipeline.settle()
    assert (len(first.sent), len(pipeline.embedder.sent)) == (2, 2)
    assert pipeline.catalog.switch(HOME, pipeline.clock.now())
    assert list(pipeline.catalog.findings()) == []


def test_a_job_is_counted_with_its_outcome_and_its_stages(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.reconcile()
    run_job(pipeline.bench, [pipeline.document("a.md")])
    counted = {(tally.name, tally.labels): tally.value for tally in pipeline.catalog.tallies()}
    assert counted["evercurrent_jobs_total", (("outcome", "done"),)] == 1
    stages = {labels[0][1] for name, labels in counted if name == "evercurrent_stage_seconds_count"}
    assert stages == {"lease", "fetch", "draft", "embed", "commit"}


def test_a_job_that_breaks_is_counted_as_broken(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.reconcile()

    class TimeIsOut(Exception):
        pass

    pipeline.bench.passes_through = (TimeIsOut,)

    def run_out(_number: int) -> None:
        raise TimeIsOut

    pipeline.embedder.before_call = run_out
    with pytest.raises(TimeIsOut):
        run_job(pipeline.bench, [pipeline.document("a.md")])
    assert ("evercurrent_jobs_total", (("outcome", "broken"),)) in {(tally.name, tally.labels) for tally in pipeline.catalog.tallies()}
    status = pipeline.catalog.status_of(pipeline.document("a.md"))
    assert status is not None
    assert (status.state, status.code, status.attempts) == ("pending", "internal", 1)
    assert pipeline.catalog.leased(pipeline.clock.now(), 10) == set(), "a broken job leaves nothing leased"


def test_a_worker_that_cannot_even_give_back_leaves(pipeline: Pipeline) -> None:
    pipeline.write("a.md", paragraphs("A"))
    pipeline.reconcile()
    left: list[str] = []
    pipeline.bench.leave = lambda: left.append("left")

    def damaged(_number: int) -> None:
        raise CatalogCorrupt(path="catalog", reason="planted")

    pipeline.embedder.before_call = damaged
    with pytest.raises(CatalogCorrupt):
        run_job(pipeline.bench, [pipeline.document("a.md")])
    assert left == ["left"]
