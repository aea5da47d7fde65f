"""The history behind `tests/contract/data/catalog-v1.sqlite3.gz`, told to any catalog: a migrated one has to equal one that lived it.

The file was made once, by the code of schema version 1: `live_through` over a new SQLite catalog in an empty folder, closed,
its write-ahead log checkpointed, gzipped. It is never made again.
"""

from __future__ import annotations

from kit.builders import HOME, Worker, absent, document, furnish, home_of, present, recipe, root, signature, space

from store.clock import SimulatedClock
from store.model import Described, Held, Instant, Root, RootName, SourceKind
from store.ports import Catalog

ACME = home_of("acme", "papers")
UPLOADS = Root(HOME, RootName("uploads"), SourceKind.UPLOADS, "uploads:", "")
SECOND = root("second", "second/", "/srv/second", device=2)


def live_through(catalog: Catalog, clock: SimulatedClock) -> None:
    """Folder documents, renames, deletions, uploads with metadata and permissions, a quarantine, a hold, a growing build."""
    furnish(catalog)
    furnish(catalog, ACME)
    catalog.ensure_root(UPLOADS)
    catalog.ensure_root(SECOND)
    worker = Worker(catalog, clock)
    for number in range(6):
        worker.index(f"guide/{number}.md", f"shared line\nline of {number}\n\nlast of {number}", sign=signature(number + 1))
    worker.index("guide/0.md", "shared line\nline of 0, edited\n\nlast of 0", sign=signature(20))
    clock.advance(60)
    worker.index("guide/moved.md", "shared line\nline of 1", moved_from="guide/1.md")
    worker.index("guide/2.md", "shared line\nline of 3", moved_from="guide/3.md")
    catalog.record([absent("guide/4.md")])
    worker.index("second/empty.md", "", root="second")
    worker.index("second/café.md", "non-ASCII words: déjà vu", root="second")
    for uri, text in (("up.md", "uploaded"), ("other.md", "uploaded too")):
        worker.index(uri, text, root="uploads", content=text, metadata={"kind": "note", "tags": ["a", "b"]}, acl=("user:ada", "group:x"))
    catalog.record(
        [Described(document("up.md"), {"kind": None, "year": 2026}, ("*",)), Described(document("guide/5.md"), {"owner": "ada"})]
    )
    catalog.record([absent("other.md")])
    catalog.record([present("bad.md")])
    worker.commit(worker.failed(worker.lease("bad.md")))
    catalog.record([Held(document("guide/5.md"), Instant(clock.now()), "the folder is empty")])
    worker.index("paper.md", "in another namespace\nshared line", ACME)
    catalog.ensure_collection(HOME, recipe("recipe-2"), space("space-2"))
    worker.finish("guide/0.md", "shared line\nline of 0, edited\n\nlast of 0")
    catalog.record([present("waiting.md", noticed_at=clock.now(), sign=signature(30))])
    catalog.end_session(worker.session_id)
