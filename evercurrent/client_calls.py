"""What the HTTP clients send and how they read what comes: uris, headers, bodies, and a server's problems as typed errors.

Nothing is sent here, and no HTTP library is known; a file that is to be uploaded is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import quote

from store.errors import EvercurrentError, Misuse, Transient
from store.model import Unset, check_uri

INTAKE = "http://127.0.0.1:8100"
RETRIEVER = "http://127.0.0.1:8200"
FILES_A_REQUEST_MAX = 200
BYTES_A_REQUEST_MAX = 32 * 1024 * 1024
PAGE_DOCUMENTS = 1000
KEEP = Unset.UNSET
"""What a patch does not speak of stays."""

Content = bytes | str | Path
"""A document's bytes, its text, or the file that has them."""
Mode = Literal["hybrid", "dense", "keyword"]


class Answer(Protocol):
    """A server's answer, of whichever library."""

    @property
    def status_code(self) -> int: ...

    @property
    def is_success(self) -> bool: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def json(self) -> Any: ...


# --- errors -----------------------------------------------------------------------------------------------------


class Problem(EvercurrentError):
    """A server answered with a problem: `code`, `status` and the sentence are its own; deploy/RUNBOOK.md has the codes."""

    def __init__(self, code: str, message: str, status: int, place: str | None = None) -> None:
        super().__init__(message, status=status, place=place)
        self.code = code  # type: ignore[misc]
        self.status = status
        self.place = place


class RequestRefused(Problem, Misuse):
    """The request is at fault: change it."""


class NotThere(RequestRefused):
    """No such document or collection (404)."""


class OwnedElsewhere(RequestRefused):
    """The document belongs to another source (409)."""


class TooLarge(RequestRefused):
    """413."""


class TypeRefused(RequestRefused):
    """No loader reads such a document (415)."""


class TryLater(Problem, Transient):
    """The server is busy, full or behind: the same request may succeed after `retry_after_seconds`."""

    def __init__(self, code: str, message: str, status: int, place: str | None = None, retry_after_seconds: float | None = None) -> None:
        Problem.__init__(self, code, message, status, place)
        self.retry_after_seconds = retry_after_seconds


_KINDS: Mapping[int, type[RequestRefused]] = {404: NotThere, 409: OwnedElsewhere, 413: TooLarge, 415: TypeRefused}


# --- what goes and what comes -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class File:
    """A document of a `put_many`."""

    uri: str
    content: Content
    metadata: Mapping[str, Any] | None = None
    acl: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A document is in the ledger, durably, at this version."""

    document: str
    version: int
    is_served: bool
    """Every retriever answers with it. False: it will be; or nobody asked to wait."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A file of a `put_many` that was not taken."""

    document: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class Servers:
    """Where to ask, and who asks."""

    intake: str = INTAKE
    retriever: str = RETRIEVER
    namespace: str = "default"
    collection: str = "main"
    principals: tuple[str, ...] = ()
    api_key: str | None = None

    def headers(self) -> dict[str, str | bytes]:
        told: dict[str, str | bytes] = {"X-Evercurrent-Namespace": self.namespace.encode()}
        if self.principals:
            told["X-Evercurrent-Principals"] = ",".join(self.principals).encode()
        if self.api_key is not None:
            told["Authorization"] = f"Bearer {self.api_key}"
        return told


@dataclass(frozen=True, slots=True)
class Call:
    """A request, ready to be sent by either client."""

    method: str
    url: str
    options: Mapping[str, Any]


