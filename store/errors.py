"""The error tree: each branch answers what the caller does next.

Transient: retry, with backoff and jitter. Rejected: quarantine, never retried by itself. Superseded: drop
and count. Corrupt: stop writing and name the repair. Misuse: tell the person, change nothing.
Adapters translate foreign errors at their door with `raise … from`. Every class that can reach a person has
a `code`, a sentence, and an entry in deploy/RUNBOOK.md.
"""

from __future__ import annotations

from typing import ClassVar


class EvercurrentError(Exception):
    """Root of the tree. `context` holds the fields for logs and problem JSON; it never holds a secret or a document's text."""

    code: ClassVar[str] = "internal"
    sentence: ClassVar[str] = "Something went wrong inside Evercurrent."

    def __init__(self, message: str | None = None, **context: object) -> None:
        self.context = context
        super().__init__(message or self.sentence.format_map(_Lenient(context)))

    @property
    def message(self) -> str:
        return str(self.args[0])


class _Lenient(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


# --- what the caller does: the five branches ---------------------------------------------------------------


class Transient(EvercurrentError):
    """Retry later. `retry_after_seconds` is what the other side asked for, when it did."""

    code = "transient"
    sentence = "A service is not answering; it will be tried again."

    def __init__(self, message: str | None = None, *, retry_after_seconds: float | None = None, **context: object) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message, **context)


class Rejected(EvercurrentError):
    """The document cannot be indexed as it is. Quarantine it with the reason; a new version or `retry` is the way back."""

    code = "rejected"
    sentence = "The document cannot be indexed as it is."


class Superseded(EvercurrentError):
    """A newer version won. Drop the work and count it."""

    code = "superseded"
    sentence = "A newer version of the document won."


class Corrupt(EvercurrentError):
    """Stored bytes contradict themselves. Stop writing and name the repair."""

    code = "corrupt"
    sentence = "Stored data contradicts itself; run `evercurrent check`."


class Misuse(EvercurrentError):
    """The request itself is wrong. Nothing was changed; the message says what to do. Exit code 2, HTTP 4xx."""

    code = "misuse"
    sentence = "The request is wrong."


# --- documents ----------------------------------------------------------------------------------------------


class UriRejected(Misuse):
    code = "uri_rejected"
    sentence = "The uri {uri!r} is not acceptable: {reason}."


class TextUndecodable(Rejected):
    code = "text_undecodable"
    sentence = "The bytes are not text in any encoding that could be recognised; save the file as UTF-8."


class DocumentTooLarge(Rejected):
    code = "document_too_large"
    sentence = "The document has {bytes} bytes; the limit is {bytes_max}. Split it, or raise indexer.document_bytes_max."


class DocumentUnreadable(Rejected):
    code = "document_unreadable"
    sentence = "The file cannot be opened for reading: {reason}. Give the indexing user read access, then `evercurrent retry`."


class DocumentUnparsable(Rejected):
    code = "document_unparsable"
    sentence = "The file cannot be parsed as {media_type}: {reason}."


class LoaderLimitReached(Rejected):
    code = "loader_limit"
    sentence = "Reading the file as {media_type} was stopped: {reason}. If it is what it seems to be, {way}."


class LoaderCrashed(Rejected):
    code = "loader_crashed"
    sentence = "The reader of {media_type} crashed on this file, twice; save it anew or in another format, then `evercurrent retry`."


class LoaderUnavailable(Transient):
    code = "loader_unavailable"
    sentence = "The process that reads risky formats cannot be started: {reason}."


class MetadataRejected(Rejected):
    code = "metadata_rejected"
    sentence = "The document's metadata is not acceptable: {reason}."


class AttemptsExhausted(Rejected):
    code = "attempts_exhausted"
    sentence = "Gave up after {attempts} attempts; the last error was: {last}."


class SourceVanished(Transient):
    code = "source_vanished"
    sentence = "The file disappeared while it was being read."


class SourceUnreachable(Transient):
    code = "source_unreachable"
    sentence = "The file cannot be read now: {reason}."


class BucketUnreachable(SourceUnreachable):
    """It says nothing of its documents: they stay served, and nobody's attempts are counted for good."""

    code = "bucket_unreachable"
    sentence = "The bucket {url} cannot be read now: {reason}. Check the network, the credentials and indexer.buckets.options."


