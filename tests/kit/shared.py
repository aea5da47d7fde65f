"""The shared collections beside the checkout: found here, or skipped by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_root() -> Path:
    """`SHARED_COLLECTIONS`, else the folder `shared` beside the checkout."""
    named = os.environ.get("SHARED_COLLECTIONS")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared"


def shared_path(name: str) -> Path:
    """The folder or file `name` of the shared collections; skips the test, saying which is missing, when it is not there."""
    path = shared_root() / name
    if not path.exists():
        pytest.skip(f"shared collections missing: {name}")
    return path
