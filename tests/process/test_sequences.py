"""What went wrong for other people, step by step, against the product as a user runs it.

Not run, since its steps need what does not exist yet: S-B09b (`check --repair`). Of S-F02a and S-F03a what asks for a cache of answers is
not done: there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.sequences import SharedStage, perform, read_sequences
from kit.shared import shared_path
from kit.upload_sequences import perform_uploads

FOLDERS = ["S-A01a", "S-A01d", "S-A03a", "S-A04a", "S-A04b", "S-A06a", "S-A06b", "S-A08a", "S-A09a", "S-A10a", "S-A12a", "S-A15a"]
FOLDERS += ["S-A16a", "S-A18a", "S-A20a", "S-A21a", "S-A23a", "S-A25a", "S-A26a"]
RECORDS = ["S-B01a", "S-B02a", "S-B03a", "S-B05a", "S-B06a", "S-B07a", "S-B09a", "S-B11a", "S-B16a", "S-B19a", "S-B22a"]
PROCESSES = ["S-C01a", "S-C05a", "S-C09a", "S-E01a", "S-G03a", "S-G05a"]
UPLOADS = ["S-B14a", "S-F01a", "S-F02a", "S-F03a", "S-F10a"]
NATIVE_ONLY = frozenset({"S-A10a"})
POLLED_ALWAYS = frozenset({*FOLDERS, "S-C05a"})
"""Where polling goes another way than events do. What else is polled is slow: the rest of the way is the same."""
UNMET = {
    "S-B16a": "of four paragraphs the content-defined cut leaves two alone and joins two, which the minimum of a quarter allows",
}
"""Expected of other rooms; each fails here as soon as it is met."""


def cases() -> Iterator[object]:
    for name in [*FOLDERS, *RECORDS, *PROCESSES]:
        for mode in ("native",) if name in NATIVE_ONLY else ("native", "polling"):
            marks: list[pytest.MarkDecorator] = []
            if name in UNMET:
                marks.append(pytest.mark.xfail(reason=UNMET[name], strict=True))
            if mode == "polling" and name not in POLLED_ALWAYS:
                marks.append(pytest.mark.slow)
            yield pytest.param(name, mode, id=f"{name}-{mode}", marks=marks)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SharedStage]]:
    shared = {mode: SharedStage(mode, lambda: tmp_path_factory.mktemp("shared")) for mode in ("native", "polling")}
    yield shared
    for stage in shared.values():
        stage.close()


@pytest.mark.process
@pytest.mark.shared
@pytest.mark.parametrize(("name", "mode"), list(cases()))
def test_a_failure_sequence_ends_as_it_should(name: str, mode: str, tmp_path: Path, stages: dict[str, SharedStage]) -> None:
    sequence = read_sequences(shared_path("cases/sequences.jsonl"))[name]
    if sequence.is_plain:
        stages[mode].perform(sequence)
    else:
        perform(sequence, mode, tmp_path)


@pytest.mark.process
@pytest.mark.shared
@pytest.mark.parametrize("name", UPLOADS)
def test_a_failure_sequence_of_uploads_ends_as_it_should(name: str, tmp_path: Path) -> None:
    """In one mode: uploads are not watched."""
    perform_uploads(read_sequences(shared_path("cases/sequences.jsonl"))[name], "native", tmp_path)


@pytest.mark.process
@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["native", "polling"])
def test_of_two_versions_in_flight_the_newer_stays_every_time(mode: str, tmp_path: Path) -> None:
    sequence = read_sequences(shared_path("cases/sequences.jsonl"))["S-B11a"]
    perform(sequence, mode, tmp_path, rounds=int(sequence.expect["repeat"]))
