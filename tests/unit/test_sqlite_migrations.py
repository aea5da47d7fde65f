"""A data folder of schema version 1 becomes one of today: nothing is lost, a process that dies in the middle changes nothing.

`catalog-v1.sqlite3.gz` was made by the code of version 1; kit/first_schema.py tells how.
"""

from __future__ import annotations

import gzip
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from kit.builders import HOME, Worker, absent, document, present, texts
from kit.first_schema import ACME, live_through

from store.catalog.sqlite import CATALOG_FILE, SCHEMA_VERSION, SqliteCatalog
from store.clock import SimulatedClock
from store.errors import CatalogNewer
from store.model import Described, DocumentState, Position, RootName, Seq
from store.ports import Catalog

V1_FILE = Path(__file__).parents[1] / "contract" / "data" / "catalog-v1.sqlite3.gz"

DIES_BEFORE_THE_COMMIT = """
import os, signal, sqlite3, sys
from store.catalog.sqlite.migrations import STEPS, migrate

def step(connection):
    STEPS[2](connection)
    os.kill(os.getpid(), signal.SIGKILL)

migrate(sqlite3.connect(sys.argv[1], isolation_level=None), 1, 2, {2: step})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder as version 1 left it."""
    folder = tmp_path / "v1"
    folder.mkdir()
    (folder / CATALOG_FILE).write_bytes(gzip.decompress(V1_FILE.read_bytes()))
    return folder


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[tuple[Catalog, SimulatedClock]]:
    """A catalog of today that lived through the same."""
    clock = SimulatedClock()
    catalog = SqliteCatalog.open(tmp_path / "lived", clock)
    live_through(catalog, clock)
    yield catalog, clock
    catalog.close()


def version_of(folder: Path) -> int:
    connection = sqlite3.connect(folder / CATALOG_FILE)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def everything(catalog: Catalog) -> dict[str, Any]:
    """What every reader call says, of every collection."""
    found: dict[str, Any] = {"position": catalog.position().seq, "tallies": [asdict(tally) for tally in catalog.tallies()]}
    found["collections"], found["roots"] = catalog.collections(), catalog.roots()
    with catalog.snapshot() as snapshot:
        start = Position(snapshot.position.incarnation, Seq(0))
        for home in (HOME, ACME):
            visible = list(snapshot.documents(home))
            ids = [placement.chunk_id for one in visible for placement in one.layout.placements]
            found[str(home)] = {
                "documents": visible,
                "vectors": list(snapshot.vectors(home)),
                "chunks": snapshot.chunks(home, ids),
                "log": list(snapshot.log(home, start)),
                "changes": snapshot.changes(start, home).documents,
                "rows": catalog.documents(home, states=list(DocumentState)).documents,
                "counts": catalog.counts(home),
                "sightings": [list(catalog.sightings(root)) for root in catalog.roots(home)],
                "recorded": catalog.recorded([(one.document, build) for one in visible for build in _builds(catalog, home)]),
                "blobs": [catalog.wanted_blob(one.document) for one in visible],
            }
    return found


def _builds(catalog: Catalog, home: Any) -> tuple[Any, ...]:
    collection = catalog.collection(home)
    assert collection is not None
    return collection.builds


def test_a_migrated_catalog_answers_every_reader_like_one_that_lived_through_the_same(
    folder: Path, lived: tuple[Catalog, SimulatedClock]
) -> None:
    catalog, clock = lived
    migrated = SqliteCatalog.open(folder, clock)
    assert everything(migrated) == everything(catalog)
    assert migrated.pending(100, clock.now()) == catalog.pending(100, clock.now())
    assert list(migrated.findings()) == []
    assert version_of(folder) == SCHEMA_VERSION
    migrated.close()


def test_a_migrated_catalog_has_the_columns_and_indexes_of_a_new_one(folder: Path, tmp_path: Path) -> None:
    SqliteCatalog.open(folder, SimulatedClock()).close()
    SqliteCatalog.open(tmp_path / "new", SimulatedClock()).close()
    assert shape_of(folder) == shape_of(tmp_path / "new")


