"""One job beside people who describe, remove and drop: nothing they said is lost, and nothing is loaded or embedded for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.builders import ADAPTERS, open_adapter
from kit.pipeline import HOME, Pipeline

from store.clock import SimulatedClock
from store.model import Committed, Described, Refusal, Refused

FRONT = "---\nauthor: mira\nteam: harbour\n---\nThe tide turns at noon.\n"


@pytest.fixture(params=ADAPTERS)
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    clock = SimulatedClock()
    catalog = open_adapter(request.param, tmp_path / "data", clock)
    yield Pipeline(catalog, clock, tmp_path / "notes")
    catalog.close()


def metadata_of(pipeline: Pipeline, uri: str = "a.md") -> dict[str, Any]:
    with pipeline.catalog.snapshot() as snapshot:
        (visible,) = snapshot.documents(HOME, [pipeline.document(uri)])
        return dict(visible.metadata)


def describe(pipeline: Pipeline, **patch: Any) -> None:
    pipeline.catalog.record([Described(pipeline.document("a.md"), patch)])


def test_what_a_patch_hides_of_the_front_matter_comes_back_without_loading(pipeline: Pipeline) -> None:
    pipeline.write("a.md", FRONT)
    pipeline.settle()
    describe(pipeline, author="ada", reviewed=True)
    assert metadata_of(pipeline) == {"author": "ada", "team": "harbour", "reviewed": True}
    (pipeline.folder / "a.md").unlink()
    describe(pipeline, author=None)
    assert metadata_of(pipeline) == {"author": "mira", "team": "harbour", "reviewed": True}
    assert pipeline.work().outcomes == []


def test_a_patch_outlives_edits_of_what_it_hides(pipeline: Pipeline) -> None:
    pipeline.write("a.md", FRONT)
    pipeline.settle()
    describe(pipeline, author="ada")
    pipeline.write("a.md", FRONT.replace("mira", "noor"))
    pipeline.settle()
    assert metadata_of(pipeline) == {"author": "ada", "team": "harbour"}
    describe(pipeline, author=None)
    assert metadata_of(pipeline) == {"author": "noor", "team": "harbour"}


def test_a_patch_that_lands_while_a_worker_embeds_is_in_its_commit(pipeline: Pipeline) -> None:
    pipeline.write("a.md", FRONT)
    pipeline.reconcile()
    pipeline.embedder.before_call = lambda _number: describe(pipeline, author="ada")
    (((_, verdict),)) = pipeline.work().outcomes
    assert isinstance(verdict, Committed)
    assert (metadata_of(pipeline), pipeline.embedder.calls) == ({"author": "ada", "team": "harbour"}, 1)
    assert (pipeline.state("a.md"), pipeline.work().outcomes) == ("indexed", [])


def test_a_described_file_that_is_only_touched_changes_nothing(pipeline: Pipeline) -> None:
    pipeline.write("a.md", FRONT)
    pipeline.settle()
    describe(pipeline, author="ada")
    before = pipeline.catalog.position()
    pipeline.write("a.md", FRONT)
    pipeline.settle()
    assert pipeline.catalog.position() == before


def test_a_collection_that_is_dropped_during_the_work_has_the_work_refused(pipeline: Pipeline) -> None:
    pipeline.write("a.md", FRONT)
    pipeline.reconcile()
    pipeline.embedder.before_call = lambda _number: (pipeline.catalog.drop_collection(HOME, pipeline.clock.now()), None)[1]
    assert [verdict for _, verdict in pipeline.work().outcomes] == [Refused(Refusal.WANTED_ABSENT)]
    assert (pipeline.catalog.collections(), list(pipeline.catalog.findings())) == ([], [])


def test_a_root_that_is_removed_during_the_work_has_the_work_refused(pipeline: Pipeline) -> None:
    pipeline.write("a.md", FRONT)
    pipeline.reconcile()

    def remove(_number: int) -> None:
        pipeline.catalog.remove_root(HOME, pipeline.root.name, pipeline.clock.now())

    pipeline.embedder.before_call = remove
    assert [verdict for _, verdict in pipeline.work().outcomes] == [Refused(Refusal.WANTED_ABSENT)]
    assert pipeline.texts() == {}
