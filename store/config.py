"""Configuration: `evercurrent.toml`, a table a room, every key also an environment variable.

Order: environment (`EVERCURRENT_INDEXER__EMBEDDING__PROVIDER`), then the file, then the defaults here. An unknown key is
refused with the nearest known name. Reading the configuration opens nothing and starts nothing.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from store.errors import ConfigWrong

CONFIG_FILE = "evercurrent.toml"
ENVIRONMENT_PREFIX = "EVERCURRENT_"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreTable(_Table):
    redis_url: SecretStr | None = Field(None, description="Queue server; empty: REDIS_URL, else the embedded one.")
    acl: bool = Field(False, description="true: a document without an ACL is nobody's.")
    retention_days: float = Field(7, ge=0, description="How long dead versions stay readable with as-of.")
    namespaces_max: int = Field(1000, ge=1, description="Namespaces up to which an upload may begin another.")
    write_lock_seconds_max: float = Field(30, gt=0, description="Patience for the catalog's write lock.")


class WatchTable(_Table):
    mode: Literal["auto", "native", "polling"] = Field("auto", description="Where file events come from.")
    settle_seconds: float = Field(0.3, ge=0, description="Quiet time before an unfinished write is indexed.")
    settle_seconds_max: float = Field(5, ge=0, description="A file that never settles is indexed at least this often.")
    poll_seconds: float = Field(2, gt=0, description="Interval of the polling watcher.")
    reconcile_seconds: float = Field(300, ge=0, description="Interval of the full comparison with the source; 0: at start and on overflow.")
    inbox_events_max: int = Field(65_536, ge=64, description="Events held before an overflow forces a reconcile.")


class BucketsTable(_Table):
    poll_seconds: float = Field(60, gt=0, description="Interval at which a bucket is listed.")
    objects_max: int = Field(1_000_000, ge=1, description="A bucket that lists more objects is not compared, and says so.")
    options: dict[str, dict[str, Any]] = Field(
        {}, repr=False, description="What a bucket's driver is given, by protocol: {s3 = {endpoint_url = ...}}. Secrets by environment."
    )


Strategy = Literal["auto", "text", "markdown", "table", "sentence", "recursive", "fixed", "whole"]


class SplitTable(_Table):
    strategy: Strategy = Field("auto", description="How text is cut.")
    chunk_chars_max: int = Field(1200, ge=16, description="Longest chunk, in characters.")
    chunk_chars_min: int | None = Field(None, ge=0, description="Shortest chunk where there is a choice; empty: a quarter of the maximum.")
    overlap_chars: int = Field(0, ge=0, description="Characters repeated between neighbours, in whole sentences: at most.")

    @property
    def chars_min(self) -> int:
        return self.chunk_chars_max // 4 if self.chunk_chars_min is None else self.chunk_chars_min

    @model_validator(mode="after")
    def _limits_fit(self) -> SplitTable:
        if self.chars_min * 2 > self.chunk_chars_max:
            raise ValueError("chunk_chars_min may be at most half of chunk_chars_max")
        if self.overlap_chars * 2 > self.chunk_chars_max:
            raise ValueError("overlap_chars may be at most half of chunk_chars_max")
        return self


class EmbeddingTable(_Table):
    provider: Literal["local", "openai", "hashing"] = Field(
        "local",
        description="local (offline, English and Chinese), openai (any endpoint of that protocol), hashing (for tests).",
    )
    base_url: str | None = Field(None, description="Endpoint of the openai provider.")
    model: str | None = Field(None, description="Model name of the openai provider.")
    api_key: SecretStr | None = Field(None, description="Key of the openai provider; better given by environment.")
    dimensions: int | None = Field(None, ge=1, description="Dimensions to ask for, where the model offers a choice.")
    batch_texts_max: int = Field(64, ge=1, le=2048, description="Texts a call.")
    document_prefix: str = Field("", description="Put before each chunk's text when it is embedded.")
    query_prefix: str = Field("", description="Put before each query when it is embedded.")
    timeout_seconds: float = Field(30, gt=0, description="Patience for one call.")
    price_per_million_tokens: float = Field(0, ge=0, description="For the cost that `plan` shows.")
    currency: str = Field("USD", description="Of that price.")


class IntakeHttpTable(_Table):
    host: str = Field("127.0.0.1", description="Address of the intake server.")
    port: int = Field(8100, ge=0, le=65535, description="Port of the intake server; 0: any free one.")


class UploadsTable(_Table):
    """A document's size is limited by `indexer.document_bytes_max`."""

    files_max: int = Field(1000, ge=1, description="Files in one multipart request.")
    at_once_max: int = Field(32, ge=1, description="Uploads received at the same time; more are asked to come back.")
    free_bytes_min: int = Field(
        256 * 1024 * 1024, ge=0, description="Uploads are refused while the data folder's disk has less free space."
    )
    collections_max: int = Field(1000, ge=1, description="Collections, of all namespaces, up to which uploads may create another.")
    grace_seconds: float = Field(3600, ge=0, description="How long uploaded bytes that no document wants any more are kept.")


