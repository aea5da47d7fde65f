"""Files of other people's test suites: each gives its text or a rejection in plain words, and what their own readers find in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.shared import shared_path, shared_root

from indexer.load.html import load_html
from indexer.load.registry import claims
from indexer.sandbox.parent import Sandbox
from store.clock import SystemClock
from store.config import LoadTable
from store.errors import Rejected
from store.model import LoadedText

MIXED = shared_root() / "data/mixed"
FILES = sorted(
    str(path.relative_to(MIXED)) for path in MIXED.rglob("*") if path.is_file() and not path.name.endswith((".md", "LICENSE.txt"))
)
ORACLE = MIXED / "markitdown/expected_strings.json"
EXPECTED = json.loads(ORACLE.read_text("utf-8")) if ORACLE.exists() else []
UNCLAIMED = {"random.bin", "test_files.zip", "test_outlook_msg.msg"}
"""Archives and Outlook's own format have no loader."""
ELSEWHERE = {
    "data:image/png;base64...": "pictures are named by their description, their bytes are no text",
    "**Authors:** Test Author": "authors are metadata",
    "154 languages": "the list of languages stands in what the page marks as its main content",
    "https://www.bing.com/ck/a?!&&p=": "a link leads where its page says",
}
"""What is expected there and not here, with the reason."""
REASONS = ("password", "damaged", "no text", "no loader", "encod")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LoadTable(), SystemClock()) as opened:
        yield opened


def read(sandbox: Sandbox, name: str) -> LoadedText:
    path = shared_path(f"data/mixed/{name}")
    return sandbox.load(Path(name).name, path.read_bytes())


def words(text: str) -> str:
    """The words alone: marks of emphasis, of headings, links and tables are a matter of taste."""
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join(re.sub(r"[^\w]+", " ", text.replace("_", " ")).split()).casefold()


@pytest.mark.shared
@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_its_text_or_a_rejection_in_plain_words(sandbox: Sandbox, name: str) -> None:
    try:
        loaded, refusal = read(sandbox, name), ""
    except Rejected as error:
        loaded, refusal = None, error.message.lower()
    if loaded is None:
        assert any(reason in refusal for reason in REASONS)
        return
    text = loaded.text
    assert text == text.encode("utf-8", "strict").decode().replace("\0", "").replace("\r", "")
    assert all(0 <= heading.start < len(text) for heading in loaded.headings)
    assert all(0 <= block.start < block.end <= len(text) for block in loaded.blocks)
    assert [page.start for page in loaded.pages] == sorted({page.start for page in loaded.pages})


def oracle() -> Iterator[object]:
    for row in EXPECTED:
        if row["file"] not in UNCLAIMED:
            yield pytest.param(row["file"], row["must_include"], row["must_not_include"], id=row["file"])


@pytest.mark.shared
@pytest.mark.parametrize(("name", "wanted", "unwanted"), list(oracle()))
def test_what_another_reader_finds_in_a_file_is_found(sandbox: Sandbox, name: str, wanted: list[str], unwanted: list[str]) -> None:
    loaded = read(sandbox, f"markitdown/{name}")
    found = words(loaded.text)
    assert [text for text in wanted if text not in ELSEWHERE and words(text) not in found] == []
    assert [text for text in unwanted if text not in ELSEWHERE and text in loaded.text] == []


@pytest.mark.shared
def test_links_of_a_page_lead_where_they_led() -> None:
    content = shared_path("data/mixed/markitdown/test_wikipedia.html").read_bytes()
    text = load_html(content, "text/html").text
    assert "[Bill Gates](/wiki/Bill_Gates)" in text
    assert "[Unix]" in text


@pytest.mark.shared
def test_only_archives_and_outlooks_own_format_are_not_claimed() -> None:
    shared_path("data/mixed/markitdown")
    names = {Path(name).name for name in FILES if not name.endswith(".json")}
    assert {name for name in names if not claims(name)} == UNCLAIMED
