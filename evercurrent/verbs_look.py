"""`search`, `status`, `documents`, `export`, `check`: looking at an index changes nothing."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

from evercurrent.call import Call
from evercurrent.command_line import Argument, Option
from evercurrent.say import for_people, note, say, say_json, say_table
from evercurrent.snippets import snippet
from evercurrent.verbs_sync import read, read_index, tell_no_index
from store.errors import Misuse, QueryRejected

if TYPE_CHECKING:
    from store.model import DocumentState

MIN_SCORE_HELP = (
    "Leave out hits below this: their cosine (dense and hybrid) or BM25 (keyword), the number shown behind the score. "
    "A hybrid score itself only ranks the hits of one answer."
)


def search(
    call: Call,
    query: Annotated[str, Argument(metavar="QUERY")],
    k: Annotated[int, Option("-k", help="How many hits.")] = 10,
    mode: Annotated[str, Option("--mode", help="hybrid, dense or keyword.")] = "hybrid",
    min_score: Annotated[float | None, Option("--min-score", help=MIN_SCORE_HELP)] = None,
    filter: Annotated[str | None, Option("--filter", help="Which chunks, as JSON.")] = None,
) -> int:
    """Searches: through the running retriever, else by opening the catalog."""
    from evercurrent.searching import search_json

    body: dict[str, Any] = {"query": query, "k": k, "mode": mode, "filter": filter_of(filter)}
    if min_score is not None:
        body["min_score"] = min_score
    tell_no_index(call)
    answer = search_json(call, body)
    if call.as_json:
        say_json(answer)
    else:
        say_hits(answer, query, mode)
        for line in remarks_on(answer, pending_documents(call)):
            note(line)
    return 0


def remarks_on(answer: dict[str, Any], pending: int) -> list[str]:
    """What a person should know about an answer: that nothing was found, that a side was missing, that more is on its way."""
    remarks = [] if answer["hits"] else ["Nothing was found."]
    if answer["degraded"]:
        remarks.append(f"Answered without: {', '.join(answer['degraded'])}.")
    if pending:
        remarks.append(f"{pending} document{' is' if pending == 1 else 's are'} still being indexed; search again in a moment.")
    return remarks


def pending_documents(call: Call) -> int:
    from store.model import DocumentState

    with read(call) as catalog:
        return catalog.counts(call.home).states.get(DocumentState.PENDING, 0) if call.need_collection(catalog) else 0


def status(
    call: Call,
    wait: Annotated[float | None, Option("--wait", help="Wait up to this many seconds until everything is settled.")] = None,
) -> int:
    """Shows state and lag."""
    from evercurrent.state import await_idle, state_json, state_lines

    settled = True if wait is None else await_idle(call, wait)
    with read_index(call) as catalog:
        state = state_json(call, catalog)
    if call.as_json:
        say_json(state)
    else:
        for line in state_lines(state):
            say(line)
    if not settled:
        sys.stderr.write(f"evercurrent: Not settled within {wait:g} seconds.\n")
    return 0 if settled else 3


def documents(
    call: Call,
    state: Annotated[list[str] | None, Option("--state", help="Only documents in this state; may be repeated.")] = None,
    cursor: Annotated[str | None, Option("--cursor", help="Where the page before ended.")] = None,
    limit: Annotated[int | None, Option("--limit", min=1, help="Rows at most; all of them when not given.")] = None,
) -> int:
    """Lists the documents with state and reason."""
    from evercurrent.passes import all_documents
    from indexer.rows import document_json

    states = states_of(state or [])
    with read_index(call) as catalog:
        if not call.need_collection(catalog):
            rows, after = [], None
        elif limit is None and cursor is None:
            rows, after = [document_json(row) for row in all_documents(catalog, call.home, states)], None
        else:
            page = catalog.documents(call.home, cursor, limit or 1000, states)
            rows, after = [document_json(row) for row in page.documents], page.cursor
    if call.as_json:
        say_json({"documents": rows, "cursor": after})
        return 0
    columns = ("document", "state", "chunks", "version", "code", "message")
    say_table(columns, ([row[column] for column in columns] for row in rows))
    if after is not None:
        sys.stderr.write(f"More: --cursor {after}\n")
    return 0


def export(
    call: Call,
    vectors: Annotated[bool, Option("--vectors", help="With each chunk's vector (base64 of float32).")] = False,
    no_version: Annotated[bool, Option("--no-version", help="Without versions, to compare two builds of one state.")] = False,
) -> int:
    """Writes all visible chunks as JSON lines, sorted by document and ordinal."""
    from evercurrent.exporting import export_lines

    with read_index(call) as catalog:
        if call.need_collection(catalog):
            with closing(export_lines(catalog, call.home, vectors=vectors, versions=not no_version)) as lines:
                sys.stdout.writelines(lines)
    sys.stdout.flush()
    return 0


def check(call: Call) -> int:
    """Audits the index: contradictions between and inside its parts."""
    from evercurrent.checking import findings

    with read_index(call) as catalog:
        found = [
            {"code": finding.code, "document": None if finding.document is None else finding.document.uri, "detail": finding.detail}
            for finding in findings(call, catalog)
        ]
    if call.as_json:
        say_json({"ok": not found, "findings": found})
    elif not found:
        say("ok: nothing contradicts itself")
    else:
        say_table(("code", "document", "detail"), ([row["code"], row["document"], row["detail"]] for row in found))
    return 1 if found else 0


VERBS = {"search": search, "status": status, "documents": documents, "export": export, "check": check}
HIDDEN: frozenset[str] = frozenset()


def filter_of(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    try:
        parsed = json.loads(given)
    except ValueError as error:
        raise QueryRejected(place="filter", reason=f"is not JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise QueryRejected(place="filter", reason="is not a JSON object")
    return parsed


def states_of(names: list[str]) -> tuple[DocumentState, ...]:
    from store.model import DocumentState

    known = {state.value: state for state in DocumentState}
    for name in names:
        if name not in known:
            raise Misuse(f"There is no state {name!r}; there are {', '.join(known)}.")
    return tuple(known[name] for name in names)


def say_hits(answer: dict[str, Any], query: str, mode: str) -> None:
    """Hits for people; score, document, offsets, text and what `--min-score` compares a line when piped."""
    if not for_people():
        for hit in answer["hits"]:
            compared = compared_score(hit, mode)
            last = "" if compared is None else f"{compared:.4f}"
            say(f"{hit['score']:.4f}\t{hit['document']}\t{hit['start']}-{hit['end']}\t{snippet(hit['text'], query)}\t{last}")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for number, hit in enumerate(answer["hits"], start=1):
        head = Text(f"{number}. ", style="dim") + Text(hit["document"], style="bold") + Text(f"  {score_words(hit, mode)}", style="dim")
        headings = hit["metadata"].get("headings") or []
        console.print(head + Text("  " + " › ".join(map(str, headings)), style="cyan") if headings else head)
        console.print(Text("   " + snippet(hit["text"], query)))


def compared_score(hit: dict[str, Any], mode: str) -> float | None:
    """What `--min-score` compares: the cosine, in keyword mode BM25; None when that side did not score the hit."""
    score: float | None = hit["scores"]["keyword" if mode == "keyword" else "dense"]
    return score


def score_words(hit: dict[str, Any], mode: str) -> str:
    """The score, which ranks within this answer alone, and the one that can be compared between answers."""
    compared = compared_score(hit, mode)
    name = "BM25" if mode == "keyword" else "cosine"
    return f"{hit['score']:.3f}" + ("" if compared is None else f" ({name} {compared:.2f})")
