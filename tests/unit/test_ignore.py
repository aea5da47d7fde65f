"""Claims about names and paths that are never documents."""

from __future__ import annotations

import sys

import pytest

from indexer.ignore import Patterns, Rules, is_litter

LITTER = [
    ".git", ".doc.md.swp", ".~lock.doc.odt#", ".DS_Store", ".#notes.md", ".goutputstream-X1", "~$doc.docx", "~WRL0001.tmp", "doc.md~",
    "#doc.md#", "x.tmp", "X.TMP", "dl.part", "film.crdownload", "a.swp", "a.swx", "Thumbs.db", "desktop.ini", "__pycache__", "lost+found",
]  # fmt: skip
DOCUMENTS = [
    "notes~2024.md",
    "a$b.md",
    "~draft.md",
    "#1.md",
    "C#.md",
    "part.md",
    "tmp",
    "thumbs.md",
    "a.b",
    "%FF",
    "node_modules",
    "x y.md",
]


@pytest.mark.parametrize("name", LITTER)
def test_litter_is_no_document(name: str) -> None:
    assert is_litter(name)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_name_that_only_looks_like_litter_is_kept(name: str) -> None:
    assert not is_litter(name)


def test_include_names_what_is_looked_at_and_exclude_takes_out_of_it() -> None:
    patterns = Patterns(Rules(include=("docs/**",), exclude=("*.draft.md", "docs/old/")))
    assert not patterns.refuse_file("docs/a.md")
    assert patterns.refuse_file("b.md")
    assert patterns.refuse_file("docs/a.draft.md")
    assert patterns.refuse_folder("docs/old")
    assert not patterns.refuse_folder("docs")


def test_the_deepest_ignore_file_that_matches_decides() -> None:
    patterns = Patterns(Rules())
    patterns.add_folder("", ["*.log.md", "/build"])
    patterns.add_folder("keep", ["!*.log.md", "/secret.md"])
    assert patterns.refuse_file("a.log.md")
    assert not patterns.refuse_file("keep/a.log.md")
    assert patterns.refuse_file("other/a.log.md")
    assert patterns.refuse_file("keep/secret.md")
    assert not patterns.refuse_file("keep/sub/secret.md")
    assert patterns.refuse_folder("build")
    assert not patterns.refuse_folder("src/build")


def test_the_ignore_files_outrank_the_configuration_as_they_are_nearer() -> None:
    patterns = Patterns(Rules(exclude=("*.txt",)))
    patterns.add_folder("", ["!wanted.txt"])
    assert patterns.refuse_file("a.txt")
    assert not patterns.refuse_file("wanted.txt")


def test_comments_and_blank_lines_are_no_patterns() -> None:
    patterns = Patterns(Rules())
    patterns.add_folder("", ["", "# a comment", "   "])
    assert not patterns.refuse_file("# a comment")


def test_without_a_pattern_no_pattern_library_is_needed() -> None:
    before = "pathspec" in sys.modules
    patterns = Patterns(Rules())
    patterns.add_folder("", None)
    assert not patterns.decide_anything
    assert not patterns.refuse_file("a.md")
    assert ("pathspec" in sys.modules) is before
