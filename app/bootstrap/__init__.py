"""The one place that builds engines, providers and use-cases. Every face gets them from here.

Each capability has a builder in a module of its name. `build_application` calls them all for servers and workers; the
functions named `open_…` build as little as one command of an operator needs.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from app.bootstrap.adapters import (
    broker_settings,
    chat_model_settings,
    check_required,
    embedder_settings,
    reranker_settings,
    upstream_settings,
)
from app.bootstrap.agent_state import build_checkpoints, build_store_items
from app.bootstrap.blobs import build_blobs
from app.bootstrap.chat import ChatUseCases, build_chat, build_kept_turns, build_turn_spool
from app.bootstrap.clock import build_clock
from app.bootstrap.consent import build_consent
from app.bootstrap.consolidation import build_consolidation
from app.bootstrap.facts import FactUseCases, build_facts
from app.bootstrap.jobs import build_job_runner, build_jobs
from app.bootstrap.memory import build_memory
from app.bootstrap.operations import build_operations, build_readiness, tell_metrics
from app.bootstrap.overview import OverviewUseCases, build_overview
from app.bootstrap.parts import SharedParts
from app.bootstrap.periodic import run_periodically
from app.bootstrap.policies import build_policies, build_refresh, build_rules
from app.bootstrap.recall import build_recall
from app.bootstrap.receipts import ReceiptUseCases, build_receipts
from app.bootstrap.replicas import build_replicas
from app.bootstrap.retention import build_partitions, build_retention
from app.bootstrap.sources import SourceUseCases, build_folders, build_sources
from app.bootstrap.tenancy import build_operators, build_tenancy
from app.bootstrap.turn_memory import TurnMemoryUseCases, build_turn_memory
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.config.tenant_policies import TenantPolicies
from app.config.version import VERSION
from app.domain.outages import DatabaseUnavailable
from app.ports import BlobStore, ChatModel, Embedder, Reranker, TokenCounter, TrustedClock, UpstreamClient
from app.providers.broker import JobPublisher
from app.providers.chat_models import build_chat_model
from app.providers.chat_models.measured import MeasuredChatModel
from app.providers.embeddings import build_embedder
from app.providers.embeddings.measured import MeasuredEmbedder
from app.providers.metrics import Metrics
from app.providers.parsing.pool import PooledDocumentParser
from app.providers.rerankers import build_reranker
from app.providers.rerankers.measured import MeasuredReranker
from app.providers.tokens import WordPieceCounter
from app.providers.upstreams import build_upstream_client
from app.source_ports import DocumentParser, SourceFolders
from app.storage.access_log import AccessLog
from app.storage.engine import Engine
from app.storage.journal import Journal
from app.storage.operations.schema import require_schema
from app.storage.operations.spaces import require_space
from app.storage.uow import UnitOfWork
from app.usecases.agent_state.checkpoints import Checkpoints
from app.usecases.agent_state.store_items import ManageStoreItems
from app.usecases.consent.consent import Consent
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.jobs.runner import Jobs, RunJobs
from app.usecases.memory.batches import MemoryBatches
from app.usecases.memory.bulk import BulkWrite
from app.usecases.memory.edit import EditMemories
from app.usecases.memory.history import ReadHistory
from app.usecases.memory.read import ReadMemories
from app.usecases.memory.turns import StoreTurn
from app.usecases.memory.write import WriteMemories
from app.usecases.operations.events import CountEvents
from app.usecases.operations.metrics import ReadMetrics
from app.usecases.operations.readiness import Readiness
from app.usecases.recall.delta import ReadDelta
from app.usecases.recall.query import QueryMemories
from app.usecases.recall.search import SearchMemories
from app.usecases.recall.threads import ReadThreads
from app.usecases.retention.erasure import EraseUser
from app.usecases.retention.export import ExportUser
from app.usecases.retention.forgetting import ForgetMemories
from app.usecases.retention.partitions import KeepPartitions
from app.usecases.tenancy.limits import Limits
from app.usecases.tenancy.operators import Operators
from app.usecases.tenancy.refresh import RefreshRules
from app.usecases.tenancy.rules import ManageRules
from app.usecases.tenancy.tenants import Tenants

ACCESS_FLUSH_S = 1.0
RULES_REFRESH_S = 1.0
CLOCK_S = 5.0
KEPT_TURNS_S = 1.0


@dataclass(frozen=True, slots=True)
class Application:
    """The use-cases and the shared parts that a face calls."""

    settings: Settings
    policies: TenantPolicies
    engine: Engine
    uow: UnitOfWork
    embedder: Embedder
    access: AccessLog
    tenants: Tenants
    limits: Limits
    rules: ManageRules
    operators: Operators
    write: WriteMemories
    turns: StoreTurn
    bulk: BulkWrite
    edit: EditMemories
    read: ReadMemories
    history: ReadHistory
    batches: MemoryBatches
    query: QueryMemories
    search: SearchMemories
    facts: FactUseCases
    chat: ChatUseCases
    turn_memory: TurnMemoryUseCases
    sources: SourceUseCases
    receipts: ReceiptUseCases
    delta: ReadDelta
    threads: ReadThreads
    events: CountEvents
    overview: OverviewUseCases
    export: ExportUser
    erase: EraseUser
    checkpoints: Checkpoints
    store: ManageStoreItems
    lifecycle: ForgetMemories
    partitions: KeepPartitions
    consolidate: Consolidate
    consent: Consent
    jobs: Jobs
    run_jobs: RunJobs
    readiness: Readiness
    metrics: Metrics
    read_metrics: ReadMetrics
    publisher: JobPublisher
    has_chat_model: bool


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
    policies = build_policies(settings)
    engine = _build_engine(settings)
    replicas = build_replicas(settings)
    uow = UnitOfWork(engine, replicas if replicas.members else None)
    metrics = Metrics(VERSION, None if worker is None else worker.number)
    embedder = MeasuredEmbedder(doubles.embedder or build_embedder(embedder_settings(settings)), metrics)
    reranker = MeasuredReranker(doubles.reranker or build_reranker(reranker_settings(settings), embedder), metrics)
    chat = MeasuredChatModel(doubles.chat or build_chat_model(chat_model_settings(settings)), metrics)
    upstream = doubles.upstream or build_upstream_client(upstream_settings(settings))
    blobs = doubles.blobs or build_blobs(settings, uow)
    parser = doubles.parser or PooledDocumentParser()
    folders = doubles.folders or build_folders(settings)
    try:
        await require_schema(uow)
        space = await require_space(uow, embedder.model, embedder.dimension)
        await replicas.open_replicas()
        journal = Journal(uow, space.name, settings.erasure_secret())
        clock = doubles.clock or build_clock(uow)
        await clock.follow_database()
        parts = SharedParts(
            settings=settings,
            policies=policies,
            engine=engine,
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
            replicas=replicas,
        )
        refresh = build_refresh(uow, policies)
        await refresh.load_changes()
        async with _run_in_background(_build_use_cases(parts), refresh, clock) as app, tell_metrics(worker, metrics):
            yield app
    finally:
        for opened in (parser, blobs, upstream, chat, reranker, embedder, replicas, engine):
            await opened.close()


def _build_engine(settings: Settings) -> Engine:
    return Engine(
        settings.database_url.get_secret_value(),
        min_size=settings.pool_min,
        max_size=settings.pool_max,
        timeout_s=settings.database_timeout_s,
        statement_cache=settings.database_statement_cache,
    )


@asynccontextmanager
async def _run_in_background(
    app: Application, refresh: RefreshRules, clock: TrustedClock
) -> AsyncIterator[Application]:
    """Write access counts, exchange limits, read tenants' rules and the clock while the application is open."""

    async def follow_database() -> None:
        with suppress(DatabaseUnavailable):  # the clock counts on by itself, and /ready tells of the database
            await clock.follow_database()

    try:
        async with (
            run_periodically(app.access.flush_pending, ACCESS_FLUSH_S, "access_flush_failed"),
            run_periodically(app.limits.exchange_counts, app.settings.limits_exchange_s, "limits_exchange_failed"),
            run_periodically(refresh.refresh_rules, RULES_REFRESH_S, "tenant_configs_refresh_failed"),
            run_periodically(follow_database, CLOCK_S, "clock_unread"),
            run_periodically(app.chat.kept.store_kept, KEPT_TURNS_S, "kept_turns_failed"),
        ):
            yield app
    finally:
        await app.chat.kept.close()
        await app.limits.close()
        await asyncio.to_thread(app.publisher.close)


