"""`quarantine` and `retry`: what was set aside, and the way back."""

from __future__ import annotations

from typing import Annotated

from evercurrent.call import Call
from evercurrent.command_line import Argument
from evercurrent.say import note, say, say_json, say_table
from evercurrent.verbs_sync import crew_for, opened, progress_bar, read_index
from store.errors import Misuse
from store.model import check_uri


def quarantine(call: Call) -> int:
    """Lists the documents that are not tried again by themselves, with reasons."""
    from evercurrent.passes import all_documents
    from indexer.rows import document_json
    from store.model import DocumentState

    with read_index(call) as catalog:
        known = call.need_collection(catalog)
        rows = [document_json(row) for row in all_documents(catalog, call.home, (DocumentState.QUARANTINED,))] if known else []
    if call.as_json:
        say_json({"documents": rows})
    elif rows:
        say_table(("document", "code", "message", "attempts"), ([r["document"], r["code"], r["message"], r["attempts"]] for r in rows))
    else:
        note("Nothing is in quarantine.")
    return 0


def retry(call: Call, documents: Annotated[list[str] | None, Argument(metavar="[DOCUMENT]...", show_default=False)] = None) -> int:
    """Puts quarantined documents (all, or those named) back to work and waits for what becomes of them."""
    from evercurrent.passes import all_documents, await_settled
    from evercurrent.targets import Target
    from indexer.rows import document_json
    from store.model import DocumentState

    asked = [call.home.document(check_uri(uri)) for uri in documents or []]
    with opened(call) as catalog:
        unknown = [document.uri for document in asked if catalog.status_of(document) is None]
        if unknown:
            raise Misuse(f"There is no document {unknown[0]!r}; `evercurrent quarantine` lists what can be retried.")
        known = call.need_collection(catalog)
        retried = catalog.retry(asked or None, call.home, call.clock.now()) if known else 0
        if retried:
            targets = [Target(root) for root in catalog.roots(call.home)]
            with crew_for(call, catalog, targets) as crew, progress_bar() as progress:
                await_settled(catalog, call.home, targets, crew.rest, progress)
        failed = [document_json(row) for row in all_documents(catalog, call.home, (DocumentState.QUARANTINED,))] if known else []
    names = {document.uri for document in asked}
    failed = [row for row in failed if not names or row["document"] in names]
    if call.as_json:
        say_json({"retried": retried, "failed": failed})
    else:
        say(f"retried {retried}, still failing {len(failed)}")
        say_table(("document", "code", "message"), ([row["document"], row["code"], row["message"]] for row in failed))
    return 1 if failed else 0


VERBS = {"quarantine": quarantine, "retry": retry}
HIDDEN: frozenset[str] = frozenset()
