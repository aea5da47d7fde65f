"""Runs schemathesis over an application in this process: every check, every phase, one seed; what it found as lines."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.config import CacheConfig, SchemathesisConfig
from schemathesis.engine import events, from_schema

SEED = 20261201
EXAMPLES = 200


@dataclass
class Run:
    """What a run did and what it found."""

    findings: list[str] = field(default_factory=list)
    cases: Counter[str] = field(default_factory=Counter)
    """Requests by operation."""
    phases: Counter[str] = field(default_factory=Counter)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)


def run_schema(
    app: Any, settings: dict[str, Any], examples: int = EXAMPLES, narrow: Callable[[dict[str, Any]], None] = lambda _schema: None
) -> Run:
    """`settings` are those of a schemathesis.toml, on top of ours; `narrow` says in the schema what is true of this data alone."""
    base = {
        "seed": SEED,
        "analysis": {"constants": {"enabled": False}},
        "continue-on-failure": True,
        "generation": {"max-examples": examples, "deterministic": True, "no-shrink": True, "database": "none"},
    }
    config = SchemathesisConfig.from_dict({**base, **settings})
    config.cache = CacheConfig(enabled=False)
    published = copy.deepcopy(app.openapi())
    narrow(published)
    schema = schemathesis.openapi.from_dict(published, config=config)
    schema.app = app
    run = Run()
    for event in from_schema(schema).execute():
        _note(event, run)
    return run


def _note(event: Any, run: Run) -> None:
    match event:
        case events.ScenarioFinished():
            _note_scenario(event, run)
        case events.NonFatalError():
            run.findings.append(f"{event.phase} {event.label}: {event.value!r}")
        case events.FatalError():
            raise event.exception


def _note_scenario(event: Any, run: Run) -> None:
    recorder = event.recorder
    run.phases[event.phase.value] += len(recorder.cases)
    for case_id, node in recorder.cases.items():
        label = node.value.operation.label
        run.cases[label] += 1
        interaction = recorder.interactions.get(case_id)
        response = None if interaction is None else interaction.response
        run.statuses[label, 0 if response is None else response.status_code] += 1
        for check in recorder.checks.get(case_id, ()):
            if check.failure_info is not None:
                answer = "" if response is None else f"{response.status_code} {response.content[:300]!r}"
                failure = check.failure_info.failure
                run.findings.append(
                    f"[{event.phase.value}] {label} {check.name}: {failure.title}: {failure.message}\n"
                    f"    {check.failure_info.code_sample[:500]}\n    {answer}"
                )
