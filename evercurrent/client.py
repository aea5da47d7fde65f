"""The HTTP client: `Client` and, with the same methods to be awaited, `AsyncClient`. Errors are the server's problems, typed.

Proxies come from the environment (HTTP_PROXY, HTTPS_PROXY, NO_PROXY); a server on this machine is never asked through one.
Nothing is retried here: every method may be called again without harm.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx

from evercurrent.client_calls import (
    INTAKE,
    KEEP,
    RETRIEVER,
    Call,
    Calls,
    Content,
    File,
    Mode,
    NotThere,
    OwnedElsewhere,
    Problem,
    Refused,
    RequestRefused,
    Servers,
    TooLarge,
    TryLater,
    TypeRefused,
    Uploaded,
    batches,
    read,
    search_body,
    uploaded,
    uploaded_each,
)
from evercurrent.running import ServerSilent, find_running
from store.folder import DataFolder
from store.model import Unset

__all__ = [
    "KEEP",
    "AsyncClient",
    "Client",
    "File",
    "NotThere",
    "OwnedElsewhere",
    "Problem",
    "Refused",
    "RequestRefused",
    "ServerSilent",
    "Servers",
    "TooLarge",
    "TryLater",
    "TypeRefused",
    "Uploaded",
    "servers_of",
]

_THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")


class Client:
    """Blocking. Safe for threads; close it, or use it as a context manager.

    Every method raises a kind of Problem for what the server refuses, ServerSilent when it does not answer, UriRejected for a uri
    that is none.
    """

    def __init__(self, servers: Servers | None = None, *, timeout: float = 30.0) -> None:
        self._calls = Calls(servers or Servers())
        self._timeout = timeout
        self._http = httpx.Client(timeout=timeout, mounts=_mounts())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def put(
        self,
        uri: str,
        content: Content,
        *,
        metadata: Mapping[str, Any] | None = None,
        acl: Sequence[str] | None = None,
        content_type: str | None = None,
        wait: float | None = None,
    ) -> Uploaded:
        """Uploads a document; `wait`: seconds to wait for it to be served. Equal content keeps its version."""
        return uploaded(self._send(self._calls.put(File(uri, content, metadata, acl), content_type, wait), wait))

    def put_many(self, files: Iterable[File | tuple[str, Content]], *, wait: float | None = None) -> list[Uploaded | Refused]:
        """Uploads documents, some a request; an outcome for each, in order."""
        return [outcome for batch in batches(files) for outcome in uploaded_each(self._send(self._calls.post(batch, wait), wait))]

    def delete(self, uri: str) -> int:
        """Deletes a document: no query that starts later finds it. Returns the deletion's version."""
        return int(read(self._send(self._calls.delete(uri)))["version"])

    def patch(self, uri: str, *, metadata: Mapping[str, Any] | Unset | None = KEEP, acl: Sequence[str] | Unset | None = KEEP) -> int:
        """Merges into a document's metadata (None as a value takes a key away), replaces its ACL. Returns its version."""
        return int(read(self._send(self._calls.patch(uri, metadata, acl)))["version"])

    def get(self, uri: str) -> dict[str, Any]:
        """A document's state."""
        state: dict[str, Any] = read(self._send(self._calls.get(uri)))
        return state

    def original(self, uri: str) -> bytes:
        """The bytes as they were uploaded."""
        answer = self._send(self._calls.get(uri, raw=True))
        return answer.content if answer.is_success else bytes(read(answer))

    def documents(self, state: str | None = None) -> Iterator[dict[str, Any]]:
        """The collection's documents in uri order, page by page."""
        cursor: str | None = None
        while True:
            page = read(self._send(self._calls.page(state, cursor)))
            yield from page["documents"]
            cursor = page["cursor"]
            if cursor is None:
                return

    def settle(self, timeout: float = 30.0) -> None:
        """Returns when all that happened before is served. Raises TryLater when that takes longer."""
        read(self._send(self._calls.settle(timeout), timeout))

    def search(
        self, query: str | Sequence[float], k: int = 10, *, mode: Mode = "hybrid", filter: Mapping[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """The answer of POST …/search; `query` is a text or a vector, `more` any other field of the request."""
        answer: dict[str, Any] = read(self._send(self._calls.search(search_body(query, k, mode, filter, more))))
        return answer

    def chunks(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """The visible ones of these chunks, in the order asked."""
        return list(read(self._send(self._calls.chunks(ids)))["chunks"])

    def collections(self) -> list[dict[str, Any]]:
        """The namespace's collections by name, each with what it holds."""
        return list(read(self._send(self._calls.collections()))["collections"])

    def create_collection(self, name: str) -> dict[str, Any]:
        """Makes a collection; one that is there stays as it is. Raises TryLater when there are too many."""
        row: dict[str, Any] = read(self._send(self._calls.collection("PUT", name)))
        return row

    def delete_collection(self, name: str) -> int:
        """Deletes a collection with everything in it, for good. Returns how many documents it had."""
        return int(read(self._send(self._calls.collection("DELETE", name)))["documents"])

    def namespaces(self) -> list[dict[str, Any]]:
        """Every namespace that has a collection, with the names of these."""
        return list(read(self._send(self._calls.namespaces()))["namespaces"])

    def delete_namespace(self, name: str) -> dict[str, int]:
        """Deletes all collections of a namespace, for good. Returns how many documents each had."""
        return dict(read(self._send(self._calls.delete_namespace(name)))["collections"])

    def _send(self, call: Call, wait: float | None = None) -> httpx.Response:
        try:
            return self._http.request(call.method, call.url, **call.options, timeout=_patience(self._timeout, wait))
        except httpx.HTTPError as error:
            raise ServerSilent(url=call.url, reason=str(error) or type(error).__name__) from error


class AsyncClient:
    """`Client`, to be awaited. Use it in one event loop."""

    def __init__(self, servers: Servers | None = None, *, timeout: float = 30.0) -> None:
        self._calls = Calls(servers or Servers())
        self._timeout = timeout
        self._http = httpx.AsyncClient(timeout=timeout, mounts=_mounts())

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def put(
        self,
        uri: str,
        content: Content,
        *,
        metadata: Mapping[str, Any] | None = None,
        acl: Sequence[str] | None = None,
        content_type: str | None = None,
        wait: float | None = None,
    ) -> Uploaded:
        """See Client.put."""
        return uploaded(await self._send(self._calls.put(File(uri, content, metadata, acl), content_type, wait), wait))

    async def put_many(self, files: Iterable[File | tuple[str, Content]], *, wait: float | None = None) -> list[Uploaded | Refused]:
        """See Client.put_many."""
        outcomes: list[Uploaded | Refused] = []
        for batch in batches(files):
            outcomes += uploaded_each(await self._send(self._calls.post(batch, wait), wait))
        return outcomes

    async def delete(self, uri: str) -> int:
        """See Client.delete."""
        return int(read(await self._send(self._calls.delete(uri)))["version"])

    async def patch(self, uri: str, *, metadata: Mapping[str, Any] | Unset | None = KEEP, acl: Sequence[str] | Unset | None = KEEP) -> int:
        """See Client.patch."""
        return int(read(await self._send(self._calls.patch(uri, metadata, acl)))["version"])

    async def get(self, uri: str) -> dict[str, Any]:
        """See Client.get."""
        state: dict[str, Any] = read(await self._send(self._calls.get(uri)))
        return state

    async def original(self, uri: str) -> bytes:
        """See Client.original."""
        answer = await self._send(self._calls.get(uri, raw=True))
        return answer.content if answer.is_success else bytes(read(answer))

    async def documents(self, state: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """See Client.documents."""
        cursor: str | None = None
        while True:
            page = read(await self._send(self._calls.page(state, cursor)))
            for document in page["documents"]:
                yield document
            cursor = page["cursor"]
            if cursor is None:
                return

    async def settle(self, timeout: float = 30.0) -> None:
        """See Client.settle."""
        read(await self._send(self._calls.settle(timeout), timeout))

    async def search(
        self, query: str | Sequence[float], k: int = 10, *, mode: Mode = "hybrid", filter: Mapping[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """See Client.search."""
        answer: dict[str, Any] = read(await self._send(self._calls.search(search_body(query, k, mode, filter, more))))
        return answer

    async def chunks(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """See Client.chunks."""
        return list(read(await self._send(self._calls.chunks(ids)))["chunks"])

    async def collections(self) -> list[dict[str, Any]]:
        """See Client.collections."""
        return list(read(await self._send(self._calls.collections()))["collections"])

    async def create_collection(self, name: str) -> dict[str, Any]:
        """See Client.create_collection."""
        row: dict[str, Any] = read(await self._send(self._calls.collection("PUT", name)))
        return row

    async def delete_collection(self, name: str) -> int:
        """See Client.delete_collection."""
        return int(read(await self._send(self._calls.collection("DELETE", name)))["documents"])

    async def namespaces(self) -> list[dict[str, Any]]:
        """See Client.namespaces."""
        return list(read(await self._send(self._calls.namespaces()))["namespaces"])

    async def delete_namespace(self, name: str) -> dict[str, int]:
        """See Client.delete_namespace."""
        return dict(read(await self._send(self._calls.delete_namespace(name)))["collections"])

    async def _send(self, call: Call, wait: float | None = None) -> httpx.Response:
        try:
            return await self._http.request(call.method, call.url, **call.options, timeout=_patience(self._timeout, wait))
        except httpx.HTTPError as error:
            raise ServerSilent(url=call.url, reason=str(error) or type(error).__name__) from error


def _patience(timeout: float, wait: float | None) -> httpx.Timeout:
    """Time to connect and send; an answer that was asked to wait may take that much longer."""
    return httpx.Timeout(timeout, read=timeout + (wait or 0.0))


def _mounts() -> dict[str, None]:
    return {f"all://{host}": None for host in _THIS_MACHINE}


def servers_of(data: Path | str, **who: Any) -> Servers:
    """The servers of the `evercurrent up` that runs on the data folder. Raises ServerSilent when none does."""
    running = find_running(DataFolder(Path(data)))
    if running is None:
        raise ServerSilent(url=str(data), reason="no `evercurrent up` runs on this data folder")
    return Servers(running.urls.get("intake", INTAKE), running.urls.get("retriever", RETRIEVER), **who)