class Calls:
    """What either client sends, and how the answers are read. Pure but for files that are read."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._headers = servers.headers()
        self._documents = f"{servers.intake.rstrip('/')}/v1/collections/{quote(servers.collection, safe='')}/documents"
        self._answers = f"{servers.retriever.rstrip('/')}/v1/collections/{quote(servers.collection, safe='')}"

    def put(self, file: File, content_type: str | None, wait: float | None) -> Call:
        headers = {**self._headers, **_own_headers(file), "Content-Type": content_type or "application/octet-stream"}
        return Call("PUT", self._at(file.uri), {"content": _bytes_of(file.content), "headers": headers, "params": _params(wait=wait)})

    def post(self, files: Sequence[File], wait: float | None) -> Call:
        parts = [("file", (check_uri(file.uri), _bytes_of(file.content), "application/octet-stream", _own_headers(file))) for file in files]
        return Call("POST", self._documents, {"files": parts, "headers": self._headers, "params": _params(wait=wait)})

    def patch(self, uri: str, metadata: Mapping[str, Any] | Unset | None, acl: Sequence[str] | Unset | None) -> Call:
        change: dict[str, Any] = {}
        if not isinstance(metadata, Unset):
            change["metadata"] = metadata
        if not isinstance(acl, Unset):
            change["acl"] = None if acl is None else list(acl)
        return Call("PATCH", self._at(uri), {"json": change, "headers": self._headers})

    def delete(self, uri: str) -> Call:
        return Call("DELETE", self._at(uri), {"headers": self._headers})

    def get(self, uri: str, *, raw: bool = False) -> Call:
        return Call("GET", self._at(uri), {"headers": self._headers, "params": {"raw": "true"} if raw else {}})

    def page(self, state: str | None, cursor: str | None) -> Call:
        return Call("GET", self._documents, {"headers": self._headers, "params": _params(state=state, cursor=cursor, limit=PAGE_DOCUMENTS)})

    def settle(self, timeout: float) -> Call:
        return Call("POST", f"{self._servers.intake.rstrip('/')}/v1/settle", {"headers": self._headers, "params": {"timeout": timeout}})

    def collections(self) -> Call:
        return self._whole("GET", "collections")

    def collection(self, method: str, name: str) -> Call:
        return self._whole(method, f"collections/{quote(name, safe='')}")

    def namespaces(self) -> Call:
        return self._whole("GET", "namespaces")

    def delete_namespace(self, name: str) -> Call:
        return self._whole("DELETE", f"namespaces/{quote(name, safe='')}")

    def search(self, body: Mapping[str, Any]) -> Call:
        return Call("POST", f"{self._answers}/search", {"json": body, "headers": self._headers})

    def chunks(self, ids: Sequence[str]) -> Call:
        return Call("POST", f"{self._answers}/chunks", {"json": {"ids": list(ids)}, "headers": self._headers})

    def _whole(self, method: str, path: str) -> Call:
        return Call(method, f"{self._servers.intake.rstrip('/')}/v1/{path}", {"headers": self._headers})

    def _at(self, uri: str) -> str:
        return f"{self._documents}/{quote(check_uri(uri), safe='/')}"


def _params(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _own_headers(file: File) -> dict[str, str]:
    headers: dict[str, str] = {}
    if file.metadata is not None:
        headers["X-Evercurrent-Metadata"] = json.dumps(file.metadata)
    if file.acl is not None:
        headers["X-Evercurrent-Acl"] = json.dumps(list(file.acl))
    return headers


def _bytes_of(content: Content) -> bytes:
    match content:
        case bytes():
            return content
        case str():
            return content.encode()
        case Path():
            return content.read_bytes()


def batches(files: Iterable[File | tuple[str, Content]]) -> Iterator[list[File]]:
    """Requests of some files each: neither too many nor too large."""
    batch: list[File] = []
    batch_bytes = 0
    for given in files:
        file = given if isinstance(given, File) else File(*given)
        file = File(file.uri, _bytes_of(file.content), file.metadata, file.acl)
        file_bytes = len(file.content) if isinstance(file.content, bytes) else 0
        if batch and (len(batch) == FILES_A_REQUEST_MAX or batch_bytes + file_bytes > BYTES_A_REQUEST_MAX):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(file)
        batch_bytes += file_bytes
    if batch:
        yield batch


def read(answer: Answer) -> Any:
    """The answer's JSON. Raises the Problem that it tells."""
    if answer.is_success:
        return answer.json()
    raise problem_of(answer.status_code, _words(answer), answer.headers.get("Retry-After"))


def _words(answer: Answer) -> dict[str, Any]:
    try:
        words = answer.json()
    except ValueError:
        words = None
    return words if isinstance(words, dict) else {"detail": f"The server answered {answer.status_code}."}


def problem_of(status: int, words: Mapping[str, Any], retry_after: str | None = None) -> Problem:
    code, message = str(words.get("code", "internal")), str(words.get("detail") or words.get("title") or f"The server answered {status}.")
    if status in (429, 503, 504, 507):
        after = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
        return TryLater(code, message, status, words.get("place"), after)
    if 400 <= status < 500:
        return _KINDS.get(status, RequestRefused)(code, message, status, words.get("place"))
    return Problem(code, message, status)


def uploaded(answer: Answer) -> Uploaded:
    words = read(answer)
    return Uploaded(words["document"], words["version"], answer.status_code == 200)


def uploaded_each(answer: Answer) -> list[Uploaded | Refused]:
    """An answer for each file; a request of which none was taken has them, too."""
    words = _words(answer)
    rows = words.get("documents") if answer.status_code in (200, 202, 422) else None
    if rows is None:
        raise problem_of(answer.status_code, words, answer.headers.get("Retry-After"))
    return [_outcome(row) for row in rows]


def _outcome(row: Mapping[str, Any]) -> Uploaded | Refused:
    if "version" in row:
        return Uploaded(row["document"], row["version"], row["status"] == 200)
    return Refused(row["document"], problem_of(row["status"], row))


def search_body(
    query: str | Sequence[float], k: int, mode: Mode, filter: Mapping[str, Any] | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    asked = {"query": query} if isinstance(query, str) else {"vector": list(query)}
    return {**asked, "k": k, "mode": mode, **({} if filter is None else {"filter": filter}), **more}
