"""The console's script, run by node over the few parts of a page that it touches."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files
from typing import Any

import pytest

from evercurrent.snippets import snippet

FILLER = "filler words that nobody asked for stand here, "
PAGE = """
const places = {}, element = () => ({children: [], dataset: {}, value: "", on: {}, textContent: "",
  append(...c) { this.children.push(...c); }, replaceChildren(...c) { this.children = c; this.replaced = (this.replaced || 0) + 1; },
  addEventListener(name, f) { this.on[name] = f; }});
globalThis.document = {getElementById: id => places[id] ??= element(), createElement: element};
globalThis.setInterval = () => 0;
let head = 1, hits = [], searches = 0;
const told = () => ({documents: {}, queue: {}, lag_seconds: {}, health: {state: "ok", reasons: []}, urls: {}, snapshot: head});
globalThis.fetch = async path => ({ok: true, json: async () => path === "console/state" ? told()
  : path === "console/search" ? (searches++, {hits, snapshot: head}) : {documents: [], cursor: null}});
const hit = document => ({document, score: 0.9, scores: {dense: 0.17, keyword: null}, metadata: {}, text: "some text"});
const words = e => [e.textContent, ...e.children.flatMap(words)].filter(Boolean);
"""


def run(script: str) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is missing")
    html = files("evercurrent").joinpath("static/console.html").read_text("utf-8")
    own = html.split("<script>")[1].split("</script>")[0].replace('"use strict";', "")
    whole = f"{PAGE}\n{own}\n(async () => {{ {script} }})().then(v => console.log(JSON.stringify(v)));"
    return json.loads(subprocess.run([node, "-e", whole], capture_output=True, text=True, timeout=30, check=True).stdout)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (FILLER * 20 + "turn the blue key until it clicks, " + FILLER * 20, "Which KEY clicks?"),
        ("key key key " + FILLER * 20 + "the key and the door " + FILLER * 20, "key door"),
        (FILLER * 20, "zebra"),
        (FILLER * 20 + "the key", "key"),
        ("安装说明。" * 100 + "请先关闭电源，再打开盖子。" + "其他内容。" * 100, "怎么关闭电源？"),
        ("İ" * 400 + " pressing the key " + FILLER * 20, "press"),
        ("short\n\n text", "text"),
    ],
)
def test_the_page_cuts_a_passage_as_the_command_does(text: str, query: str) -> None:
    assert run(f"return snippet({json.dumps(text)}, {json.dumps(query)}, 240);") == snippet(text, query, 240)


def test_a_deleted_document_leaves_the_page_and_an_index_that_stands_still_is_not_asked_again() -> None:
    said = run(
        """await new Promise(setImmediate); hits = [hit("a.md"), hit("b.md")]; at("query").value = "some"; at("mode").value = "hybrid";
        await at("search").on.submit({preventDefault() {}});
        const before = words(at("hits")), replaced = at("hits").replaced;
        await showState(); const still = searches;
        head = 2; await showState(); const same = at("hits").replaced;
        head = 3; hits = [hit("b.md")]; await showState();
        return {before, still, same: same === replaced, after: words(at("hits")), searches};"""
    )
    assert said["before"] == ["a.md", "  0.900 (cosine 0.17)  ", "some text", "b.md", "  0.900 (cosine 0.17)  ", "some text"]
    assert (said["still"], said["same"], said["searches"]) == (1, True, 3)
    assert said["after"] == ["b.md", "  0.900 (cosine 0.17)  ", "some text"]
