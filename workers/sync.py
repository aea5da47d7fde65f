"""One job, as DESIGN.md walks it: lease, fetch, load, cut, identify, plan, embed, commit.

Level-triggered: the job carries names, and looks at the source as it is now. Whatever happens to one document, the others of the
job land. Running a job twice is harmless: the second finds no work or changes nothing.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from indexer.embedding.port import Embedder
from indexer.fields import Fields
from indexer.load.registry import LoadAny, load
from store.clock import Clock
from store.errors import Corrupt, EvercurrentError, SourceVanished, Superseded, Transient
from store.model import (
    Build,
    BuildId,
    Cause,
    CollectionId,
    Committed,
    DocumentId,
    Failed,
    Held,
    Indexed,
    InputHash,
    Instant,
    LeasedDocument,
    Outcome,
    Recorded,
    Refusal,
    Refused,
    SessionId,
    Space,
    Unchanged,
    Vanished,
    Verdict,
)
from store.ports import Catalog, Tally
from workers.draft import NO_FIELDS, Draft, Fetch, Premises, draft_document, indexed_of
from workers.embed import Embedded, embed_missing, embedding_tallies, failure_of, spaces_of
from workers.entry import DocumentsQuarantined
from workers.retry import Quarantine, RetryAt, decide
from workers.stages import Stage, StageTimes

log = structlog.get_logger()

WAVE_TEXTS_MAX = 512
"""Chunks born in one commit, unless one document has more."""
ATTEMPTS_IN_A_JOB_MAX = 3
"""How often a document whose records changed meanwhile is planned again at once, before it goes back to the feeder."""


@dataclass(slots=True)
class Bench:
    """What a worker process works with: opened once, kept warm."""

    catalog: Catalog
    clock: Clock
    session_id: SessionId
    fetch: Fetch
    is_gone: Callable[[LeasedDocument], bool]
    """Whether a file that cannot be found may be believed to be deleted."""
    embedder_of: Callable[[Space], Embedder]
    draw: Callable[[], float]
    lease_seconds: float
    attempts_max: int
    batch_texts_max: int
    committed: Callable[[], None] = lambda: None
    """Called after each commit: rings the bell."""
    leave: Callable[[], None] = lambda: None
    """Ends this worker process after the job: another one starts, and its session's leases are free."""
    load: LoadAny = load
    """Reads a document's bytes: a sandbox's door, or the loaders themselves."""
    fields_of: Callable[[CollectionId], Fields] = lambda _home: NO_FIELDS
    """What a collection declares of its documents' metadata."""
    passes_through: tuple[type[BaseException], ...] = ()
    """Exceptions that are the job's, not a document's: the queue's time limit."""


@dataclass(slots=True)
class Report:
    """What became of a job's documents."""

    outcomes: list[tuple[Outcome, Verdict]] = field(default_factory=list)
    not_leased: int = 0

    @property
    def quarantined(self) -> list[Failed]:
        return [
            outcome
            for outcome, verdict in self.outcomes
            if isinstance(outcome, Failed) and outcome.retry_at is None and isinstance(verdict, Committed)
        ]


def run_job(bench: Bench, documents: Sequence[DocumentId]) -> None:
    """What RQ calls. Raises DocumentsQuarantined at the end when some were, so that the dashboard shows the job as failed."""
    times = StageTimes(bench.clock)
    outcome = "broken"
    try:
        report = sync_documents(bench, documents, times)
        outcome = "quarantined" if report.quarantined else "done"
    finally:
        bench.catalog.add_tallies([Tally("evercurrent_jobs_total", (("outcome", outcome),), 1), *times.tallies()])
    if report.quarantined:
        first = report.quarantined[0]
        raise DocumentsQuarantined(count=len(report.quarantined), documents=len(documents), first=f"{first.document.uri}: {first.message}")


def sync_documents(bench: Bench, documents: Sequence[DocumentId], times: StageTimes | None = None) -> Report:
    """Brings the documents level with their source, as far as they still want work and nobody else holds them."""
    times = times or StageTimes(bench.clock)
    report = Report()
    todo = list(documents)
    for _ in range(ATTEMPTS_IN_A_JOB_MAX):
        with times.timed(Stage.LEASE):
            leased = bench.catalog.lease(todo, bench.session_id, bench.clock.now(), bench.lease_seconds)
        report.not_leased += len(todo) - len(leased)
        if not leased:
            break
        settled: list[tuple[Outcome, Verdict]] = []
        try:
            for wave in waves_of(drafts_of(bench, leased, times)):
                settled += settle(bench, wave, times)
        except BaseException as error:
            done = {outcome.document for outcome, _ in settled}
            give_back(bench, [document for document in leased if document.document not in done], error)
            raise
        report.outcomes += settled
        todo = [outcome.document for outcome, verdict in settled if plan_again(verdict)]
        if not todo:
            break
    return report


