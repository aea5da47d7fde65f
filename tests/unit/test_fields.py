"""Declared metadata: what keeps to its declaration, and what the refusal of the rest says."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.fields import SHARED_FIELDS, check_fields, check_patch_fields, declared_fields, fitting
from store.config import FieldTable, IndexerTable, load_config
from store.errors import ConfigWrong, MetadataRejected

FIELDS = declared_fields(
    {
        "status": FieldTable(type="string", values=("draft", "final"), required=True),
        "tags": FieldTable(type="strings", values=("sea", "land")),
        "pages": FieldTable(type="number"),
        "open": FieldTable(type="boolean"),
    }
)


def test_what_a_file_says_beside_a_declaration_is_left_out_and_said() -> None:
    kept, faults = fitting({"status": "fnal", "pages": 7, "team": "harbour", "open": None}, FIELDS)
    assert kept == {"pages": 7, "team": "harbour", "open": None}
    assert [fault.code for fault in faults] == ["metadata_misfit"]
    assert "'status' is left out: it must be one of 'draft', 'final', not 'fnal'; did you mean 'final'?" in faults[0].message
    assert fitting(kept, FIELDS) == (kept, ())


def refusal(metadata: dict[str, Any]) -> str:
    with pytest.raises(MetadataRejected) as caught:
        check_fields(metadata, FIELDS)
    return caught.value.message


@pytest.mark.parametrize("date", ["2026-12-01", "2026-12-01T10:00:00Z", "2026-12-01t10:00:00.5+02:00", "2024-02-29"])
def test_dates_are_days_or_moments_with_an_offset(date: str) -> None:
    check_fields({"effective_from": date}, SHARED_FIELDS)


@pytest.mark.parametrize(
    "date", ["20261201", "2026-W49-2", "2026-12-01T10:00:00", "2025-02-29", "2026-12-01T25:00:00Z", "soon", "", 20261201]
)
def test_what_is_no_date_is_refused_with_an_example(date: Any) -> None:
    with pytest.raises(MetadataRejected, match="'effective_from' must be a date such as 2026-12-01"):
        check_fields({"effective_from": date}, SHARED_FIELDS)


def test_values_that_keep_to_their_declarations_pass_and_undeclared_keys_are_free() -> None:
    check_fields({"status": "draft", "tags": ["sea", "land"], "pages": 2.5, "open": False, "other": {"a": [1]}}, FIELDS)
    check_fields({"status": "final", "tags": "sea", "pages": None}, FIELDS)


def test_a_value_outside_its_list_is_refused_with_the_nearest() -> None:
    assert "'status' must be one of 'draft', 'final', not 'drafted'; did you mean 'draft'?" in refusal({"status": "drafted"})
    assert "did you mean 'sea'?" in refusal({"status": "draft", "tags": ["land", "seas"]})


@pytest.mark.parametrize(("key", "value"), [("pages", "2"), ("pages", True), ("open", 1), ("status", 3), ("tags", [1])])
def test_a_value_of_another_type_is_refused_by_name(key: str, value: Any) -> None:
    assert f"{key!r} must be " in refusal({"status": "draft", key: value})


def test_a_required_key_may_neither_lack_nor_be_taken_away() -> None:
    assert "lacks 'status'" in refusal({"pages": 1})
    check_patch_fields({"pages": 1}, FIELDS)
    for patch in ({"status": None}, None):
        with pytest.raises(MetadataRejected, match="would lack 'status'"):
            check_patch_fields(patch, FIELDS)


def test_an_unknown_key_in_a_table_by_name_is_refused_with_the_nearest(tmp_path: Any) -> None:
    path = tmp_path / "evercurrent.toml"
    path.write_text('[indexer.collections.notes.fields.status]\nvalue = ["a"]\n')
    with pytest.raises(ConfigWrong, match=r"indexer\.collections\.notes\.fields\.status\.value.*did you mean .*value"):
        load_config(path)
    path.write_text("[indexer.roots.main.split]\nchunk_chars_mx = 400\n")
    with pytest.raises(ConfigWrong, match="chunk_chars_max"):
        load_config(path)


def test_a_roots_split_is_the_general_one_where_it_says_nothing() -> None:
    table = IndexerTable.model_validate({"roots": {"docs": {"split": {"chunk_chars_max": 400}}}})
    assert (table.split_of("docs").chunk_chars_max, table.split_of("docs").strategy) == (400, table.split.strategy)
    assert table.split_of("main") == table.split
