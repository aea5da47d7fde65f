"""The filter language of search as a pure predicate over a chunk's metadata.

A filter is compiled once a query, so that a wrong one is refused before anything is searched, with the place of the mistake.
Types do not convert; on a list field a value matches any element; a missing field matches only `$exists: false`, `$ne` and `$nin`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from store.errors import QueryRejected

Predicate = Callable[[Mapping[str, Any]], bool]

FILTER_DEPTH_MAX = 16
FILTER_PARTS_MAX = 10_000
"""Conditions and listed values of one filter, together."""

ROOT = "filter"


@dataclass(frozen=True, slots=True)
class _Found:
    """What a chunk has under a field: one value, or the elements of a list (or of several objects in a list)."""

    values: tuple[Any, ...] = ()
    missing: bool = False
    listed: bool = False


_Test = Callable[[_Found], bool]


def compile_filter(filter: Mapping[str, Any], place: str = ROOT) -> Predicate:
    """The predicate that `filter` stands for; `{}` admits everything.

    Raises QueryRejected with the place (`filter.$and[1].price.$gt`).
    """
    _refuse_too_large(filter, place)
    return _compile(filter, place)


def _compile(filter: object, place: str) -> Predicate:
    if not isinstance(filter, Mapping):
        raise QueryRejected(place=place, reason='a filter is an object such as {"field": value}')
    conditions = [_condition(key, operand, f"{place}.{key}") for key, operand in filter.items()]
    match conditions:
        case []:
            return lambda _: True
        case [only]:
            return only
    return lambda metadata: all(condition(metadata) for condition in conditions)


def _condition(key: str, operand: object, place: str) -> Predicate:
    match key:
        case "$and":
            every = _branches(operand, place)
            return lambda metadata: all(branch(metadata) for branch in every)
        case "$or":
            some = _branches(operand, place)
            return lambda metadata: any(branch(metadata) for branch in some)
        case "$not":
            inner = _compile(operand, place)
            return lambda metadata: not inner(metadata)
        case _ if key.startswith("$"):
            raise QueryRejected(place=place, reason=_unknown(key, ("$and", "$or", "$not"), _TESTS))
        case "":
            raise QueryRejected(place=place, reason="a field has a name")
    return _field(key, operand, place)


def _branches(operand: object, place: str) -> list[Predicate]:
    if not isinstance(operand, list) or not operand:
        raise QueryRejected(place=place, reason="needs a list of at least one filter")
    return [_compile(branch, f"{place}[{at}]") for at, branch in enumerate(operand)]


def _field(field: str, operand: object, place: str) -> Predicate:
    tests = _tests(operand, place) if isinstance(operand, Mapping) else [_equals(operand, place)]
    path = field.split(".")
    match tests:
        case [only]:
            return lambda metadata: only(_find(metadata, field, path))
    return lambda metadata: _pass(tests, _find(metadata, field, path))


def _tests(operators: Mapping[Any, Any], place: str) -> list[_Test]:
    if not operators:
        raise QueryRejected(place=place, reason='needs a value or an operator such as {"$gt": 3}')
    tests = []
    for name, operand in operators.items():
        if not str(name).startswith("$"):
            raise QueryRejected(place=f"{place}.{name}", reason="a field inside a field is written with a dot")
        make = _TESTS.get(name)
        if make is None:
            raise QueryRejected(place=f"{place}.{name}", reason=_unknown(name, _TESTS, ()))
        tests.append(make(operand, f"{place}.{name}"))
    return tests


def _pass(tests: list[_Test], found: _Found) -> bool:
    return all(test(found) for test in tests)


# --- values of a field --------------------------------------------------------------------------------------


def _find(metadata: Mapping[str, Any], field: str, path: list[str]) -> _Found:
    """A key that itself holds dots comes before a walk into objects."""
    reached = [metadata[field]] if field in metadata else list(_walk(metadata, path))
    match reached:
        case []:
            return _Found(missing=True)
        case [list() | tuple() as elements]:
            return _Found(tuple(elements), listed=True)
        case [only]:
            return _Found((only,))
    return _Found(tuple(value for some in reached for value in (some if isinstance(some, list | tuple) else [some])), listed=True)


def _walk(value: object, path: list[str]) -> Iterator[Any]:
    if not path:
        yield value
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _walk(element, path)
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _walk(value[path[0]], path[1:])


# --- operators ----------------------------------------------------------------------------------------------


def _equals(operand: object, place: str) -> _Test:
    wanted = _comparable(_scalar(operand, place))
    return lambda found: any(_comparable(value) == wanted for value in found.values)


def _differs(operand: object, place: str) -> _Test:
    equals = _equals(operand, place)
    return lambda found: not equals(found)


def _is_in(operand: object, place: str) -> _Test:
    if not isinstance(operand, list | tuple):
        raise QueryRejected(place=place, reason="needs a list of values")
    wanted = frozenset(_comparable(_scalar(value, f"{place}[{at}]")) for at, value in enumerate(operand))
    return lambda found: any(_comparable(value) in wanted for value in found.values)


def _is_not_in(operand: object, place: str) -> _Test:
    is_in = _is_in(operand, place)
    return lambda found: not is_in(found)


def _exists(operand: object, place: str) -> _Test:
    if not isinstance(operand, bool):
        raise QueryRejected(place=place, reason="needs true or false")
    return lambda found: found.missing is not operand


def _contains(operand: object, place: str) -> _Test:
    """A list field contains an element equal to the operand; a text contains it as a part."""
    equals = _equals(operand, place)
    if not isinstance(operand, str):
        return equals
    return lambda found: equals(found) or (not found.listed and any(isinstance(value, str) and operand in value for value in found.values))


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[object, str], _Test]:
    def make(operand: object, place: str) -> _Test:
        kind, wanted = _comparable(_scalar(operand, place))
        if kind not in ("number", "text"):
            raise QueryRejected(place=place, reason="needs a number or a text")
        return lambda found: any(holds(value, wanted) for value in found.values if _comparable(value)[0] == kind)

    return make


_TESTS: Mapping[str, Callable[[object, str], _Test]] = {
    "$eq": _equals,
    "$ne": _differs,
    "$gt": _ordered(lambda value, wanted: value > wanted),
    "$gte": _ordered(lambda value, wanted: value >= wanted),
    "$lt": _ordered(lambda value, wanted: value < wanted),
    "$lte": _ordered(lambda value, wanted: value <= wanted),
    "$in": _is_in,
    "$nin": _is_not_in,
    "$exists": _exists,
    "$contains": _contains,
}


def _scalar(operand: object, place: str) -> Any:
    if not _is_scalar(operand):
        raise QueryRejected(place=place, reason="needs a text, a number, true, false or null; several values go into $in")
    if isinstance(operand, float) and not math.isfinite(operand):
        raise QueryRejected(place=place, reason="needs a finite number")
    return operand


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _comparable(value: Any) -> tuple[str, Any]:
    """The value under its JSON type, so that true is not 1 and 1 is not "1", but 1 is 1.0."""
    match value:
        case bool():
            return ("truth", value)
        case int() | float():
            return ("number", value)
        case str():
            return ("text", value)
        case None:
            return ("null", None)
    return ("structure", None)


# --- limits and messages ------------------------------------------------------------------------------------


def _refuse_too_large(filter: object, place: str) -> None:
    parts, level = 0, [filter]
    for _ in range(FILTER_DEPTH_MAX + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        parts += len(level)
        if parts > FILTER_PARTS_MAX:
            raise QueryRejected(place=place, reason=f"has more than {FILTER_PARTS_MAX} parts")
        if not level:
            return
    raise QueryRejected(place=place, reason=f"is nested deeper than {FILTER_DEPTH_MAX}")


def _inside(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _unknown(name: str, first: Iterable[str], second: Iterable[str]) -> str:
    known = [*first, *second]
    return f"is no operator; did you mean {difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]}?"
