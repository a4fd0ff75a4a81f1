"""The whole application: all parts and use-cases of a server or a worker, and what runs beside them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import structlog

from app.bootstrap.adapters import (
    broker_settings,
    chat_model_settings,
    check_required,
    embedder_settings,
    reranker_settings,
    upstream_settings,
)
from app.bootstrap.agent_state import AgentStateUseCases, build_agent_state
from app.bootstrap.blobs import build_blobs
from app.bootstrap.chat import ChatUseCases, build_chat, build_kept_turns, build_turn_spool
from app.bootstrap.clusters import build_finish_moves
from app.bootstrap.consent import build_consent
from app.bootstrap.consolidation import build_consolidation
from app.bootstrap.database import Database, build_clock, build_database
from app.bootstrap.facts import FactUseCases, build_facts
from app.bootstrap.jobs import JobUseCases, build_jobs
from app.bootstrap.memory import MemoryUseCases, build_memory
from app.bootstrap.model import choose_model
from app.bootstrap.operations import OperationUseCases, build_operations, tell_metrics
from app.bootstrap.parts import SharedParts
from app.bootstrap.policies import build_policies, build_refresh
from app.bootstrap.recall import RecallUseCases, build_recall
from app.bootstrap.receipts import ReceiptUseCases, build_receipts
from app.bootstrap.retention import RetentionUseCases, build_retention
from app.bootstrap.sources import SourceUseCases, build_folders, build_sources
from app.bootstrap.tenancy import TenancyUseCases, build_tenancy
from app.bootstrap.turn_memory import TurnMemoryUseCases, build_turn_memory
from app.bootstrap.webhooks import WebhookUseCases, build_webhooks
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.config.version import VERSION
from app.domain import english
from app.domain.errors import ConfigError
from app.domain.outages import DatabaseUnavailable
from app.ports import BlobStore, ChatModel, Embedder, Reranker, TokenCounter, TrustedClock, UpstreamClient
from app.providers.broker import JobPublisher
from app.providers.chat_models import build_chat_model
from app.providers.embeddings import build_embedder
from app.providers.embeddings.local import LocalEmbedder
from app.providers.measured import MeasuredChatModel, MeasuredEmbedder, MeasuredReranker
from app.providers.metrics import Metrics
from app.providers.parsing.pool import PooledDocumentParser
from app.providers.rerankers import build_reranker
from app.providers.tokens import WordPieceCounter
from app.providers.upstreams import build_upstream_client
from app.source_ports import DocumentParser, SourceFolders
from app.storage.access_log import AccessLog
from app.storage.journal import Journal
from app.storage.operations.schema import require_schema
from app.storage.operations.secret import require_secret
from app.storage.operations.spaces import Space, require_space
from app.storage.uow import UnitOfWork
from app.usecases.clusters.finish import FinishMoves
from app.usecases.consent.consent import Consent
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.tenancy.refresh import RefreshRules

ACCESS_FLUSH_S = 1.0
RULES_REFRESH_S = 1.0
CLOCK_S = 5.0
HOMES_S = 1.0
REVOCATIONS_S = 10.0
KEPT_TURNS_S = 1.0


@dataclass(frozen=True, slots=True)
class Application:
    """The use-cases that a face calls, by capability, and the parts that they share."""

    parts: SharedParts
    tenancy: TenancyUseCases
    memory: MemoryUseCases
    recall: RecallUseCases
    facts: FactUseCases
    chat: ChatUseCases
    turn_memory: TurnMemoryUseCases
    sources: SourceUseCases
    agent_state: AgentStateUseCases
    consolidation: Consolidate
    consent: Consent
    retention: RetentionUseCases
    receipts: ReceiptUseCases
    operations: OperationUseCases
    webhooks: WebhookUseCases
    jobs: JobUseCases
    finish_moves: FinishMoves | None


@dataclass(frozen=True, slots=True)
class Doubles:
    """Test doubles. None stands for the real adapter."""

    embedder: Embedder | None = None
    clock: TrustedClock | None = None
    tokens: TokenCounter | None = None
    reranker: Reranker | None = None
    chat: ChatModel | None = None
    upstream: UpstreamClient | None = None
    blobs: BlobStore | None = None
    parser: DocumentParser | None = None
    folders: SourceFolders | None = None


@asynccontextmanager
async def build_application(
    settings: Settings, doubles: Doubles | None = None, worker: ServerWorker | None = None
) -> AsyncIterator[Application]:
    """Build an application, hold it open, and close its parts in order.

    `worker`: the place of this process, if several serve one address. It changes who counts limits and metrics.

    Raise ConfigError for a wrong configuration or database role, DatabaseUnavailable when no database answers.
    """
    doubles = doubles or Doubles()
    check_required(settings)
    settings = await choose_model(settings)
    policies = build_policies(settings)
    database = build_database(settings)
    uow = database.uow
    metrics = Metrics(VERSION, None if worker is None else worker.number)
    model = doubles.embedder or build_embedder(embedder_settings(settings))
    embedder = MeasuredEmbedder(model, metrics)
    reranker = MeasuredReranker(doubles.reranker or build_reranker(reranker_settings(settings), embedder), metrics)
    chat = MeasuredChatModel(doubles.chat or build_chat_model(chat_model_settings(settings)), metrics)
    upstream = doubles.upstream or build_upstream_client(upstream_settings(settings))
    blobs = doubles.blobs or build_blobs(settings, uow)
    parser = doubles.parser or PooledDocumentParser()
    folders = doubles.folders or build_folders(settings)
    try:
        space, loading = await _open_space(uow, model)
        await database.open_parts()
        await _require_equal(database, space, settings.erasure_secret())
        journal = Journal(uow, space.name, settings.erasure_secret())
        clock = doubles.clock or build_clock(uow)
        await clock.follow_database()
        parts = SharedParts(
            settings=settings,
            policies=policies,
            database=database,
            uow=uow,
            space=space,
            embedder=embedder,
            reranker=reranker,
            chat=chat,
            metrics=metrics,
            clock=clock,
            tokens=doubles.tokens or WordPieceCounter(),
            journal=journal,
            access=AccessLog(uow, journal, clock),
            publisher=JobPublisher(broker_settings(settings)),
            upstream=upstream,
            blobs=blobs,
            parser=parser,
            folders=folders,
            worker=worker,
        )
        refresh = build_refresh(uow, policies)
        await refresh.load_changes()
        app = _build_use_cases(parts)
        async with _run_in_background(app, refresh, clock, loading), tell_metrics(worker, metrics):
            yield app
    finally:
        for opened in (parser, blobs, upstream, chat, reranker, embedder, database):
            await opened.close()


async def _open_space(uow: UnitOfWork, model: Embedder) -> tuple[Space, Future[Any] | None]:
    """Return the model's space in a database that fits this code. A local model loads beside the rest of the start."""
    await require_schema(uow)
    space = await require_space(uow, model.model, model.dimension)
    return space, model.begin_loading() if isinstance(model, LocalEmbedder) else None


