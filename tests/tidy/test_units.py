"""The systemd units name commands that exist, and systemd reads them."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from evercurrent.cli import COMMANDS

UNITS = sorted((Path(__file__).resolve().parents[2] / "deploy" / "systemd").glob("*.service"))


def service(unit: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(unit.read_text("utf-8"))
    return parser["Service"]


def test_there_is_a_unit_a_role() -> None:
    assert [unit.stem for unit in UNITS] == ["evercurrent-indexer", "evercurrent-retriever", "evercurrent-worker"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_exists_and_stops_it_gently(unit: Path) -> None:
    told = service(unit)
    verb = told["ExecStart"].partition("evercurrent ")[2].split()[0]
    assert verb in COMMANDS
    assert unit.stem == f"evercurrent-{verb}"
    assert (told["KillMode"], told["Restart"]) == ("mixed", "always")
    assert int(told["TimeoutStopSec"]) >= 20
    assert "EVERCURRENT_DATA=" in told["Environment"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_nothing_wrong(unit: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")
