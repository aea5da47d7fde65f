"""Uploads as a source: bytes into the blob folder, then the ledger, then the bell; and back out of it for workers and for people.

What was acknowledged is in the ledger, durably, with its bytes. Nothing here speaks HTTP, loads or embeds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from indexer.described import refuse_repeated
from indexer.fields import SHARED_FIELDS, Fields, check_fields, check_patch_fields, declared_fields
from indexer.identity import content_hash
from indexer.load.detect import detect, type_of_declared
from indexer.load.formats import BY_TYPE
from indexer.load.registry import claims, loader_of
from indexer.wiring import ensure_wanted
from store.beats import beats
from store.blobs.folder import BlobFolder
from store.clock import Clock
from store.config import Config
from store.errors import DocumentTooLarge, EvercurrentError, Misuse, OwnedBySource, Rejected, Transient, UnknownCollection
from store.folder import DataFolder
from store.model import (
    Absent,
    Cause,
    CollectionId,
    ContentHash,
    Described,
    DocumentId,
    DocumentState,
    DocumentStatus,
    LeasedDocument,
    Metadata,
    Position,
    Present,
    Root,
    RootName,
    SourceKind,
    Unset,
    Urgency,
    Version,
)
from store.ports import Catalog

log = structlog.get_logger()

UPLOADS = RootName("uploads")
UPLOADS_PATH = "uploads:"
"""What the root's row has for a path: uploads stand in the data folder, wherever that is moved."""
REPEATABLE_BYTES_MAX = 128 * 1024
"""A document of more bytes is longer than any value of its metadata."""
VAGUE_TYPES = frozenset({"octet-stream", "x-www-form-urlencoded", "rtf"})
"""Of `application/`, what a sender who does not know may call a text. The loader is chosen by the uri or the bytes then."""


class TypeUnclaimed(Misuse):
    code = "type_unclaimed"
    sentence = "No loader reads {what}; say what it is by the uri's extension (notes.md, report.pdf) or the Content-Type."


class DocumentUnknown(Misuse):
    code = "unknown_document"
    sentence = "There is no document {document!r} in collection {collection!r}."


class OriginalElsewhere(Misuse):
    code = "original_elsewhere"
    sentence = "The document {document!r} was not uploaded; its original is in source {owner!r}."


class CollectionsFull(Transient):
    code = "collections_full"
    sentence = "There are {collections_max} collections already (indexer.uploads.collections_max); use one of them, or raise the limit."


class NamespacesFull(CollectionsFull):
    code = "namespaces_full"
    sentence = "There are {namespaces_max} namespaces already (store.namespaces_max); use one of them, or raise the limit."


class UploadLost(Transient):
    """Tried again, since a folder may come back, then quarantined."""

    code = "upload_lost"
    sentence = "The uploaded bytes of this document are missing or damaged in the data folder; upload it again."


@dataclass(frozen=True, slots=True)
class FetchedUpload:
    """An upload's bytes: their hash proves them, and nothing was seen of a file."""

    content: bytes
    signature: None = None
    proven: bool = True


def blob_folder(folder: DataFolder, config: Config, clock: Clock) -> BlobFolder:
    return BlobFolder(folder.blobs, clock, config.indexer.document_bytes_max, config.indexer.uploads.free_bytes_min)


def uploads_root(home: CollectionId) -> Root:
    return Root(home, UPLOADS, SourceKind.UPLOADS, UPLOADS_PATH, "")


def fetch_upload(blobs: BlobFolder, leased: LeasedDocument, bytes_max: int) -> FetchedUpload:
    """The bytes that were uploaded, proven by their hash. Raises UploadLost, DocumentTooLarge (the limit was lowered since)."""
    wanted = leased.content_hash
    content = None if wanted is None else blobs.read(leased.document.namespace, wanted, bytes_max + 1)
    if content is None:
        raise UploadLost(document=leased.document.uri)
    if len(content) > bytes_max:
        raise DocumentTooLarge(bytes=len(content), bytes_max=bytes_max)
    if content_hash(content) != wanted:
        raise UploadLost(document=leased.document.uri)
    return FetchedUpload(content)


def check_type(content_type: str) -> None:
    """Raises TypeUnclaimed when the sender calls the bytes something that no loader reads."""
    named = content_type.partition(";")[0].strip().lower()
    kind, _, subtype = named.partition("/")
    if not named or type_of_declared(named) is not None or subtype in VAGUE_TYPES:
        return
    if not (kind == "application" and subtype.endswith(("+json", "+xml", "+yaml"))):
        raise TypeUnclaimed(what=f"the type {named[:80]!r}")