class BucketDriverMissing(Misuse):
    code = "bucket_driver_missing"
    sentence = "Buckets of {protocol}:// need a driver that is not installed: pip install {package}."


class SourceUnstable(Transient):
    code = "source_unstable"
    sentence = "The file kept changing while it was being read."


# --- catalog ------------------------------------------------------------------------------------------------


class CatalogBusy(Transient):
    code = "catalog_busy"
    sentence = "The catalog's write lock was not free within {seconds} seconds."


class CatalogFull(Transient):
    code = "catalog_full"
    sentence = "No space is left on the disk of {path}; free some, nothing was half written."


class CatalogUnwritable(Transient):
    code = "catalog_unwritable"
    sentence = "The data folder {path} cannot be written: {reason}."


class CatalogCorrupt(Corrupt):
    code = "catalog_corrupt"
    sentence = (
        "The catalog {path} is damaged: {reason}. Move the data folder away and sync again (it is rebuilt from the sources), "
        "or restore a copy."
    )


class CatalogNewer(Misuse):
    code = "catalog_newer"
    sentence = "The data folder {path} is of a newer Evercurrent (schema {found}, this one knows {known}). Upgrade, or use another --data."


class CursorLapsed(Superseded):
    """The change log no longer holds the rows after a cursor, or the catalog has another incarnation: rebuild."""

    code = "cursor_lapsed"
    sentence = "The change log no longer reaches back to {cursor}; rebuilding."


class UnknownCollection(Misuse):
    code = "unknown_collection"
    sentence = "There is no collection {collection!r} in namespace {namespace!r}."


class OwnedBySource(Misuse):
    code = "owned_by_source"
    sentence = "The document {document!r} belongs to source {owner!r}; change it there."


class VectorsMissing(Transient):
    """A commit refers to vectors that are neither staged nor recorded: plan again."""

    code = "vectors_missing"
    sentence = "Some vectors of the plan are gone; the document is planned again."


# --- services -----------------------------------------------------------------------------------------------


class BrokerUnavailable(Transient):
    code = "broker_unavailable"
    sentence = "The queue at {url} does not answer: {reason}."


class BrokerMissing(Misuse):
    code = "broker_missing"
    sentence = "No queue server was found. Install one (`apt-get install redis-server`) or set REDIS_URL."


class BrokerFolderTaken(Misuse):
    code = "broker_folder_taken"
    sentence = "Another queue server already uses {path}; stop it (pid {pid}) or choose another --data."


class EmbedderUnavailable(Transient):
    code = "embedder_unavailable"
    sentence = "The embedding provider {provider} does not answer: {reason}."


class EmbedderRateLimited(Transient):
    code = "embedder_rate_limited"
    sentence = "The embedding provider {provider} asks to slow down."


class EmbedderAnswerWrong(Transient):
    """The provider answered with the wrong count, dimension or non-finite values throughout: its fault, nothing is stored."""

    code = "embedder_answer_wrong"
    sentence = "The embedding provider {provider} answered wrongly: {reason}."


class EmbedderRefused(Misuse):
    code = "embedder_refused"
    sentence = "The embedding provider {provider} refuses the request: {reason}. Check indexer.embedding.model and api_key."


class InputRejected(Rejected):
    code = "input_rejected"
    sentence = "The embedding provider {provider} refuses this text: {reason}."


class SpaceMismatch(Misuse):
    code = "space_mismatch"
    sentence = "Collection {collection!r} holds vectors of {expected} dimensions, the query has {got}."


class ReplicaBehind(Transient):
    code = "replica_behind"
    sentence = "The reader could not apply the latest commits in time (at {at}, head {head})."


# --- doors --------------------------------------------------------------------------------------------------


class ConfigWrong(Misuse):
    code = "config_wrong"
    sentence = "{reason}"


class FolderMissing(Misuse):
    code = "folder_missing"
    sentence = "There is no file or folder {path!r}."


class PortTaken(Misuse):
    code = "port_taken"
    sentence = "Port {port} on {host} is in use; stop what uses it or set {setting} to another port (0 = any free one)."


class QueryRejected(Misuse):
    """A search request with a wrong part; `place` names it (`filter.$in`, `k`)."""

    code = "query_rejected"
    sentence = "{place}: {reason}"
