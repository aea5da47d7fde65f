"""The intake does what its OpenAPI says, whatever is sent: all checks of schemathesis, in every phase, over a real catalog and worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kit.live_intake import live_intake
from kit.schema_runs import EXAMPLES, run_schema

PUT = "PUT /v1/collections/{collection}/documents/{uri}"
GET = "GET /v1/collections/{collection}/documents/{uri}"
ACCEPTED = ["2xx", "3xx", "401", "403", "404", "409", "429", "5xx"]
SETTINGS: dict[str, Any] = {
    "checks": {"use_after_free": {"enabled": False}},
    "operations": [{"include-name": PUT, "checks": {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, "415"]}}}],
}


@pytest.mark.parametrize("examples", [40, pytest.param(EXAMPLES, marks=pytest.mark.slow)])
def test_the_intake_keeps_to_its_schema_whatever_is_sent(tmp_path: Path, examples: int) -> None:
    with live_intake(tmp_path) as intake:
        run = run_schema(intake.app, SETTINGS, examples)
        assert run.findings == []
        assert run.phases["stateful"] > 0
        assert min(run.cases[PUT], run.cases[GET]) >= examples
        assert run.statuses[PUT, 202] > 0
        assert run.statuses[GET, 200] > 0
