"""`sources`: the roots, the documents that are set aside, and the word of a person that lets held ones go or a whole root leave.

A root that is no longer named anywhere stays: only `sources remove` takes its documents out of the index. No file is touched.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from evercurrent.call import Call
from evercurrent.command_line import Argument
from evercurrent.say import counted, note, say, say_json, say_table
from evercurrent.verbs_sync import opened, read_index
from store.errors import Misuse

if TYPE_CHECKING:
    from store.model import DocumentStatus
    from store.ports import Catalog

INTENTS_MAX = 500
ACTIONS = frozenset({"release", "remove"})


def sources(
    call: Call,
    action: Annotated[str | None, Argument(metavar="[release|remove]", show_default=False)] = None,
    what: Annotated[str | None, Argument(metavar="[ROOT|URI]", show_default=False)] = None,
) -> int:
    """Lists the roots and what is set aside; `release ROOT|URI` lets held documents go, `remove ROOT` a root with all of its documents."""
    if action is None:
        return list_sources(call)
    if action not in ACTIONS or what is None:
        raise Misuse("Say `evercurrent sources`, `evercurrent sources release ROOT|URI` or `evercurrent sources remove ROOT`.")
    return release(call, what) if action == "release" else remove(call, what)


def list_sources(call: Call) -> int:
    from evercurrent.passes import all_documents
    from indexer.rows import document_json
    from store.model import DocumentState

    with read_index(call) as catalog:
        roots = [
            {"root": root.name, "kind": root.kind.value, "path": root.path, "prefix": root.prefix} for root in catalog.roots(call.home)
        ]
        set_aside = (DocumentState.HELD, DocumentState.SUPPRESSED, DocumentState.CONFLICT)
        known = call.need_collection(catalog)
        rows = [document_json(row) for row in all_documents(catalog, call.home, set_aside)] if known else []
    if call.as_json:
        say_json({"roots": roots, "documents": rows})
        return 0
    say_table(("root", "kind", "prefix", "path"), ([row["root"], row["kind"], row["prefix"], row["path"]] for row in roots))
    if rows:
        say_table(("document", "state", "message"), ([row["document"], row["state"], row["message"]] for row in rows))
        note("`evercurrent sources release ROOT|URI` lets held documents go: they are deleted from the index.")
    return 0


def release(call: Call, what: str) -> int:
    """The held documents of a root, or one of them, are really gone: they are deleted. One that comes back is indexed again."""
    with opened(call) as catalog:
        held = held_documents(call, catalog)
        chosen = [row for row in held if what in (row.root, row.document.uri)]
        if not chosen:
            roots = sorted({row.root for row in held})
            hint = f"held documents are in: {', '.join(roots)}" if roots else "nothing is held"
            raise Misuse(f"Nothing that is held is called {what!r}; {hint}.")
        delete(call, catalog, chosen)
    released: dict[str, Any] = {"released": [row.document.uri for row in chosen]}
    if call.as_json:
        say_json(released)
    else:
        say(f"released {len(chosen)}: deleted from the index")
    return 0


def remove(call: Call, name: str) -> int:
    """The root leaves with all of its documents; the files stay. One that was stopped in the middle is finished by saying it again."""
    from store.model import RootName

    with opened(call) as catalog:
        known = [root.name for root in catalog.roots(call.home)] if call.need_collection(catalog) else []
        try:
            removed = catalog.remove_root(call.home, RootName(name), call.clock.now()) if known else None
        except Misuse:
            removed = None
    if removed is None:
        raise Misuse(unknown_root(name, known))
    if call.as_json:
        say_json({"removed": name, "documents": removed})
    else:
        say(f"removed the root {name} and {counted(removed, 'document')} from the index; no file was touched")
    return 0


def unknown_root(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"There is no root {name!r}: the collection has none."
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"There is no root {name!r}; did you mean {near[0]!r}? `evercurrent sources` lists them."


def held_documents(call: Call, catalog: Catalog) -> list[DocumentStatus]:
    from evercurrent.passes import all_documents
    from store.model import DocumentState

    return list(all_documents(catalog, call.home, (DocumentState.HELD,))) if call.need_collection(catalog) else []


def delete(call: Call, catalog: Catalog, rows: Sequence[DocumentStatus]) -> None:
    from store.model import Absent, Cause

    now = call.clock.now()
    for start in range(0, len(rows), INTENTS_MAX):
        catalog.record([Absent(row.document, Cause.DELETED, now) for row in rows[start : start + INTENTS_MAX]])


VERBS = {"sources": sources}
HIDDEN: frozenset[str] = frozenset()