def _build_use_cases(parts: SharedParts) -> Application:
    tenants, limits = build_tenancy(parts)
    memory = build_memory(parts, limits)
    facts = build_facts(parts, limits)
    recall = build_recall(parts, facts.answer)
    turn_memory = build_turn_memory(parts, limits)
    spool = build_turn_spool(parts)
    kept = build_kept_turns(parts, memory, spool)
    forgetting, export, erase = build_retention(parts, kept.store_kept)
    events, read_metrics = build_operations(parts, limits)
    consolidate = build_consolidation(parts.uow, parts.space, parts.journal, parts.chat, parts.policies, parts.clock)
    consent = build_consent(parts.uow, parts.journal, parts.settings.erasure_secret(), parts.policies, parts.clock)
    sources = build_sources(parts, turn_memory.blobs)
    return Application(
        settings=parts.settings,
        policies=parts.policies,
        engine=parts.engine,
        uow=parts.uow,
        embedder=parts.embedder,
        access=parts.access,
        tenants=tenants,
        limits=limits,
        rules=build_rules(parts),
        operators=build_operators(parts, tenants),
        write=memory.write,
        turns=memory.turns,
        bulk=memory.bulk,
        edit=memory.edit,
        read=memory.read,
        history=memory.history,
        batches=memory.batches,
        query=recall.query,
        search=recall.search,
        facts=facts,
        chat=build_chat(parts, memory, facts, forgetting, kept),
        turn_memory=turn_memory,
        sources=sources,
        receipts=build_receipts(parts),
        delta=recall.delta,
        threads=recall.threads,
        events=events,
        overview=build_overview(parts),
        export=export,
        erase=erase,
        checkpoints=build_checkpoints(parts),
        store=build_store_items(parts, limits),
        lifecycle=forgetting,
        partitions=build_partitions(parts),
        consolidate=consolidate,
        consent=consent,
        jobs=build_jobs(parts),
        run_jobs=build_job_runner(parts, memory.write, forgetting, consolidate, consent, turn_memory, sources),
        readiness=build_readiness(parts, spool),
        metrics=parts.metrics,
        read_metrics=read_metrics,
        publisher=parts.publisher,
        has_chat_model=parts.chat.is_available,
    )