class LoadTable(_Table):
    """Limits of one document of a risky format: what its parser may use before it is stopped."""

    seconds_max: float = Field(60, gt=0, description="Patience for reading one document of a risky format (PDF, office, mail, books).")
    memory_bytes_max: int = Field(1 << 30, ge=128 << 20, description="Memory of the process that reads risky formats.")
    text_chars_max: int = Field(64 << 20, ge=1, description="Longest text that such a document may yield.")
    unpacked_bytes_max: int = Field(512 << 20, ge=1, description="What a ZIP-based document may unpack to.")


class FieldTable(_Table):
    """A declared key of a collection's metadata."""

    type: Literal["string", "number", "boolean", "date", "strings"] = Field("string", description="What its values are.")
    values: tuple[str, ...] = Field((), description="The only values allowed; empty: any.")
    required: bool = Field(False, description="Whether an upload must have it.")


class CollectionTable(_Table):
    fields: dict[str, FieldTable] = Field({}, description="Declared keys of its documents' metadata, by name.")


class RootSplitTable(_Table):
    """What a root's documents are cut by where it differs from `indexer.split`."""

    strategy: Strategy | None = Field(None, description="How text is cut.")
    chunk_chars_max: int | None = Field(None, ge=16, description="Longest chunk, in characters.")
    chunk_chars_min: int | None = Field(None, ge=0, description="Shortest chunk where there is a choice.")
    overlap_chars: int | None = Field(None, ge=0, description="Characters repeated between neighbours, in whole sentences: at most.")


class RootTable(_Table):
    include: tuple[str, ...] = Field((), description="Patterns (gitignore syntax) of what is indexed, beside those of `indexer`.")
    exclude: tuple[str, ...] = Field((), description="Patterns (gitignore syntax) of what is ignored, beside those of `indexer`.")
    split: RootSplitTable = RootSplitTable()


class IndexerTable(_Table):
    include: tuple[str, ...] = Field((), description="Patterns (gitignore syntax) of what is indexed; empty: everything claimed.")
    exclude: tuple[str, ...] = Field((), description="Patterns (gitignore syntax) of what is ignored.")
    document_bytes_max: int = Field(64 * 1024 * 1024, ge=1, description="Larger documents are quarantined.")
    job_documents_max: int = Field(64, ge=1, le=1024, description="Documents a job under backlog.")
    queue_jobs_ahead: int = Field(4, ge=1, description="Jobs kept in the queue a worker.")
    watch: WatchTable = WatchTable()
    load: LoadTable = LoadTable()
    split: SplitTable = SplitTable()
    embedding: EmbeddingTable = EmbeddingTable()
    http: IntakeHttpTable = IntakeHttpTable()
    uploads: UploadsTable = UploadsTable()
    buckets: BucketsTable = BucketsTable()
    collections: dict[str, CollectionTable] = Field({}, description="Collections by name, in every namespace.")
    roots: dict[str, RootTable] = Field({}, description="Roots by name; the first one is called main.")

    def split_of(self, root: str) -> SplitTable:
        """What documents of a root are cut by. Raises ValueError when its own settings do not fit the others."""
        table = self.roots.get(root)
        own = {} if table is None else table.split.model_dump(exclude_none=True)
        return SplitTable(**{**self.split.model_dump(), **own}) if own else self.split

    @model_validator(mode="after")
    def _roots_fit(self) -> IndexerTable:
        for root in self.roots:
            self.split_of(root)
        return self


class WorkersTable(_Table):
    count: int = Field(2, ge=1, le=256, description="Worker processes.")
    lease_seconds: float = Field(10, gt=0, description="A lease whose worker is silent this long is free.")
    attempts_max: int = Field(6, ge=1, description="Attempts before a document is quarantined.")


class RetrieverHttpTable(_Table):
    host: str = Field("127.0.0.1", description="Address of the retriever.")
    port: int = Field(8200, ge=0, le=65535, description="Port of the retriever; 0: any free one.")


