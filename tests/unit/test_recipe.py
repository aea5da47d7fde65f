"""Recipes: equal where the chunks would be equal, different where they would not, and enough to cut by."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from indexer.load.registry import LOADER_VERSIONS
from indexer.recipe import recipe_of, split_settings
from indexer.split.cut import SplitSettings
from store.config import SplitTable
from store.model import Recipe, RecipeId


def test_a_recipe_is_the_same_whether_the_minimum_is_given_or_follows_the_maximum() -> None:
    assert recipe_of(SplitTable()) == recipe_of(SplitTable(chunk_chars_min=300)) == recipe_of(SplitSettings())


@pytest.mark.parametrize(
    "other",
    [
        recipe_of(SplitTable(chunk_chars_max=1000)),
        recipe_of(SplitTable(chunk_chars_min=100)),
        recipe_of(SplitTable(overlap_chars=100)),
        recipe_of(SplitTable(strategy="text")),
        recipe_of(SplitTable(), loader_versions={**LOADER_VERSIONS, "html": 99}),
        recipe_of(SplitTable(), splitter_version=99),
    ],
    ids=["maximum", "minimum", "overlap", "strategy", "loader", "splitter"],
)
def test_whatever_moves_a_cut_makes_another_recipe(other: Recipe) -> None:
    assert other.recipe_id != recipe_of(SplitTable()).recipe_id


def test_a_recipe_that_was_stored_as_json_gives_its_settings_back() -> None:
    settings = SplitSettings("markdown", 800, 150, 40)
    recipe = recipe_of(settings)
    stored = Recipe(RecipeId(recipe.recipe_id), json.loads(json.dumps(recipe.settings)))
    assert split_settings(stored) == settings
    assert stored == recipe


def test_impossible_settings_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="half"):
        SplitSettings(chars_max=100, chars_min=60)
    with pytest.raises(ValueError, match="half"):
        SplitSettings(chars_max=100, chars_min=20, overlap_chars=51)
    with pytest.raises(ValueError, match="unknown strategy"):
        SplitSettings(strategy="magic")  # type: ignore[arg-type]


def test_a_recipe_costs_no_library_that_a_pass_without_changes_must_not_pay_for() -> None:
    script = (
        "import sys, indexer.recipe as r; r.recipe_of(r.SplitSettings()); "
        "print([m for m in ('numpy', 'yaml', 'markdown_it', 'selectolax', 'charset_normalizer') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_root_of_its_own_changes_the_recipe_exactly_when_it_is_cut_in_another_way() -> None:
    general = recipe_of(SplitTable())
    assert recipe_of(SplitTable(), root_splits={"docs": SplitTable()}) == general
    other = recipe_of(SplitTable(), root_splits={"docs": SplitTable(chunk_chars_max=400)})
    assert other.recipe_id != general.recipe_id
    assert split_settings(other, "docs") == SplitSettings(chars_max=400, chars_min=100)
    assert split_settings(other, "main") == split_settings(other) == SplitSettings()
