"""The end trees of real documentation repositories, indexed by `sync` and found by their own headings."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from kit.product import Product
from kit.shared import shared_path
from kit.streams import STREAMS, end_tree, lay_down

DRAWN = 20
RIGHT_MIN = 17
SEED = 7
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
WORD = re.compile(r"[\w'-]+")
CJK = re.compile(r"[\u3400-\u9fff]")


@pytest.mark.shared
@pytest.mark.process
@pytest.mark.parametrize("stream", STREAMS)
def test_documents_are_found_by_a_heading_of_their_own(stream: str, tmp_path: Path) -> None:
    tree = {name: text for name, text in end_tree(shared_path(f"data/events/{stream}.jsonl.xz")).items() if is_indexable(name)}
    lay_down(tree, tmp_path / "docs")
    product = Product(tmp_path / "data", {"EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "local"})
    synced = product.succeed("sync", str(tmp_path / "docs"), "--json", seconds_max=600).json
    assert synced["documents"]["added"] == len(tree)
    again = product.succeed("sync", str(tmp_path / "docs"), "--json").json
    assert (again["embedded"], again["documents"]["unchanged"]) == (0, len(tree))
    drawn = random.Random(SEED).sample(sorted(unique_headings(tree).items()), DRAWN)
    with product.up() as up:
        for mode in ("hybrid", "keyword"):
            right = sum(document in up.found(heading, mode, k=2) for document, heading in drawn)
            print(f"{stream} {mode}: {right} of {DRAWN} right in the first two")
            assert right >= RIGHT_MIN, [(d, h) for d, h in drawn if d not in up.found(h, mode, k=2)]


def is_indexable(name: str) -> bool:
    return name.endswith(".md") and not any(part.startswith(".") for part in name.split("/"))


def unique_headings(tree: dict[str, bytes]) -> dict[str, str]:
    """A heading of at least three words for each document that has one which no other heading of the tree equals."""
    headings = {name: [found.strip() for found in HEADING.findall(text.decode("utf-8"))] for name, text in tree.items()}
    often = Counter(heading for found in headings.values() for heading in found)
    own = {name: [heading for heading in found if often[heading] == 1 and word_count(heading) >= 3] for name, found in headings.items()}
    return {name: found[0] for name, found in own.items() if found}


def word_count(heading: str) -> int:
    """Words as a reader counts them: a run of letters, or two Chinese characters."""
    chinese = len(CJK.findall(heading))
    return len(WORD.findall(CJK.sub(" ", heading))) + chinese // 2
