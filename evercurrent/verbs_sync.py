"""`init`, `sync`, `plan`: what a person starts with. Nothing heavy is imported before something turns out to be pending."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from evercurrent.call import Call
from evercurrent.command_line import Option, Paths
from evercurrent.say import counted, note, say, say_json, shown_path
from store.errors import ConfigWrong, FolderMissing, Misuse
from store.telemetry import is_logging, log_to_file

if TYPE_CHECKING:
    from evercurrent.crew import Crew
    from evercurrent.passes import Look, Mark, Progress
    from evercurrent.summary import Summary
    from evercurrent.targets import Target
    from store.config import Config
    from store.model import Instant, Root
    from store.ports import Catalog

DAY_SECONDS = 86_400
SWITCH_WAITS = (
    "The new build is not served yet: documents that are quarantined or held have vectors of the old one alone, and switching would "
    "lose them. `evercurrent quarantine` and `evercurrent sources` list them."
)


def init(call: Call, force: Annotated[bool, Option("--force", help="Replace the file that is there.")] = False) -> int:
    """Writes a commented configuration."""
    from evercurrent.config_text import commented_config
    from store.config import CONFIG_FILE

    path = call.config_file or Path(CONFIG_FILE)
    if path.exists() and not force:
        raise ConfigWrong(reason=f"{path} is there already; `evercurrent init --force` replaces it.")
    path.write_text(commented_config(), "utf-8")
    if call.as_json:
        say_json({"config": str(path.absolute())})
    else:
        say(f"Wrote {path}: every setting with its default, commented out.")
    return 0


def sync(
    call: Call,
    paths: Paths = None,
    plan: Annotated[Path | None, Option("--plan", help="Carry out this plan, unless the source moved since.")] = None,
) -> int:
    """Brings the index level with the folders: one pass, then done."""
    from evercurrent.passes import await_settled, look, mark, pending_of, record, summarize
    from evercurrent.targets import targets_of
    from indexer.wiring import ensure_wanted, probe_provider, rules_of, warn_of_unused_roots

    config = call.config
    given = paths_of(paths, plan)
    if not call.has_catalog:
        probe_buckets(call, targets_of(given, (), call.home))  # a mistyped PATH leaves no data folder behind
    with interruptible(), opened(call) as catalog:
        targets = targets_for(call, catalog, given)
        since = mark(catalog, call.clock)
        collection = ensure_wanted(catalog, config, call.home)
        targets = record_roots(catalog, targets)
        for warning in warn_of_unused_roots(config, [root.name for root in catalog.roots()]):
            note(warning)
        looks = look(catalog, targets, rules_of(config, call.folder), call.clock, config.indexer.buckets)
        if plan is not None:
            refuse_stale(plan, looks)
        if wants_work(looks) or collection.growing is not None:
            probe_provider(config, collection.builds[-1].space)
        conflicts = record(catalog, looks)
        if any(pending_of(catalog, call.home, targets)):
            with crew_for(call, catalog, targets) as crew, progress_bar() as progress:
                await_settled(catalog, call.home, targets, crew.rest, progress)
        if collection.growing is not None and not catalog.switch(call.home, call.clock.now()):
            note(SWITCH_WAITS)
        summary = summarize(catalog, call.home, looks, conflicts, since, call.clock)
        sweep(catalog, config, call.clock.now(), since)
    tell_held(looks)
    refuse_absent(targets)
    refuse_unreadable(looks)
    say_summary(call, summary)
    return 1 if summary.failures else 0


def plan(
    call: Call,
    paths: Paths = None,
    out: Annotated[Path | None, Option("--out", help="Keep the plan, for `sync --plan FILE`.")] = None,
) -> int:
    """Shows what sync would do; embeds nothing, writes nothing."""
    from evercurrent.passes import faults_of, look
    from indexer.wiring import rules_of

    with read(call) as catalog:
        targets = targets_for(call, catalog, paths or [])
        refuse_absent(targets)
        looks = look(catalog, targets, rules_of(call.config, call.folder), call.clock, call.config.indexer.buckets)
        refuse_unreadable(looks)
        forecast = forecast_json(call, catalog, looks)
    forecast["documents"]["failed"] += len(faults_of(looks))
    if out is not None:
        out.write_text(json.dumps({"v": 1, "paths": paths or [], "intents": fingerprints(looks)}, indent=1) + "\n", "utf-8")
    if call.as_json:
        say_json(forecast)
    else:
        for line in forecast_lines(forecast):
            say(line)
    return 0


VERBS = {"init": init, "sync": sync, "plan": plan}
HIDDEN: frozenset[str] = frozenset()


# --- what the verbs share ---------------------------------------------------------------------------------------


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends what runs inside as Ctrl-C does: in order."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def opened(call: Call) -> Iterator[Catalog]:
    catalog = call.open_catalog()
    if not is_logging():
        log_to_file(call.folder.log("command"), "command")
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def read(call: Call) -> Iterator[Catalog]:
    catalog = call.read_catalog()
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def read_index(call: Call) -> Iterator[Catalog]:
    """The catalog for looking at an index. Where there is none, a person who forgot --data is told."""
    tell_no_index(call)
    with read(call) as catalog:
        yield catalog


def tell_no_index(call: Call) -> None:
    if not call.has_catalog:
        note(f'There is no index in {shown_path(call.folder.path)} yet: run "evercurrent sync PATH", or name another --data.')


def targets_for(call: Call, catalog: Catalog, paths: Sequence[str]) -> list[Target]:
    from evercurrent.targets import targets_of

    def is_known(root: Root, uri: str) -> bool:
        return any(seen.uri == uri or seen.uri.startswith(uri + "/") for seen in catalog.sightings(root, uri))

    known = catalog.roots(call.home) if catalog.collection(call.home) is not None else []
    targets = targets_of(paths, known, call.home, is_known)
    probe_buckets(call, targets)
    return targets


def probe_buckets(call: Call, targets: Sequence[Target]) -> None:
    """A new bucket is asked for before it is recorded: a mistyped name or a missing driver changes nothing."""
    from store.model import SourceKind

    for root in [target.root for target in targets if target.is_new and target.root.kind is SourceKind.BUCKET]:
        from indexer.sources.places import bucket_of

        if not bucket_of(root, None, call.config.indexer.buckets).probe():
            raise FolderMissing(path=root.path)


def sweep(catalog: Catalog, config: Config, now: Instant, since: Mark) -> None:
    """What an intake does by the clock a pass does at its end, when it changed anything: dead rows leave after the retention."""
    if catalog.position() != since.position:
        catalog.sweep(now, config.store.retention_days * DAY_SECONDS, config.workers.lease_seconds)


def wants_work(looks: Sequence[Look]) -> bool:
    """Whether anything would have to be read, and perhaps embedded."""
    from store.model import Present

    return any(isinstance(intent, Present) for seen in looks for intent in seen.found.reconciled.intents)


def record_roots(catalog: Catalog, targets: Sequence[Target]) -> list[Target]:
    """The targets with their roots recorded."""
    from dataclasses import replace

    return [replace(target, root=catalog.ensure_root(target.root)) if target.is_new else target for target in targets]


def refuse_absent(targets: Sequence[Target]) -> None:
    """A known root that is not there now is no deletion: its documents were held, and the person is told."""
    for target in targets:
        if not target.is_there and not target.scope:
            raise FolderMissing(path=target.root.path)


class FolderUnreadable(Misuse):
    code = "folder_unreadable"
    sentence = "The folder {path!r} cannot be looked into: {reason}. Give the indexing user access to it."


def refuse_unreadable(looks: Sequence[Look]) -> None:
    """A root that cannot be looked into is no empty one. Places below it are failures of the pass."""
    refuse_unlisted(looks)
    for seen in looks:
        for fault in seen.found.scan.faults:
            if not fault.uri:
                raise FolderUnreadable(path=seen.target.root.path, reason=fault.reason)


def refuse_unlisted(looks: Sequence[Look]) -> None:
    """A bucket that is gone, or does not answer, is no empty one either: its documents stay as they are."""
    from indexer.guard import RootState
    from store.errors import BucketUnreachable
    from store.model import SourceKind

    for seen in looks:
        root, scan = seen.target.root, seen.found.scan
        if root.kind is SourceKind.BUCKET and scan.root_state is RootState.ABSENT:
            if scan.faults:
                raise BucketUnreachable(url=root.path, reason=scan.faults[0].reason)
            raise FolderMissing(path=root.path)


def crew_for(call: Call, catalog: Catalog, targets: Sequence[Target]) -> Crew:
    """Who does the work of a pass over the targets, as long as waiting is any use."""
    from evercurrent.crew import Crew
    from evercurrent.passes import pending_of
    from evercurrent.stuck import Patience

    patience = Patience(call.folder.path, lambda: pending_of(catalog, call.home, targets), call.clock)
    return Crew(call.folder, call.config, role_arguments(call), catalog, call.clock, patience)


def role_arguments(call: Call) -> tuple[str, ...]:
    """The options that roles started from here get."""
    config = () if call.config_file is None else ("--config", str(call.config_file.absolute()))
    return ("--data", str(call.folder.path), *config)


# --- plans kept in a file ---------------------------------------------------------------------------------------


def paths_of(paths: Sequence[str] | None, plan: Path | None) -> list[str]:
    """The PATHs of the command line, else those of the plan."""
    if plan is None or paths:
        return list(paths or [])
    return [str(path) for path in _plan_words(plan)["paths"]]


def refuse_stale(plan: Path, looks: Sequence[Look]) -> None:
    if _plan_words(plan)["intents"] != fingerprints(looks):
        raise Misuse(f"The source moved since {plan} was made; run `evercurrent plan` again.")


def fingerprints(looks: Sequence[Look]) -> list[list[Any]]:
    """What a pass would record, without times: equal for equal sources over an equal ledger."""
    rows = []
    for seen in looks:
        for intent in seen.found.reconciled.intents:
            signature = getattr(intent, "signature", None)
            stat = None if signature is None else [signature.bytes, signature.mtime_ns, signature.inode, signature.device]
            rows.append([type(intent).__name__, intent.document.uri, stat])
    return sorted(rows, key=lambda row: (row[0], row[1]))


def _plan_words(plan: Path) -> dict[str, Any]:
    try:
        words: dict[str, Any] = json.loads(plan.read_text("utf-8"))
        if words["v"] != 1:
            raise ValueError(f"version {words['v']}")
    except FileNotFoundError as error:
        raise FolderMissing(path=str(plan)) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Misuse(f"{plan} is no plan of this Evercurrent ({error}).") from error
    return words


# --- answers ----------------------------------------------------------------------------------------------------


def say_summary(call: Call, summary: Summary) -> None:
    from evercurrent.summary import people_lines

    if call.as_json:
        say_json(summary.as_json())
        return
    for line in people_lines(summary):
        say(line)


def tell_held(looks: Sequence[Look]) -> None:
    """A deletion that is not believed, and a name that is no document's, are nobody's failure and must not go unseen."""
    for seen in looks:
        if refusals := seen.found.scan.refusals:
            note(passed_over(len(refusals), refusals[0].uri, refusals[0].reason))
        hold = seen.found.reconciled.held
        if hold is not None:
            note(held_words(seen.found.reconciled.counts.held, hold.reason))


def passed_over(count: int, first: str, reason: str) -> str:
    if count == 1:
        return f"1 name was passed over, {first!r}: {reason.rstrip('.')}."
    return f"{count} names were passed over, the first is {first!r}: {reason.rstrip('.')}."


def held_words(count: int, reason: str) -> str:
    are, them = ("document is held and stays", "it") if count == 1 else ("documents are held and stay", "them")
    return f"{count} {are} served: {reason.rstrip('.')}. `evercurrent sources` lists {them}."


def forecast_json(call: Call, catalog: Catalog, looks: Sequence[Look]) -> dict[str, Any]:
    from evercurrent.passes import still_failed, still_pending, unchanged_forecast
    from indexer.wiring import planned_builds

    table = call.config.indexer.embedding
    collection = catalog.collection(call.home)
    builds = planned_builds(call.config, collection)
    failed = frozenset() if collection is None else still_failed(catalog, call.home, looks)
    pending = frozenset() if collection is None else still_pending(catalog, call.home, looks)
    regrows = collection is not None and builds != collection.builds
    if not regrows and not pending and not wants_work(looks):
        return unchanged_forecast(catalog, looks, collection, len(failed), table.currency)
    from evercurrent.planning import forecast
    from indexer.fields import own_fields
    from indexer.sandbox.parent import Sandbox

    bytes_max = call.config.indexer.document_bytes_max
    buckets = call.config.indexer.buckets
    declared = call.config.indexer.collections.get(call.home.collection)
    fields = {} if declared is None else own_fields(declared.fields)
    with Sandbox(call.config.indexer.load, call.clock) as sandbox:
        told = forecast(catalog, looks, builds, collection, table, call.clock, bytes_max, failed, pending, buckets, sandbox.load, fields)
    return told.as_json()


def forecast_lines(forecast: dict[str, Any]) -> list[str]:
    documents = [f"{count} {name}" for name, count in forecast["documents"].items() if count]
    chunks, tokens = forecast["chunks"], counted(forecast["tokens"], "token")
    cost = f", {forecast['cost']:g} {forecast['currency']}" if forecast["cost"] else ""
    return [
        "documents: " + (", ".join(documents) or "none"),
        f"chunks: {chunks['added']} to add, {chunks['kept']} to keep, {chunks['moved']} to move, {chunks['dropped']} to drop",
        f"to embed: {counted(forecast['embedded'], 'text')}, about {tokens}{cost}, about {forecast['seconds_estimate']:g} s",
    ]


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on stderr for people; a line now and then is not worth a log."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TextColumn("documents"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("indexing", total=None)
        yield lambda done, everything: bar.update(task, completed=done, total=everything)