class RetrieverTable(_Table):
    http: RetrieverHttpTable = RetrieverHttpTable()
    dense_weight: float = Field(0.7, ge=0, le=1, description="Share of the dense score in hybrid search.")
    fetch_k: int = Field(100, ge=1, le=10_000, description="Candidates that each side hands to the fusion.")
    k_max: int = Field(1000, ge=1, description="Largest k of a query.")
    behind_seconds_max: float = Field(5, gt=0, description="Patience for the replica to reach the head.")


class DashboardTable(_Table):
    port: int = Field(8300, ge=0, le=65535, description="Port of the queue dashboard; 0: any free one.")
    enabled: bool = Field(True, description="Whether `up` serves the queue dashboard.")


class FrontTable(_Table):
    dashboard: DashboardTable = DashboardTable()


class Config(BaseSettings):
    """The whole configuration, checked. Frozen: a change is a restart."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, env_ignore_empty=True
    )

    store: StoreTable = StoreTable()
    indexer: IndexerTable = IndexerTable()
    workers: WorkersTable = WorkersTable()
    retriever: RetrieverTable = RetrieverTable()
    evercurrent: FrontTable = FrontTable()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


def load_config(path: Path | None = None) -> Config:
    """The configuration of `path`, or of `evercurrent.toml` in the working directory when it is there.

    Raises ConfigWrong: the file is missing or no TOML, a key is unknown (with the nearest name), a value does not fit.
    """
    tables = _tables_of_file(path)
    _refuse_unknown(tables, "")
    _refuse_unknown(_tables_of_environment(), "")
    try:
        return Config(**tables)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigWrong(reason=f"{place}: {first['msg']}", key=place) from error
    except ValueError as error:
        raise ConfigWrong(reason=str(error)) from error


def _tables_of_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        path = Path(CONFIG_FILE)
        if not path.exists():
            return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ConfigWrong(reason=f"There is no configuration file {str(path)!r}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigWrong(reason=f"{path}: {error}") from error


_ENVIRONMENT_OF_THE_COMMAND = frozenset({"EVERCURRENT_DATA", "EVERCURRENT_CONFIG"})


def _tables_of_environment() -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for name in os.environ:
        if not name.startswith(ENVIRONMENT_PREFIX) or name in _ENVIRONMENT_OF_THE_COMMAND:
            continue
        *parents, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        table = tables
        for parent in parents:
            table = table[parent] = table.get(parent) or {}
        table[key] = table.get(key)
    return tables


NAMED = "NAME"
"""Stands in a key for what a user may call it: `indexer.collections.NAME.fields.NAME.type`."""


def known_keys(model: type[BaseModel] = Config, prefix: str = "") -> list[str]:
    """Every key with its table, dotted: `indexer.split.chunk_chars_max`."""
    keys: list[str] = []
    for name, spec in model.model_fields.items():
        table, is_named = table_of(spec.annotation)
        if table is None:
            keys.append(prefix + name)
        else:
            keys += known_keys(table, f"{prefix}{name}.{NAMED}." if is_named else f"{prefix}{name}.")
    return keys


def table_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The table that a key leads to, and whether it leads to many of them by name; (None, False) for a setting."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    of = get_args(annotation)
    if len(of) == 2 and isinstance(of[1], type) and issubclass(of[1], BaseModel):
        return of[1], True
    return None, False


def _refuse_unknown(tables: dict[str, Any], prefix: str, model: type[BaseModel] = Config) -> None:
    for name, value in tables.items():
        dotted = prefix + name
        spec = model.model_fields.get(name)
        if spec is None:
            raise ConfigWrong(reason=f"Unknown configuration key {dotted!r}; did you mean {_nearest(dotted)!r}?", key=dotted)
        table, is_named = table_of(spec.annotation)
        if table is None or value is None:
            continue
        if not isinstance(value, dict) or (is_named and not all(isinstance(one, dict) for one in value.values())):
            raise ConfigWrong(reason=f"{dotted!r} is a table of {'tables by name' if is_named else 'settings'}, not a setting.", key=dotted)
        for place, inner in ({f"{dotted}.{key}.": one for key, one in value.items()} if is_named else {f"{dotted}.": value}).items():
            _refuse_unknown(inner, place, table)


def _nearest(dotted: str) -> str:
    keys = known_keys()
    folders = {key.rsplit(".", depth)[0] for key in keys for depth in range(1, key.count(".") + 1)}
    return difflib.get_close_matches(dotted, [*keys, *folders], n=1, cutoff=0.0)[0]