def waves_of(drafts: Sequence[Outcome | Draft]) -> list[list[Outcome | Draft]]:
    """What is committed together: small documents first, in transactions of bounded size, so that none waits for a large neighbour."""
    waves: list[list[Outcome | Draft]] = [[]]
    texts = 0
    for draft in sorted(drafts, key=texts_of):
        if waves[-1] and texts + texts_of(draft) > WAVE_TEXTS_MAX:
            waves.append([])
            texts = 0
        waves[-1].append(draft)
        texts += texts_of(draft)
    return waves


def texts_of(draft: Outcome | Draft) -> int:
    """Chunks that are born with it: what may have to be embedded."""
    return sum(len(drafted.plan.born) for drafted in draft.cuts) if isinstance(draft, Draft) else 0


def settle(bench: Bench, wave: Sequence[Outcome | Draft], times: StageTimes) -> list[tuple[Outcome, Verdict]]:
    """Embeds what the wave lacks and commits it: one outcome a document."""
    with times.timed(Stage.EMBED):
        embedded = embed_drafts(bench, [draft for draft in wave if isinstance(draft, Draft)])
    outcomes = [draft for draft in wave if not isinstance(draft, Draft)] + embedded
    with times.timed(Stage.COMMIT):
        verdicts = bench.catalog.commit(bench.session_id, outcomes, bench.clock.now())
    bench.catalog.record(holds_of(outcomes, verdicts, bench.clock.now()))
    bench.committed()
    log_outcomes(outcomes, verdicts)
    return list(zip(outcomes, verdicts, strict=True))


def holds_of(outcomes: Sequence[Outcome], verdicts: Sequence[Verdict], now: Instant) -> list[Held]:
    """Files that were not found although nobody saw them deleted: held and served until a scan decides."""
    return [
        Held(outcome.document, now, "its file was not found when it was to be read, and nobody saw it deleted")
        for outcome, verdict in zip(outcomes, verdicts, strict=True)
        if isinstance(outcome, Failed) and outcome.code == SourceVanished.code and isinstance(verdict, Committed)
    ]


def plan_again(verdict: Verdict) -> bool:
    return isinstance(verdict, Refused) and verdict.reason in (Refusal.RECORDS_CHANGED, Refusal.VECTORS_MISSING)


def give_back(bench: Bench, leased: Sequence[LeasedDocument], error: BaseException) -> None:
    """A job that breaks leaves no document leased: each is tried again later, or set aside when it was tried often enough.

    When not even that can be recorded the process leaves, which frees its leases.
    """
    log.error("job_gave_back", documents=len(leased), error=type(error).__name__, reason=str(error)[:200])
    try:
        if isinstance(error, Corrupt):
            raise error
        reason = error if isinstance(error, Transient) else InternalFault(kind=type(error).__name__)
        bench.catalog.commit(bench.session_id, [failed(bench, document, reason) for document in leased], bench.clock.now())
    except EvercurrentError as second:
        log.error("worker_leaves", code=second.code, reason=second.message)
        bench.leave()


def drafts_of(bench: Bench, leased: Sequence[LeasedDocument], times: StageTimes) -> list[Outcome | Draft]:
    """A draft or an outcome for each leased document: whatever one does, the others get theirs."""
    builds = {home: builds_of(bench, home) for home in {document.document.home for document in leased}}
    premises = premises_of(bench, leased, builds)
    return [draft_or_outcome(bench, document, builds[document.document.home], premises[document.document], times) for document in leased]


def builds_of(bench: Bench, home: CollectionId) -> tuple[Build, ...]:
    """None when the collection was dropped since the lease."""
    collection = bench.catalog.collection(home)
    return () if collection is None else collection.builds


def premises_of(
    bench: Bench, leased: Sequence[LeasedDocument], builds: dict[CollectionId, tuple[Build, ...]]
) -> dict[DocumentId, Premises]:
    """What is recorded of each leased document and of what it was moved from, by build: one read for the job."""
    asked: list[tuple[DocumentId, Build]] = []
    for document in leased:
        for build in builds[document.document.home]:
            asked.append((document.document, build))
            if document.moved_from is not None:
                asked.append((document.moved_from, build))
    recorded: defaultdict[DocumentId, dict[BuildId, Recorded]] = defaultdict(dict)
    for (name, build), found in zip(asked, bench.catalog.recorded(asked), strict=True):
        recorded[name][build.build_id] = found
    return {
        document.document: Premises(recorded[document.document], recorded[document.moved_from] if document.moved_from else {})
        for document in leased
    }


def draft_or_outcome(
    bench: Bench, leased: LeasedDocument, builds: Sequence[Build], premises: Premises, times: StageTimes
) -> Draft | Outcome:
    if not builds:
        return Vanished(leased.document, leased.wanted_version, leased.fence, leased.noticed_at)  # refused: nothing is there to leave
    try:
        with times.timed(Stage.FETCH):
            fetched = bench.fetch(leased)
        with times.timed(Stage.DRAFT):
            return draft_document(leased, fetched, builds, premises, bench.load, bench.fields_of(leased.document.home))
    except bench.passes_through:
        raise
    except SourceVanished as error:
        if leased.cause is not Cause.RECUT and bench.is_gone(leased):
            return Vanished(leased.document, leased.wanted_version, leased.fence, leased.noticed_at)
        return failed(bench, leased, error)
    except (Superseded, Corrupt):
        raise
    except EvercurrentError as error:
        return failed(bench, leased, error)
    except Exception as error:  # noqa: BLE001 - one document's surprise is not its neighbours'
        return failed(bench, leased, surprise(leased.document, error))