async def _require_equal(database: Database, space: Space, secret: bytes) -> None:
    """Raise ConfigError if a cluster that answers has another schema or secret, or not this embedding space."""
    if database.homes is None:
        return

    async def require_current(part: UnitOfWork) -> None:
        await require_schema(part)
        await require_space(part, space.model, space.dimension)
        await require_secret(part, secret, note=True)

    for name, fault in (await database.homes.ask_each(require_current)).items():
        if isinstance(fault, ConfigError):
            raise ConfigError(f"cluster {name}: {fault.detail}")
        if fault is not None:
            log.warning("cluster_away", cluster=name, detail=fault.detail)


@asynccontextmanager
async def _run_in_background(
    app: Application, refresh: RefreshRules, clock: TrustedClock, loading: Future[Any] | None
) -> AsyncIterator[None]:
    """Write access counts, exchange limits, read tenants' rules and the clock while the application is open.

    The English patterns are compiled at the beginning.
    """

    async def follow_homes() -> None:
        if (homes := app.parts.database.homes) is not None:
            with suppress(DatabaseUnavailable):  # what is known goes on to count
                await homes.load_changes()

    async def spread_revocations() -> None:
        if (homes := app.parts.database.homes) is not None:
            with suppress(DatabaseUnavailable):
                await homes.spread_revocations()

    async def follow_database() -> None:
        with suppress(DatabaseUnavailable):  # the clock goes on without the database, and /ready reports the failure
            await clock.follow_database()

    compiling = asyncio.create_task(compile_patterns(loading))
    try:
        async with (
            run_periodically(app.parts.access.flush_pending, ACCESS_FLUSH_S, "access_flush_failed"),
            run_periodically(
                app.tenancy.limits.exchange_counts, app.parts.settings.limits_exchange_s, "limits_exchange_failed"
            ),
            run_periodically(refresh.refresh_rules, RULES_REFRESH_S, "tenant_configs_refresh_failed"),
            run_periodically(follow_database, CLOCK_S, "clock_unread"),
            run_periodically(follow_homes, HOMES_S, "homes_unread"),
            run_periodically(spread_revocations, REVOCATIONS_S, "revocations_not_spread"),
            run_periodically(app.chat.kept.store_kept, KEPT_TURNS_S, "kept_turns_failed"),
        ):
            yield
    finally:
        await app.webhooks.close()
        await app.chat.kept.close()
        await app.tenancy.limits.close()
        await asyncio.to_thread(app.parts.publisher.close)
        compiling.cancel()
        await asyncio.gather(compiling, return_exceptions=True)


