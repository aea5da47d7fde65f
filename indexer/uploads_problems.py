"""Which HTTP status tells an uploader what: the table, and the refusals that only the door knows."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from indexer.described import AclRejected
from indexer.multipart import MultipartWrong
from indexer.requests import ForeignOrigin, NameRejected, RequestBroken, RequestSlow, RequestTooLarge
from indexer.uploads import CollectionsFull, DocumentUnknown, OriginalElsewhere, TypeUnclaimed, UploadLost
from store.blobs.folder import BlobTooLarge, DiskNearlyFull
from store.errors import CatalogFull, EvercurrentError, MetadataRejected, Misuse, OwnedBySource, Transient, UriRejected


class UploadsBusy(Transient):
    code = "uploads_busy"
    sentence = "{at_once_max} uploads are being received already (indexer.uploads.at_once_max); try again in a second."


class NotServed(Misuse):
    code = "not_served"
    sentence = "{what} is not served by this version; nothing was changed."


_STATUSES: Mapping[HTTPStatus, tuple[type[EvercurrentError], ...]] = {
    HTTPStatus.BAD_REQUEST: (UriRejected, NameRejected, MultipartWrong, RequestBroken),
    HTTPStatus.FORBIDDEN: (ForeignOrigin,),
    HTTPStatus.NOT_FOUND: (DocumentUnknown, OriginalElsewhere),
    HTTPStatus.REQUEST_TIMEOUT: (RequestSlow,),
    HTTPStatus.CONFLICT: (OwnedBySource,),
    HTTPStatus.GONE: (UploadLost,),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (BlobTooLarge, RequestTooLarge),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: (TypeUnclaimed,),
    HTTPStatus.UNPROCESSABLE_ENTITY: (MetadataRejected, AclRejected, NotServed),
    HTTPStatus.TOO_MANY_REQUESTS: (CollectionsFull, UploadsBusy),
    HTTPStatus.INSUFFICIENT_STORAGE: (DiskNearlyFull, CatalogFull),
}


def status_for_upload(error: EvercurrentError) -> HTTPStatus | None:
    return next((status for status, kinds in _STATUSES.items() if isinstance(error, kinds)), None)
