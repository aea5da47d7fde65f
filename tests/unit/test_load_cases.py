"""Every input of the shared failure cases: loaded, cut and identified as the cases expect."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kit.shared import shared_path, shared_root

from indexer.identity import identify
from indexer.load.registry import claims
from indexer.sandbox.parent import Sandbox
from indexer.split.cut import SplitSettings, cut
from store.clock import SystemClock
from store.config import LoadTable
from store.errors import Rejected
from store.model import Chunk, CollectionId, CollectionName, LoadedText, Namespace

HOME = CollectionId(Namespace("n"), CollectionName("c"))
EXPECTED_PATH = shared_root() / "cases/inputs/expected.json"
EXPECTED: dict[str, dict[str, Any]] = json.loads(EXPECTED_PATH.read_text("utf-8"))["files"] if EXPECTED_PATH.exists() else {}
CLAIMED = sorted(EXPECTED)


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LoadTable(), SystemClock()) as opened:
        SANDBOXES.append(opened)
        yield opened
        SANDBOXES.clear()


SANDBOXES: list[Sandbox] = []


def loaded(name: str) -> LoadedText:
    return SANDBOXES[0].load(name, shared_path(f"cases/inputs/{name}").read_bytes())


def chunks(name: str, settings: SplitSettings) -> tuple[Chunk, ...]:
    text = loaded(name)
    return identify(HOME.document(name), text, cut(text, settings))


def settings_of(split: dict[str, Any]) -> SplitSettings:
    return SplitSettings(chars_max=split["chunk_size"], chars_min=split["chunk_size"] // 4, overlap_chars=split["overlap"])


def split_check() -> Callable[..., list[tuple[str, str, object]]]:
    path = shared_path("cases/split_invariants.py")
    spec = importlib.util.spec_from_file_location("split_invariants", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check: Callable[..., list[tuple[str, str, object]]] = module.check
    return check


def loaded_or_refused(name: str) -> tuple[LoadedText | None, str]:
    """The text, or the reason why there is none, in lower case."""
    try:
        return loaded(name), ""
    except Rejected as error:
        return None, error.message.lower()


def test_all_case_inputs_are_claimed() -> None:
    shared_path("cases/inputs/expected.json")
    assert [name for name in EXPECTED if not claims(name)] == []


@pytest.mark.parametrize("name", CLAIMED)
def test_a_case_input_has_its_expected_outcome_and_text(name: str) -> None:
    case = EXPECTED[name]
    text, refusal = loaded_or_refused(name)
    if text is None:
        assert case["outcome"] in ("rejected", "indexed_or_rejected")
        assert any(reason in refusal for reason in case["reasons_any"])
        return
    made = [chunk.text for chunk in chunks(name, SplitSettings())]
    assert case["outcome"].startswith("indexed") == bool(made)
    if case["outcome"] == "empty_flagged":
        assert any(reason in fault.message.lower() for fault in text.faults for reason in case["reasons_any"])
    stored = "\n".join(made)
    assert [wanted for wanted in case.get("must_contain", ()) if wanted not in stored] == []
    assert [unwanted for unwanted in case.get("must_not_contain", ()) if unwanted in stored] == []
    assert case.get("metadata", {}).get("title", text.title) == text.title
    if "headings" in case:
        assert [heading.title for heading in text.headings] == case["headings"]


@pytest.mark.parametrize("name", [name for name in CLAIMED if "split" in EXPECTED[name]])
def test_a_case_input_is_cut_within_its_invariants(name: str) -> None:
    case = EXPECTED[name]
    settings = settings_of(case["split"])
    made = chunks(name, settings)
    check = split_check()
    assert check(loaded(name).text, [(chunk.start, chunk.text) for chunk in made], case["split"], case.get("protected", ())) == []
    assert made == chunks(name, settings)
    assert len({chunk.chunk_id for chunk in made}) == len(made)
    joined = [chunk.text for chunk in made]
    assert not [text for text in joined for unwanted in case.get("must_not_contain_in_chunks", ()) if unwanted in text]


@pytest.mark.parametrize("name", [name for name in CLAIMED if "same_chunks_as" in EXPECTED[name]])
def test_a_case_input_has_the_same_chunks_as_its_twin(name: str) -> None:
    case = EXPECTED[name]
    settings = settings_of(case["split"])
    mine, twins = chunks(name, settings), chunks(case["same_chunks_as"], settings)
    assert [chunk.text_hash for chunk in mine] == [chunk.text_hash for chunk in twins]
    assert [(chunk.start, chunk.end) for chunk in mine] == [(chunk.start, chunk.end) for chunk in twins]
