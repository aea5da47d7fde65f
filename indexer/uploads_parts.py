"""The files of one multipart request: each taken or refused by itself, all that were taken recorded at once.

Bodies come from elsewhere, piece by piece; nothing here waits on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from indexer.described import acl_of_header, metadata_of_header
from indexer.multipart import Multipart, PartEnd, PartHead
from indexer.requests import RequestTooLarge, RequestWrong
from indexer.uploads import Upload, Uploads
from indexer.uploads_problems import status_for_upload
from store.blobs.folder import Draft
from store.errors import EvercurrentError, Transient
from store.model import CollectionId, DocumentId, Metadata, Version, check_uri

METADATA_HEADER = "X-Evercurrent-Metadata"
ACL_HEADER = "X-Evercurrent-Acl"


@dataclass(frozen=True, slots=True)
class Refused:
    """A file of a request that was not taken, and why."""

    document: str
    error: EvercurrentError

    def as_json(self) -> dict[str, Any]:
        status = status_for_upload(self.error) or (
            HTTPStatus.SERVICE_UNAVAILABLE if isinstance(self.error, Transient) else HTTPStatus.UNPROCESSABLE_ENTITY
        )
        document = self.document.encode("utf-8", "replace").decode()
        return {"document": document, "status": status.value, "code": self.error.code, "detail": self.error.message}


Answer = tuple[DocumentId, Version] | Refused


@dataclass(frozen=True, slots=True)
class Coming:
    """A file whose bytes are on their way."""

    document: DocumentId
    metadata: Metadata | None
    acl: tuple[str, ...] | None
    draft: Draft
    declared: str = ""
    """Its Content-Type."""

    def keep(self) -> Upload:
        return Upload(self.document, self.draft.keep(), self.draft.bytes, self.metadata, self.acl, declared=self.declared)


@dataclass(slots=True)
class Parts:
    """The files of one multipart request, on their way in. A bad one is answered and skipped; the others go on."""

    uploads: Uploads
    home: CollectionId
    reader: Multipart
    metadata: Metadata | None
    """Of every file whose own part says nothing."""
    acl: tuple[str, ...] | None
    answers: list[Upload | Refused] = field(default_factory=list)
    coming: Coming | None = None

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def take(self, body: bytes) -> None:
        """Raises MultipartWrong, RequestTooLarge."""
        for piece in self.reader.feed(body):
            match piece:
                case PartHead():
                    self._begin(piece)
                case bytes():
                    self._go_on(lambda coming, piece=piece: coming.draft.write(piece))  # type: ignore[misc]
                case PartEnd():
                    self._go_on(lambda coming: self.answers.append(coming.keep()))
                    self._let_go()

    def finish(self, rest: bytes) -> list[Answer]:
        """Records all that was taken, at once."""
        self.take(rest)
        self.reader.finish()
        kept = [answer for answer in self.answers if isinstance(answer, Upload)]
        outcomes = iter(self.uploads.record(kept) if kept else ())
        return [answer if isinstance(answer, Refused) else answer_of(answer, next(outcomes)) for answer in self.answers]

    def _begin(self, head: PartHead) -> None:
        files_max = self.uploads.limits.files_max
        if len(self.answers) >= files_max:
            raise RequestTooLarge(reason=f"it has more than {files_max} files (indexer.uploads.files_max); nothing of it was kept")
        name = (head.name or "") if head.filename is None else head.filename
        try:
            self.coming = self._checked(head, name)
        except EvercurrentError as error:
            self.answers.append(Refused(name, error))

    def _checked(self, head: PartHead, name: str) -> Coming:
        if head.filename is None:
            raise RequestWrong(place=name, reason="a part is a file: give it a filename, which becomes the uri")
        document = self.home.document(check_uri(name))
        metadata, acl = headers_of(head.headers.get(METADATA_HEADER.lower()), head.headers.get(ACL_HEADER.lower()))
        declared = head.headers.get("content-type", "")
        self.uploads.check(document, declared)
        draft = self.uploads.blobs.draft(document.namespace)
        return Coming(document, self.metadata if metadata is None else metadata, self.acl if acl is None else acl, draft, declared)

    def _go_on(self, step: Callable[[Coming], None]) -> None:
        if self.coming is None:
            return
        try:
            step(self.coming)
        except EvercurrentError as error:
            self.answers.append(Refused(self.coming.document.uri, error))
            self._let_go()

    def _let_go(self) -> None:
        if self.coming is not None:
            self.coming.draft.__exit__(None, None, None)
            self.coming = None


def answer_of(upload: Upload, outcome: Version | EvercurrentError) -> Answer:
    return Refused(upload.document.uri, outcome) if isinstance(outcome, EvercurrentError) else (upload.document, outcome)


def headers_of(metadata: str | None, acl: str | None) -> tuple[Metadata | None, tuple[str, ...] | None]:
    """Metadata and permissions, each None where its header is missing. Raises MetadataRejected, AclRejected."""
    return None if metadata is None else metadata_of_header(metadata), None if acl is None else acl_of_header(acl)
