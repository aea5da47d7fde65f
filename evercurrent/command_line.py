"""The door to typer: verbs become commands with the common options, and what it refuses becomes a Misuse.

A verb is a function `f(call, …)` that returns its exit code; its own parameters are declared where it stands.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer._click.exceptions import ClickException

from evercurrent.call import DATA_DEFAULT, Call
from evercurrent.say import say
from store.clock import SystemClock
from store.errors import Misuse
from store.folder import DataFolder
from store.model import MAIN_COLLECTION, NAME_BYTES_MAX, CollectionId, CollectionName, Namespace

Argument = typer.Argument
Option = typer.Option

Paths = Annotated[list[str] | None, Argument(metavar="[[NAME=]PATH]...", show_default=False)]


Verb = Callable[..., int]


class Interrupted(Exception):
    """Ctrl-C. The parser would make an exit code of its own of a KeyboardInterrupt, and say nothing."""


class CommandWrong(Misuse):
    """A verb, option or argument that does not exist or does not fit; the sentence is the parser's."""


def run_command(verbs: Mapping[str, Verb], hidden: frozenset[str], arguments: Sequence[str]) -> int:
    """Runs the verb that `arguments` name. Raises CommandWrong, and what the verb raises."""
    app = typer.Typer(
        name="evercurrent",
        help="Keeps a retrieval index level with its documents.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=False)(everywhere)
    for name, function in verbs.items():
        app.command(name, hidden=name in hidden)(verb(function))
    try:
        return int(typer.main.get_command(app).main(list(arguments), prog_name="evercurrent", standalone_mode=False) or 0)
    except ClickException as error:
        raise CommandWrong(error.format_message()) from error


def _tell_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(f"evercurrent {version('evercurrent')}")
        raise typer.Exit


def everywhere(
    version: Annotated[bool, Option("--version", help="Show the version.", is_eager=True, callback=_tell_version)] = False,
) -> None:
    """What can be said without a verb."""


def call_of(data: Path, config: Path | None, namespace: str, collection: str, as_json: bool) -> Call:
    home = CollectionId(Namespace(named("--namespace", namespace)), CollectionName(named("--collection", collection)))
    return Call(DataFolder(data.absolute()), config, home, as_json, SystemClock())


def named(option: str, name: str) -> str:
    """A name that fits a URL's path, a header and a folder. Raises CommandWrong."""
    if not name.strip() or not name.isprintable() or "/" in name or len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise CommandWrong(f"{option} needs a name of 1 to {NAME_BYTES_MAX} bytes without a slash, line break or other control character.")
    return name


_COMMON: dict[str, tuple[Any, Any]] = {
    "data": (
        Annotated[Path, Option("--data", envvar="EVERCURRENT_DATA", help="The data folder.", rich_help_panel="Common")],
        DATA_DEFAULT,
    ),
    "config": (
        Annotated[
            Path | None,
            Option(
                "--config", envvar="EVERCURRENT_CONFIG", help="The configuration; else evercurrent.toml here.", rich_help_panel="Common"
            ),
        ],
        None,
    ),
    "namespace": (Annotated[str, Option("--namespace", help="Whose documents.", rich_help_panel="Common")], "default"),
    "collection": (Annotated[str, Option("--collection", help="Which of them.", rich_help_panel="Common")], MAIN_COLLECTION),
    "as_json": (Annotated[bool, Option("--json", help="One JSON object on stdout.", rich_help_panel="Common")], False),
}


def verb(function: Verb) -> Callable[..., int]:
    """The command of `function(call, …)`: its own parameters, then the common options."""

    @functools.wraps(function)
    def command(**given: Any) -> int:
        common = {name: given.pop(name) for name in _COMMON}
        try:
            return function(call_of(**common), **given)
        except KeyboardInterrupt as error:
            raise Interrupted from error

    own = list(inspect.signature(function).parameters.values())[1:]
    hints = typing.get_type_hints(function, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=keyword, annotation=hints[parameter.name]) for parameter in own]
    parameters += [inspect.Parameter(name, keyword, default=default, annotation=hint) for name, (hint, default) in _COMMON.items()]
    del command.__wrapped__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