class InternalFault(Transient):
    """An exception nobody foresaw: a fault of ours, not of the document. Tried again, then quarantined."""

    code = "internal"
    sentence = "An internal error occurred ({kind}); the log has the details. Please report it."


def surprise(document: DocumentId, error: Exception) -> InternalFault:
    log.error("document_broke", document=document.uri, error=type(error).__name__, trace=traceback.format_exc(limit=-8))
    return InternalFault(kind=type(error).__name__)


def failed(bench: Bench, leased: LeasedDocument, error: EvercurrentError, embedded: int = 0) -> Failed:
    attempts = leased.attempts + 1
    decision = decide(attempts, error, bench.attempts_max, bench.clock.now(), bench.draw())
    match decision:
        case RetryAt(instant):
            log.warning("document_retried", document=leased.document.uri, code=error.code, reason=error.message, attempts=attempts)
            return Failed(leased.document, leased.wanted_version, leased.fence, error.code, error.message, instant, embedded)
        case Quarantine(code, message):
            log.warning("document_quarantined", document=leased.document.uri, code=code, reason=message)
            return Failed(leased.document, leased.wanted_version, leased.fence, code, message, None, embedded)


# --- embedding ----------------------------------------------------------------------------------------------


def embed_drafts(bench: Bench, drafts: Sequence[Draft]) -> list[Outcome]:
    """Every draft with its vectors, or failed with the reason why it has none."""
    outcomes: list[Outcome] = []
    homes = {draft.document.home: None for draft in drafts}
    for home in homes:
        of_home = [draft for draft in drafts if draft.document.home == home]
        embedded: dict[str, Embedded] = {}
        for space in spaces_of(drafted.build.space for draft in of_home for drafted in draft.cuts):
            embedded[space.space_id] = embed_space(bench, home, space, of_home)
        outcomes += finish(bench, of_home, embedded)
    return outcomes


def embed_space(bench: Bench, home: CollectionId, space: Space, drafts: Sequence[Draft]) -> Embedded:
    texts: dict[InputHash, str] = {}
    for draft in drafts:
        texts.update(draft.inputs(space.space_id))
    if not texts:
        return Embedded()
    try:
        embedder = bench.embedder_of(space)
    except EvercurrentError as error:
        return Embedded(failures=dict.fromkeys(texts, error))
    calls, tokens = embedder.calls, embedder.tokens
    try:
        return embed_missing(texts, home, embedder, bench.catalog, bench.session_id, bench.batch_texts_max)
    finally:
        if embedder.calls > calls:
            bench.catalog.add_tallies(embedding_tallies(embedder, calls, tokens, home.namespace))


def finish(bench: Bench, drafts: Sequence[Draft], embedded: dict[str, Embedded]) -> list[Outcome]:
    """Counts each text that was sent for the first document that holds it; the others reuse it."""
    outcomes: list[Outcome] = []
    unclaimed = {space_id: set(done.sent) for space_id, done in embedded.items()}
    vectors = {space_id: done.vectors for space_id, done in embedded.items()}
    for draft in drafts:
        sent, failure = 0, None
        for space_id, done in embedded.items():
            inputs = draft.inputs(space_id).keys()
            own = inputs & unclaimed[space_id]
            unclaimed[space_id] -= own
            sent += len(own)
            failure = failure or failure_of(inputs, done.failures)
        outcomes.append(indexed_of(draft, vectors, sent) if failure is None else failed(bench, draft.leased, failure, sent))
    return outcomes


# --- logging ------------------------------------------------------------------------------------------------


def log_outcomes(outcomes: Sequence[Outcome], verdicts: Sequence[Verdict]) -> None:
    for outcome, verdict in zip(outcomes, verdicts, strict=True):
        if isinstance(verdict, Refused):
            log.info("commit_refused", document=outcome.document.uri, version=outcome.version, reason=verdict.reason.value)
            continue
        match outcome:
            case Indexed():
                plan = outcome.cuts[0].plan
                log.info(
                    "document_committed",
                    document=outcome.document.uri,
                    version=outcome.version,
                    seq=verdict.seq,
                    added=len(plan.add),
                    kept=len(plan.keep),
                    moved=len(plan.move),
                    dropped=len(plan.drop),
                    embedded=outcome.embedded,
                )
            case Unchanged():
                log.info("document_unchanged", document=outcome.document.uri, version=outcome.version)
            case Vanished():
                log.info("document_vanished", document=outcome.document.uri, version=outcome.version)
            case Failed():
                pass