async def compile_patterns(loading: Future[Any] | None) -> None:
    """Compile the English patterns on a thread, after the model is loaded: a server is ready once it has a model.

    An earlier request compiles the patterns that it reads. `loading` may fail, which is reported by calls of the model.
    """
    if loading is not None:
        await asyncio.gather(asyncio.wrap_future(loading), return_exceptions=True)
    try:
        await asyncio.to_thread(english.compile_patterns)
    except Exception:
        log.exception("patterns_not_compiled")


def _build_use_cases(parts: SharedParts) -> Application:
    tenancy = build_tenancy(parts)
    limits = tenancy.limits
    memory = build_memory(parts, limits)
    facts = build_facts(parts, limits)
    turn_memory = build_turn_memory(parts, limits)
    spool = build_turn_spool(parts)
    kept = build_kept_turns(parts, memory, spool)
    retention = build_retention(parts, limits, kept.store_kept)
    consolidation = build_consolidation(parts.uow, parts.space, parts.journal, parts.chat, parts.policies, parts.clock)
    consent = build_consent(parts.uow, parts.journal, parts.settings.erasure_secret(), parts.policies, parts.clock)
    sources = build_sources(parts, turn_memory.blobs)
    return Application(
        parts=parts,
        tenancy=tenancy,
        memory=memory,
        recall=build_recall(parts, facts.answer),
        facts=facts,
        chat=build_chat(parts, memory, facts, retention.forget, kept),
        turn_memory=turn_memory,
        sources=sources,
        agent_state=build_agent_state(parts, limits),
        consolidation=consolidation,
        consent=consent,
        retention=retention,
        receipts=build_receipts(parts),
        webhooks=build_webhooks(parts),
        operations=build_operations(parts, limits, spool),
        jobs=build_jobs(parts, memory.write, retention.forget, consolidation, consent, turn_memory, sources),
        finish_moves=build_finish_moves(parts.settings, parts.database),
    )


log = structlog.get_logger(__name__)


@asynccontextmanager
async def run_periodically(work: Callable[[], Awaitable[None]], interval_s: float, failure: str) -> AsyncIterator[None]:
    """Run `work` every `interval_s` seconds inside the block, and once more at its end.

    An exception is logged as the event `failure` and ends nothing, except in the last run, which raises it.
    """
    stopping = asyncio.Event()

    async def repeat_work() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await stopping.wait()
            try:
                await work()
            except Exception:  # the next run may succeed
                log.exception(failure)

    task = asyncio.create_task(repeat_work())
    try:
        yield
    finally:
        stopping.set()
        await task
        await work()
