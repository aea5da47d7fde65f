"""The console: one self-contained page at `/`, mounted on the intake's application, so that `indexer` knows no web page.

It shows what `status` and `documents` say; its search box is answered by the running retriever, asked from here.
"""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Any

from fastapi import Body, FastAPI
from fastapi.responses import HTMLResponse

from evercurrent.call import Call
from evercurrent.running import ServerSilent, ask, find_running
from evercurrent.searching import retriever_urls
from evercurrent.state import state_json
from store.ports import Catalog

SEARCH_SECONDS_MAX = 20.0
QUERY_CHARS_MAX = 2_000
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'self'"
)


def mount_console(app: FastAPI, call: Call, catalog: Catalog) -> None:
    """Adds the page and what it asks for to the intake's application."""
    page = files("evercurrent").joinpath("static/console.html").read_text("utf-8")

    @app.get("/", include_in_schema=False)
    async def console() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "X-Frame-Options": "DENY"})

    @app.get("/console/state", include_in_schema=False)
    async def state() -> dict[str, Any]:
        return await asyncio.to_thread(_state, call, catalog)

    @app.post("/console/search", include_in_schema=False)
    async def search(
        query: str = Body(max_length=QUERY_CHARS_MAX), mode: str = Body("hybrid"), k: int = Body(10, ge=1, le=100)
    ) -> dict[str, Any]:
        return await asyncio.to_thread(_search, call, {"query": query, "mode": mode, "k": k})


def _state(call: Call, catalog: Catalog) -> dict[str, Any]:
    running = find_running(call.folder)
    return {**state_json(call, catalog), "urls": {} if running is None else running.urls}


def _search(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    """The first retriever that answers. Raises ServerSilent when none does, and what the retriever refuses."""
    silent = ServerSilent(url="The retriever", reason="none runs on this data folder")
    for url in retriever_urls(call):
        try:
            answer: dict[str, Any] = ask(f"{url}/v1/collections/{call.home.collection}/search", body, SEARCH_SECONDS_MAX)
        except ServerSilent as error:
            silent = error
            continue
        return answer
    raise silent
