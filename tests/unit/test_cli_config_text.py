from __future__ import annotations

import tomllib
from pathlib import Path

from evercurrent.config_text import commented_config
from store.config import Config, known_keys, load_config


def keys_of(tables: dict[str, object], prefix: str = "") -> set[str]:
    keys: set[str] = set()
    for name, value in tables.items():
        keys |= keys_of(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {prefix + name}
    return keys


def test_the_file_that_init_writes_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "evercurrent.toml"
    path.write_text(commented_config(), "utf-8")
    assert load_config(path) == Config()


def test_every_key_stands_in_it_with_a_value_that_toml_reads() -> None:
    uncommented = "\n".join(
        line.removeprefix("# ") if line.startswith("# [") or (" = " in line and not line.endswith(".")) else line
        for line in commented_config().splitlines()
    )
    assert keys_of(tomllib.loads(uncommented)) == set(known_keys())