def shape_of(folder: Path) -> dict[str, list[Any]]:
    connection = sqlite3.connect(folder / CATALOG_FILE)
    names = connection.execute("SELECT name, type, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name").fetchall()
    shape = {name: [kind, table, *connection.execute(f"PRAGMA {kind}_xinfo({name})").fetchall()] for name, kind, table in names}
    for name, kind, _ in names:
        if kind == "table":
            shape[name] += sorted(row[2:] for row in connection.execute(f"PRAGMA index_list({name})"))
            shape[name] += sorted(connection.execute(f"PRAGMA foreign_key_list({name})"))
    connection.close()
    return shape


def test_a_migrated_catalog_can_be_written_on(folder: Path) -> None:
    clock = SimulatedClock()
    clock.advance(1000)
    catalog = SqliteCatalog.open(folder, clock)
    worker = Worker(catalog, clock)
    worker.finish("waiting.md", "came at last")
    catalog.record([Described(document("up.md"), {"year": None}), present("guide/2.md", root="second"), absent("guide/2.md")])
    worker.finish("guide/2.md", "of the second root")
    assert catalog.remove_root(HOME, RootName("uploads"), clock.now()) == 1
    assert catalog.drop_collection(ACME, clock.now()) == 1
    for uri, text in texts(catalog).items():
        if uri not in ("guide/5.md", "waiting.md", "guide/2.md", "guide/0.md"):
            worker.finish(uri, text)
    assert {uri: text for uri, text in texts(catalog).items() if "/" not in uri} == {"waiting.md": "came at last"}
    assert texts(catalog)["guide/2.md"] == "of the second root"
    assert list(catalog.findings()) == []
    catalog.sweep(clock.now(), 0.0, 10.0)
    assert list(catalog.findings()) == []
    catalog.close()


def test_a_source_s_own_metadata_is_parted_from_the_loader_s(folder: Path) -> None:
    connection = sqlite3.connect(folder / CATALOG_FILE)
    connection.execute('UPDATE versions SET metadata = \'{"author":"mira","tags":["a","b"],"year":2026}\' WHERE metadata LIKE \'%2026%\'')
    connection.commit()
    connection.close()
    catalog = SqliteCatalog.open(folder, SimulatedClock())
    (recorded,) = catalog.recorded([(document("up.md"), _builds(catalog, HOME)[0])])
    assert (recorded.metadata, recorded.own_metadata) == ({"author": "mira"}, {"tags": ["a", "b"], "year": 2026})
    catalog.record([Described(document("up.md"), None)])
    with catalog.snapshot() as snapshot:
        assert [visible.metadata for visible in snapshot.documents(HOME, [document("up.md")])] == [{"author": "mira"}]
    catalog.close()


def test_a_process_killed_in_the_middle_leaves_the_version_before_whole(folder: Path, lived: tuple[Catalog, SimulatedClock]) -> None:
    killed = subprocess.run([sys.executable, "-c", DIES_BEFORE_THE_COMMIT, str(folder / CATALOG_FILE)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert version_of(folder) == 1
    catalog, clock = lived
    migrated = SqliteCatalog.open(folder, clock)
    assert everything(migrated) == everything(catalog)
    migrated.close()


def test_a_folder_of_a_newer_version_is_refused_and_left_alone(folder: Path) -> None:
    connection = sqlite3.connect(folder / CATALOG_FILE)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = (folder / CATALOG_FILE).read_bytes()
    with pytest.raises(CatalogNewer):
        SqliteCatalog.open(folder, SimulatedClock())
    assert (folder / CATALOG_FILE).read_bytes() == before


def test_two_processes_that_open_an_old_folder_at_once_migrate_it_once(folder: Path) -> None:
    opens = "import sys; from pathlib import Path; from store.catalog.sqlite import SqliteCatalog; from store.clock import SystemClock\n"
    opens += "catalog = SqliteCatalog.open(Path(sys.argv[1]), SystemClock()); print(len(catalog.collections()))"
    both = [subprocess.Popen([sys.executable, "-c", opens, str(folder)], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in both] == ["2", "2"]
    assert version_of(folder) == SCHEMA_VERSION


def test_a_waiting_document_is_still_found_by_its_index(folder: Path) -> None:
    SqliteCatalog.open(folder, SimulatedClock()).close()
    connection = sqlite3.connect(folder / CATALOG_FILE)
    plan = connection.execute("EXPLAIN QUERY PLAN SELECT min(collection_key) FROM documents WHERE wants_work = 1").fetchall()
    connection.close()
    assert "documents_waiting" in str(plan)
