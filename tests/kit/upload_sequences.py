"""Failure sequences of uploads, tenants and permissions against the product itself, over HTTP alone.

What speaks of a cache of answers is not done: there is none, and every query is answered from the index.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kit.product import Product, Up, post_json
from kit.sequence_files import Step, paragraph, paragraphs, tags_of
from kit.sequence_stage import settings_of
from kit.sequences import ALL_HITS, MODES, FailureSequence, Row, ids_of

OF_A_CACHE = frozenset({"clear_cache", "expect_cache_hit", "cache_entries_citing"})
"""Steps and expectations that need a cache of answers."""


def perform_uploads(sequence: FailureSequence, mode: str, folder: Path) -> None:
    """Does the sequence on a data folder of its own. Raises AssertionError that names what was expected and what was found."""
    docs = folder / "docs"
    docs.mkdir()
    settings = settings_of(mode)
    if any("acl" in step or "groups" in step for step in sequence.steps):
        settings["EVERCURRENT_STORE__ACL"] = "true"
    product = Product(folder / "data", settings)
    with product.up(str(docs)) as up:
        performance = _Performance(sequence, product, up)
        for step in sequence.steps:
            performance.do(step)
        performance.hold_against_expected()


@dataclass
class _Performance:
    sequence: FailureSequence
    product: Product
    up: Up
    embedded_before: float = 0.0
    ids_marked: dict[str, dict[str, str]] = field(default_factory=dict)

    def do(self, step: Step) -> None:
        match step["op"]:
            case "upload":
                headers = {"X-Evercurrent-Metadata": json.dumps(step.get("meta", {}))}
                if "acl" in step:
                    headers["X-Evercurrent-Acl"] = json.dumps(["group:" + group for group in step["acl"]])
                self._send("PUT", step, paragraphs(step["paras"]).encode(), headers)
            case "set_meta":
                self._send("PATCH", step, json.dumps({"metadata": step["meta"]}).encode(), {"Content-Type": "application/json"})
            case "delete_doc":
                self._send("DELETE", step)
            case "idle":
                self.up.settle()
            case "mark":
                self.embedded_before = self.up.metric("evercurrent_embedded_texts_total")
                self.ids_marked = ids_of(self._export(self.tenants[0]))
            case "query":
                self._query(step)
            case unknown if unknown in OF_A_CACHE:
                pass
            case unknown:
                raise NotImplementedError(f"no such step: {unknown}")

    @property
    def tenants(self) -> list[str]:
        return sorted({step.get("tenant", "default") for step in self.sequence.steps if step["op"] == "upload"})

    def _send(self, method: str, step: Step, body: bytes | None = None, headers: Mapping[str, str] = {}) -> None:
        url = f"{self.up.url('intake')}/v1/collections/main/documents/{quote(step['name'])}"
        request = urllib.request.Request(url, body, method=method, headers=dict(headers))
        request.add_header("X-Evercurrent-Namespace", step.get("tenant", "default"))
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status in (200, 202)

    def _query(self, step: Step) -> None:
        headers = {"X-Evercurrent-Namespace": step.get("tenant", "default")}
        if "user" in step:
            headers["X-Evercurrent-Principals"] = ",".join([f"user:{step['user']}", *(f"group:{group}" for group in step["groups"])])
        query = step["text"] if "text" in step else paragraph(step["tag"])
        if step.get("paraphrase"):
            query = f"tell me again: {query}"
        for mode in MODES if "tag" in step else ("dense", "hybrid"):
            found = {tag for hit in self._hits(query, mode, headers) for tag in tags_of(hit["text"])}
            for tag in step.get("expect_present", ()):
                assert tag in found, f"{self.sequence.id}: {tag} is not in {mode} search"
            for tag in step.get("expect_absent", ()):
                assert tag not in found, f"{self.sequence.id}: {tag} is in {mode} search"

    def _hits(self, query: str, mode: str, headers: Mapping[str, str], where: Mapping[str, Any] | None = None) -> list[Row]:
        body = {"query": query, "mode": mode, "k": ALL_HITS, "filter": dict(where or {})}
        hits: list[Row] = post_json(f"{self.up.url('retriever')}/v1/collections/main/search", body, headers=dict(headers))["hits"]
        return hits

    def _export(self, tenant: str) -> list[Row]:
        return self.product.succeed("export", "--namespace", tenant).lines

    # --- what is expected ---

    def hold_against_expected(self) -> None:
        expect, tenants = self.sequence.expect, self.tenants
        live = {
            (f"{tenant}:" if len(tenants) > 1 else "") + document: tags
            for tenant in tenants
            for document, tags in tags_by_document(self._export(tenant)).items()
        }
        assert live == expect["live"], f"{self.sequence.id}: live: expected {expect['live']}, found {live}"
        for tenant in tenants:
            states = self.product.succeed("documents", "--namespace", tenant, "--json").json["documents"]
            assert sum(row["state"] == "quarantined" for row in states) == expect["failed_jobs"]
            headers = {"X-Evercurrent-Namespace": tenant}
            for tag in expect.get("gone", ()):
                self._query({"op": "query", "tenant": tenant, "tag": tag, "expect_absent": [tag]})
            for asked in expect.get("search", ()):
                for mode in MODES:
                    hits = self._hits(paragraph(asked["tag"]), mode, headers, asked["filter"])
                    assert {hit["document"] for hit in hits if asked["tag"] in tags_of(hit["text"])} == set(asked["paths"])
        for document in expect.get("ids_unchanged", ()):
            assert ids_of(self._export(tenants[0]))[document] == self.ids_marked[document]
        if "max_embeds_since_mark" in expect:
            embedded = self.up.metric("evercurrent_embedded_texts_total")
            assert embedded > 0
            assert embedded - self.embedded_before <= expect["max_embeds_since_mark"]
        known = {"live", "no_duplicates", "failed_jobs", "gone", "search", "ids_unchanged", "max_embeds_since_mark", "note"}
        assert expect.keys() <= known | OF_A_CACHE


def tags_by_document(rows: Sequence[Row]) -> dict[str, list[str]]:
    """In the order of the export; a chunk that stood twice would be two tags."""
    tags: dict[str, list[str]] = {}
    for row in rows:
        tags.setdefault(row["document"], []).extend(tags_of(row["text"]))
    return tags
