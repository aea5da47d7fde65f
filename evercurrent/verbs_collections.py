"""`collections` and `namespaces`: what there is, and the deletion of one with everything in it, which wants a `--yes`.

No file of a folder is touched; its root is forgotten. Beside a running `up` its servers follow by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from evercurrent.call import Call
from evercurrent.command_line import Argument, Option, named
from evercurrent.say import counted, say, say_json, say_table
from evercurrent.verbs_sync import opened, read_index
from store.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.collections import Size
    from store.model import CollectionId
    from store.ports import Catalog

Action = Annotated[str | None, Argument(metavar="[delete]", show_default=False)]
Name = Annotated[str | None, Argument(metavar="[NAME]", show_default=False)]
Yes = Annotated[bool, Option("--yes", help="Delete for good; without it nothing happens but a count.")]


class Unconfirmed(Misuse):
    code = "unconfirmed"
    sentence = "{what} has {documents} and {chunks}; say it again with --yes to delete all of it for good."


def collections(call: Call, action: Action = None, name: Name = None, yes: Yes = False) -> int:
    """Lists the namespace's collections; `delete NAME --yes` removes one with everything in it."""
    if action is None:
        return list_them(call)
    if action != "delete" or name is None:
        raise Misuse("Say `evercurrent collections` or `evercurrent collections delete NAME --yes`.")
    return delete(call, name, yes)


def namespaces(call: Call, action: Action = None, name: Name = None, yes: Yes = False) -> int:
    """Lists the namespaces; `delete NAME --yes` removes one with all of its collections."""
    if action is None:
        return list_spaces(call)
    if action != "delete" or name is None:
        raise Misuse("Say `evercurrent namespaces` or `evercurrent namespaces delete NAME --yes`.")
    return delete_namespace(call, name, yes)


def list_them(call: Call) -> int:
    from indexer.collections import list_collections

    with read_index(call) as catalog:
        rows = list_collections(catalog, call.home.namespace)
    if call.as_json:
        say_json({"collections": rows})
    else:
        titles = ("collection", "documents", "pending", "chunks")
        say_table(titles, ([row["collection"], documents_in(row), row["documents"]["pending"], row["chunks"]] for row in rows))
    return 0


def documents_in(row: dict[str, Any]) -> int:
    return sum(count for state, count in row["documents"].items() if state != "ignored")


def delete(call: Call, name: str, yes: bool) -> int:
    from indexer.collections import drop_collection, size_of
    from store.model import CollectionId, CollectionName

    home = CollectionId(call.home.namespace, CollectionName(named("NAME", name)))
    if not yes:
        with read_index(call) as catalog:
            size = size_of(catalog, home)
        raise unconfirmed(f"The collection {name!r}", [size])
    with opened(call) as catalog:
        documents = drop_collection(catalog, home, call.clock)
    if call.as_json:
        say_json({"deleted": name, "documents": documents})
    else:
        say(f"deleted the collection {name} with {counted(documents, 'document')}; no file of a folder was touched")
    return 0


def list_spaces(call: Call) -> int:
    from indexer.collections import list_namespaces

    with read_index(call) as catalog:
        rows = list_namespaces(catalog)
    if call.as_json:
        say_json({"namespaces": rows})
    else:
        say_table(("namespace", "collections"), ([row["namespace"], ", ".join(row["collections"])] for row in rows))
    return 0


def delete_namespace(call: Call, name: str, yes: bool) -> int:
    from indexer.collections import drop_namespace, size_of
    from store.model import Namespace

    namespace = Namespace(named("NAME", name))
    if not yes:
        with read_index(call) as catalog:
            sizes = [size_of(catalog, home) for home in homes_of(catalog, namespace)]
        raise unconfirmed(f"The namespace {name!r}", sizes)
    with opened(call) as catalog:
        removed = drop_namespace(catalog, namespace, call.clock)
    if call.as_json:
        say_json({"deleted": name, "collections": removed})
    else:
        say(f"deleted the namespace {name}: {counted(len(removed), 'collection')} with {counted(sum(removed.values()), 'document')}")
    return 0


def unconfirmed(what: str, sizes: Sequence[Size]) -> Unconfirmed:
    documents, chunks = sum(size.documents for size in sizes), sum(size.chunks for size in sizes)
    return Unconfirmed(what=what, documents=counted(documents, "document"), chunks=counted(chunks, "chunk"))


def homes_of(catalog: Catalog, namespace: str) -> list[CollectionId]:
    return [collection.home for collection in catalog.collections() if collection.home.namespace == namespace]


VERBS = {"collections": collections, "namespaces": namespaces}
HIDDEN: frozenset[str] = frozenset()
