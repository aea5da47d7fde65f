"""The retriever does what its OpenAPI says, whatever is sent: all checks of schemathesis, in every phase, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.retrieving import OPEN_LIMITS, Library, searching
from kit.schema_runs import EXAMPLES, Run, run_schema

from indexer.wiring import open_catalog
from retriever.http import Readiness, Reports, SearchPool, application
from retriever.metrics import RetrieverMetrics
from store.clock import SystemClock
from store.config import Config
from store.folder import DataFolder

VECTORS = [[0.0] * 256, [1.0] + [0.0] * 255, [0.5, -0.25] * 128]
"""A vector has the length of the collection's: no schema knows which that is."""
SEARCH = "POST /v1/collections/{collection}/search"
SETTINGS: dict[str, Any] = {
    "operations": [
        {"include-name": SEARCH, "checks": {"not_a_server_error": {"expected-statuses": ["2xx", "4xx", "504"]}}},
    ]
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Any]:
    config, clock = Config(), SystemClock()
    catalog, pool = open_catalog(DataFolder(tmp_path), config, clock), SearchPool()
    library = Library(catalog)
    library.put("guide/install.md", "# Tides\n\nThe tide turns at noon.\n\nThe heron waits.", metadata={"kind": "guide", "year": 2026})
    library.put("notes.md", "A heron wades at low tide.")
    with searching(catalog, tmp_path / "keywords", limits=replace(OPEN_LIMITS, patience_seconds=0.05)) as desk:
        reports = Reports(lambda: Readiness(()), lambda: {"replica": 0})
        desk.ask("tide")
        yield application(desk.searcher, RetrieverMetrics("1.2.3"), reports, clock, pool)
    pool.close()
    catalog.close()


def of_this_data(schema: dict[str, Any]) -> None:
    """Vectors have the length of the collection's, and the collection that is asked is the one with documents."""
    for shape in schema["paths"]["/v1/collections/{collection}/search"]["post"]["requestBody"]["content"]["application/json"]["schema"][
        "anyOf"
    ]:
        vector = shape["properties"]["vector"]
        if vector["type"] == "array":
            shape["properties"]["vector"] = {"enum": VECTORS}
    for path in schema["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "collection":
                    parameter["schema"]["enum"] = ["main"]


def test_the_retriever_keeps_to_its_schema_whatever_is_sent(app: Any) -> None:
    run: Run = run_schema(app, SETTINGS, EXAMPLES, of_this_data)
    assert run.findings == []
    assert run.cases[SEARCH] >= EXAMPLES
    assert run.phases["stateful"] > 0
    assert run.statuses[SEARCH, 200] > 0
