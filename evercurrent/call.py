"""What every verb is given: where the data is, whose collection, how to answer. Opens nothing until it is asked.

`verb` turns a function `f(call, …)` into a command with the common options; the function returns its exit code.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from store.clock import Clock, SystemClock
from store.errors import UnknownCollection
from store.folder import DataFolder, check_folder, prepare_folder
from store.model import CollectionId, CollectionName, Namespace

if TYPE_CHECKING:
    from store.config import Config
    from store.ports import Catalog

DATA_DEFAULT = Path(".evercurrent")
MAIN_COLLECTION = "main"

Paths = Annotated[list[str] | None, typer.Argument(metavar="[[NAME=]PATH]...", show_default=False)]


@dataclass(frozen=True)
class Call:
    """One use of the command."""

    folder: DataFolder
    config_file: Path | None
    home: CollectionId
    as_json: bool
    clock: Clock

    @cached_property
    def config(self) -> Config:
        from store.config import load_config

        return load_config(self.config_file)

    @property
    def has_catalog(self) -> bool:
        return self.folder.catalog.exists()

    def open_catalog(self) -> Catalog:
        """The catalog, created when it is not there."""
        from indexer.wiring import open_catalog

        prepare_folder(self.folder)
        return open_catalog(self.folder, self.config, self.clock)

    def read_catalog(self) -> Catalog:
        """The catalog, or an empty one in memory when there is none: looking writes nothing."""
        check_folder(self.folder)
        if self.has_catalog:
            return self.open_catalog()
        from store.catalog.memory import MemoryCatalog

        return MemoryCatalog(self.clock)

    def need_collection(self, catalog: Catalog | None) -> bool:
        """Whether the collection has been made. `main` always exists and is merely empty before.

        Raises UnknownCollection for another one that has not.
        """
        if catalog is not None and catalog.collection(self.home) is not None:
            return True
        if self.home.collection != MAIN_COLLECTION:
            raise UnknownCollection(collection=self.home.collection, namespace=self.home.namespace)
        return False


def call_of(data: Path, config: Path | None, namespace: str, collection: str, as_json: bool) -> Call:
    home = CollectionId(Namespace(namespace), CollectionName(collection))
    return Call(DataFolder(data.absolute()), config, home, as_json, SystemClock())


Verb = Callable[..., int]

_COMMON: dict[str, tuple[Any, Any]] = {
    "data": (
        Annotated[Path, typer.Option("--data", envvar="EVERCURRENT_DATA", help="The data folder.", rich_help_panel="Common")],
        DATA_DEFAULT,
    ),
    "config": (
        Annotated[
            Path | None,
            typer.Option(
                "--config", envvar="EVERCURRENT_CONFIG", help="The configuration; else evercurrent.toml here.", rich_help_panel="Common"
            ),
        ],
        None,
    ),
    "namespace": (Annotated[str, typer.Option("--namespace", help="Whose documents.", rich_help_panel="Common")], "default"),
    "collection": (Annotated[str, typer.Option("--collection", help="Which of them.", rich_help_panel="Common")], MAIN_COLLECTION),
    "as_json": (Annotated[bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel="Common")], False),
}


def verb(function: Verb) -> Callable[..., int]:
    """The command of `function(call, …)`: its own parameters, then the common options."""

    @functools.wraps(function)
    def command(**given: Any) -> int:
        common = {name: given.pop(name) for name in _COMMON}
        return function(call_of(**common), **given)

    own = list(inspect.signature(function).parameters.values())[1:]
    hints = typing.get_type_hints(function, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=keyword, annotation=hints[parameter.name]) for parameter in own]
    parameters += [inspect.Parameter(name, keyword, default=default, annotation=hint) for name, (hint, default) in _COMMON.items()]
    del command.__wrapped__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
