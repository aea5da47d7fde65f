"""A search from the command: the running retriever answers it, else the catalog is opened here."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from evercurrent.call import Call
from evercurrent.running import ServerSilent, ask, find_running
from evercurrent.say import note
from store.errors import UnknownCollection


def search_json(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    """The answer as POST …/search gives it. Raises what the retriever's door raises."""
    for url in retriever_urls(call):
        try:
            answer: dict[str, Any] = ask(
                f"{url}/v1/collections/{quote(call.home.collection, safe='')}/search",
                body,
                headers={"X-Evercurrent-Namespace": call.home.namespace},
            )
        except ServerSilent as error:
            note(f"{error.message} Opening the catalog instead.")
            continue
        return answer
    return search_here(call, body)


def retriever_urls(call: Call) -> list[str]:
    """The retrievers of this data folder: the supervisor's, then those that tell a beat."""
    from retriever.premises import beats

    running = find_running(call.folder)
    urls = [running.urls["retriever"]] if running is not None and "retriever" in running.urls else []
    host = call.config.retriever.http.host
    for beat in beats(call.folder.retriever):
        url = f"http://[{host}]:{beat.port}" if ":" in host else f"http://{host}:{beat.port}"
        if url not in urls:
            urls.append(url)
    return urls


def search_here(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    """The search in this process. Before anything was indexed there is nothing to open."""
    from retriever.query import parse_search

    if not call.has_catalog:
        parse_search(body, k_max=call.config.retriever.k_max)
        call.need_collection(None)
        return {"hits": [], "snapshot": 0, "complete": True, "degraded": [], "cache": "miss", "took_ms": 0.0}
    from retriever.search import answer_json
    from retriever.wiring import open_local

    with open_local(call.folder.path, call.config) as searcher:
        try:
            return answer_json(searcher.search(call.home, searcher.parsed(body)))
        except UnknownCollection:
            call.need_collection(None)
            return {"hits": [], "snapshot": 0, "complete": True, "degraded": [], "cache": "miss", "took_ms": 0.0}