@dataclass(frozen=True, slots=True)
class Upload:
    """A document whose bytes are kept."""

    document: DocumentId
    content: ContentHash
    bytes: int
    metadata: Metadata | None
    acl: tuple[str, ...] | None
    media_type: str | None = None
    """What it was declared or found to be; None: its uri tells, or what is recorded of the same content."""
    declared: str = ""
    """The Content-Type that came with it."""


class Uploads:
    """Safe for threads. Every method may block: call it off an event loop."""

    def __init__(self, catalog: Catalog, folder: DataFolder, config: Config, clock: Clock, ring: Callable[[], None]) -> None:
        self.blobs = blob_folder(folder, config, clock)
        self.limits = config.indexer.uploads
        self._catalog = catalog
        self._config = config
        self._folder = folder
        self._clock = clock
        self._ring = ring
        self._furnishing = threading.Lock()

    def check(self, document: DocumentId, content_type: str) -> None:
        """Whether bytes for the document are worth receiving. Raises TypeUnclaimed, OwnedBySource."""
        check_type(content_type)
        status = self._catalog.status_of(document)
        if status is not None and status.root != UPLOADS and status.state not in (DocumentState.DELETED, DocumentState.IGNORED):
            raise OwnedBySource(document=document.uri, owner=status.root)

    def record(self, uploads: Sequence[Upload]) -> list[Version | EvercurrentError]:
        """Makes the uploads wanted, durably, in order; for each its version, or why it is not. One that is wanted already keeps its own.

        Raises what is wrong with all of them: UnknownCollection's makers, CollectionsFull, the catalog's errors.
        """
        checked = [self._checked(upload) for upload in uploads]
        sound = [upload for upload in checked if isinstance(upload, Upload)]
        for home in {upload.document.home for upload in sound}:
            self.furnish(home)
        versions = dict(zip(map(id, sound), self._recorded(sound), strict=True))
        self._ring()
        return [versions[id(upload)] if isinstance(upload, Upload) else upload for upload in checked]

    def delete(self, document: DocumentId) -> Version:
        """The deletion, committed; once more it changes nothing. Raises DocumentUnknown, OwnedBySource."""
        status = self._need(document)
        if status.state is DocumentState.DELETED:
            return status.wanted_version
        if status.root != UPLOADS:
            raise OwnedBySource(document=document.uri, owner=status.root)
        (version,) = self._catalog.record([Absent(document, Cause.DELETED, self._clock.now())])
        self._ring()
        return status.wanted_version if version is None else version

    def describe(self, document: DocumentId, metadata: Metadata | Unset | None, acl: tuple[str, ...] | Unset | None) -> Version:
        """The change of metadata and permissions, committed. Raises DocumentUnknown, MetadataRejected."""
        if not isinstance(metadata, Unset):
            check_patch_fields(metadata, self.fields(document.home))
        if isinstance(metadata, dict):
            self._refuse_repeated_served(document, metadata)
        (version,) = self._catalog.record([Described(document, metadata, acl)])
        if version is None:
            raise _unknown(document)
        self._ring()
        return version

    def original(self, document: DocumentId, principals: frozenset[str]) -> tuple[bytes, str]:
        """The bytes as they were uploaded last, with their media type. Raises DocumentUnknown, OriginalElsewhere, UploadLost."""
        status = self._need(document)
        if status.state is DocumentState.DELETED or not self._may_read(document, principals):
            raise _unknown(document)
        if status.root != UPLOADS:
            raise OriginalElsewhere(document=document.uri, owner=status.root)
        wanted = self._catalog.wanted_blob(document)
        content = None if wanted is None else self.blobs.read(document.namespace, wanted)
        if content is None:
            raise UploadLost(document=document.uri)
        return content, detect(document.uri, content) or "application/octet-stream"

    def sweep(self) -> int:
        """Removes bytes that no document wants any more; returns how many files."""
        return self.blobs.sweep(self._catalog.wanted_blobs, self.limits.grace_seconds)

    # --- waiting ---

    def settled_at(self, document: DocumentId, version: Version) -> Position | DocumentState | None:
        """Where the change log stood once this version (or a later one) was indexed; the state that keeps it from ever being so; None:
        not yet."""
        status = self._catalog.status_of(document)
        if status is None or status.state is DocumentState.DELETED:
            return DocumentState.DELETED
        if status.indexed_version >= version:
            return self._catalog.position()
        return status.state if status.state is not DocumentState.PENDING else None

    def is_answered(self, position: Position) -> bool:
        """Whether every living retriever answers with what was committed at `position`."""
        return all(beat.incarnation == position.incarnation and beat.seq >= position.seq for beat in beats(self._folder.retriever))

    # --- parts ---

    def _checked(self, upload: Upload) -> Upload | EvercurrentError:
        try:
            upload = self._typed(upload)
            self._check_declared(upload)
            self._refuse_repeated(upload)
        except EvercurrentError as error:
            return error
        return upload

    def _typed(self, upload: Upload) -> Upload:
        """With its media type, where the uri does not tell it. Raises TypeUnclaimed."""
        if claims(upload.document.uri):
            return upload
        content = self.blobs.read(upload.document.namespace, upload.content) or b""
        found = detect(upload.document.uri, content, upload.declared)
        if found is None:
            raise TypeUnclaimed(what=f"the bytes of {upload.document.uri.rpartition('/')[2][:80]!r}")
        return replace(upload, media_type=found)

    def _check_declared(self, upload: Upload) -> None:
        """An upload without metadata keeps what the document has; of a new one that is none."""
        if upload.metadata is not None:
            check_fields(upload.metadata, self.fields(upload.document.home))
        elif (status := self._catalog.status_of(upload.document)) is None or status.state is DocumentState.DELETED:
            check_fields({}, self.fields(upload.document.home))

    def fields(self, home: CollectionId) -> Fields:
        """What of a document's metadata is declared there."""
        table = self._config.indexer.collections.get(home.collection)
        return SHARED_FIELDS if table is None else declared_fields(table.fields)

    def _refuse_repeated(self, upload: Upload) -> None:
        if not upload.metadata or upload.bytes > REPEATABLE_BYTES_MAX:
            return
        content = self.blobs.read(upload.document.namespace, upload.content) or b""
        found = detect(upload.document.uri, content, upload.media_type)
        if found is None or BY_TYPE[found].is_risky:
            return  # read in the worker's sandbox alone
        try:
            text = loader_of(found)(content, found).text
        except Rejected:
            return  # the worker will say so; what has no text has none to repeat
        refuse_repeated(upload.metadata, text)

    def _refuse_repeated_served(self, document: DocumentId, metadata: Metadata) -> None:
        if self._catalog.collection(document.home) is None:
            return
        with self._catalog.snapshot() as snapshot:
            for visible in snapshot.documents(document.home, [document]):
                refuse_repeated(metadata, visible.text)

    def _recorded(self, uploads: Sequence[Upload]) -> list[Version | EvercurrentError]:
        now = self._clock.now()
        versions = self._catalog.record(
            [
                Present(
                    document=upload.document,
                    root=UPLOADS,
                    cause=Cause.UPLOADED,
                    noticed_at=now,
                    urgency=Urgency.URGENT,
                    content_hash=upload.content,
                    metadata=upload.metadata,
                    acl=upload.acl,
                    media_type=upload.media_type,
                )
                for upload in uploads
            ]
        )
        return [self._owned(upload) if version is None else version for upload, version in zip(uploads, versions, strict=True)]

    def _owned(self, upload: Upload) -> OwnedBySource:
        status = self._catalog.status_of(upload.document)
        return OwnedBySource(document=upload.document.uri, owner="another" if status is None else status.root)

    def furnish(self, home: CollectionId) -> None:
        """Creates the collection and its root for uploads on first use, and again after they were removed. Raises CollectionsFull."""
        with self._furnishing:
            if self._catalog.collection(home) is None:
                self._refuse_full(home)
                ensure_wanted(self._catalog, self._config, home)
            if all(root.name != UPLOADS for root in self._catalog.roots(home)):
                self._catalog.ensure_root(uploads_root(home))

    def _refuse_full(self, home: CollectionId) -> None:
        namespaces, namespaces_max = self._catalog.namespaces(), self._config.store.namespaces_max
        if home.namespace not in namespaces and len(namespaces) >= namespaces_max:
            log.warning("namespaces_full", namespaces_max=namespaces_max, refused=home.namespace)
            raise NamespacesFull(namespaces_max=namespaces_max, retry_after_seconds=60.0)
        if len(self._catalog.collections()) >= self.limits.collections_max:
            log.warning("collections_full", collections_max=self.limits.collections_max, refused=home.collection)
            raise CollectionsFull(collections_max=self.limits.collections_max, retry_after_seconds=60.0)

    def _need(self, document: DocumentId) -> DocumentStatus:
        status = self._catalog.status_of(document)
        if status is None:
            raise _unknown(document)
        return status

    def _may_read(self, document: DocumentId, principals: frozenset[str]) -> bool:
        """As searches do it: with ACLs in force a document without one is nobody's."""
        if not self._config.store.acl:
            return True
        try:
            with self._catalog.snapshot() as snapshot:
                acls = [visible.acl or () for visible in snapshot.documents(document.home, [document])]
        except UnknownCollection:
            return False
        return any("*" in acl or not principals.isdisjoint(acl) for acl in acls)


def _unknown(document: DocumentId) -> DocumentUnknown:
    return DocumentUnknown(document=document.uri, collection=document.collection)
