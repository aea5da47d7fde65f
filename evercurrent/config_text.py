"""The configuration that `init` writes: every key with its meaning and default, commented out, so that it changes nothing yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from store.config import NAMED, Config, table_of

_HEAD = """\
# Evercurrent's configuration. Every setting is shown with its default; take the "#" away to change one.
# Each may also be given by environment: EVERCURRENT_INDEXER__EMBEDDING__PROVIDER=hashing
"""


def commented_config() -> str:
    return _HEAD + "".join(_table_text(Config, ""))


def _table_text(model: type[BaseModel], prefix: str, sign: str = "") -> Iterator[str]:
    """`sign` stands before the heads of tables that a user names: such a table exists once its head does."""
    keys = {name: spec for name, spec in model.model_fields.items() if table_of(spec.annotation)[0] is None}
    if keys:
        yield f"\n{sign}[{prefix.rstrip('.')}]\n"
    for name, spec in keys.items():
        yield f"# {spec.description}\n# {name} = {_toml_of(spec.default)}\n"
    for name, spec in model.model_fields.items():
        table, is_named = table_of(spec.annotation)
        if table is not None:
            yield from _table_text(table, f"{prefix}{name}.{NAMED}." if is_named else f"{prefix}{name}.", "# " if is_named or sign else "")


def _toml_of(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return '""  # not set'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return json.dumps(value)
