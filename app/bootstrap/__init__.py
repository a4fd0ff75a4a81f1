"""The only place that builds engines, providers and use-cases; every face gets them from here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.bootstrap.adapters import (
    broker_settings,
    build_celery_app,
    build_shared_counters,
    chat_model_settings,
    check_redis_url,
    check_required,
    embedder_settings,
    load_process_policies,
    reranker_settings,
    worker_settings,
)
from app.bootstrap.operators import (
    build_standalone_consolidation,
    build_standalone_forgetting,
    build_standalone_jobs,
    build_standalone_tenants,
    check_configuration,
    create_roles,
    diagnose_installation,
    migrate_database,
)
from app.bootstrap.periodic import run_periodically
from app.bootstrap.readiness import build_readiness
from app.bootstrap.recording import build_journal_and_consent, build_standalone_consent
from app.bootstrap.reflection import (
    ReflectionParts,
    adapt_job_policy,
    build_model_gateway,
    build_same_fact_judge,
    build_turn_followup,
)
from app.bootstrap.spaces import build_embed_missing
from app.config.loader import Policies
from app.config.settings import Settings
from app.config.version import VERSION
from app.domain.agent_state.checkpoints import CHECKPOINT_SIZE_FACTOR
from app.ports import ChatModel, Clock, Embedder, Reranker, TokenCounter
from app.providers.broker import JobPublisher
from app.providers.chat_models import build_chat_model
from app.providers.chat_models.measured import MeasuredChatModel
from app.providers.clock import SystemClock
from app.providers.embeddings import build_embedder
from app.providers.embeddings.measured import MeasuredEmbedder
from app.providers.metrics import Metrics
from app.providers.rerankers import build_reranker
from app.providers.rerankers.measured import MeasuredReranker
from app.providers.tokens import WordPieceCounter
from app.storage.access_log import AccessLog
from app.storage.agent_state.checkpoints import CheckpointStorage
from app.storage.agent_state.store_items import ItemStorage
from app.storage.consolidation.comparison import ConsolidationStorage
from app.storage.engine import Engine
from app.storage.jobs.jobs import JobStorage
from app.storage.journal import Journal
from app.storage.memory.memories import MemoryStorage
from app.storage.operations.events import EventStorage
from app.storage.operations.spaces import Space, require_space
from app.storage.recall.delta import DeltaStorage
from app.storage.recall.search import SearchStorage
from app.storage.retention.export import ExportStorage
from app.storage.retention.forgetting import ForgettingStorage
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.agent_state.checkpoints import Checkpoints
from app.usecases.agent_state.store_items import ManageStoreItems
from app.usecases.consent.consent import Consent
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.jobs.handlers import job_handlers
from app.usecases.jobs.runner import Jobs, RunJobs
from app.usecases.memory.bulk import BulkWrite
from app.usecases.memory.edit import EditMemories
from app.usecases.memory.history import ReadHistory
from app.usecases.memory.read import ReadMemories
from app.usecases.memory.turns import StoreTurn
from app.usecases.memory.write import WriteMemories
from app.usecases.operations.events import CountEvents
from app.usecases.operations.metrics import ReadMetrics
from app.usecases.operations.readiness import Readiness
from app.usecases.recall.candidates import Candidates
from app.usecases.recall.delta import ReadDelta
from app.usecases.recall.query import QueryMemories
from app.usecases.retention.erasure import EraseUser
from app.usecases.retention.export import ExportUser
from app.usecases.retention.forgetting import ForgetMemories
from app.usecases.tenancy.limits import Limits
from app.usecases.tenancy.tenants import Tenants

__all__ = [
    "Application",
    "Doubles",
    "broker_settings",
    "build_application",
    "build_celery_app",
    "build_standalone_consent",
    "build_standalone_consolidation",
    "build_standalone_forgetting",
    "build_standalone_jobs",
    "build_standalone_tenants",
    "check_configuration",
    "check_redis_url",
    "create_roles",
    "diagnose_installation",
    "migrate_database",
    "worker_settings",
]

ACCESS_FLUSH_S = 1.0


@dataclass(frozen=True, slots=True)
class Application:
    """Everything a face calls."""

    settings: Settings
    policies: Policies
    engine: Engine
    uow: UnitOfWork
    embedder: Embedder
    access: AccessLog
    tenants: Tenants
    limits: Limits
    write: WriteMemories
    turns: StoreTurn
    bulk: BulkWrite
    edit: EditMemories
    read: ReadMemories
    query: QueryMemories
    delta: ReadDelta
    history: ReadHistory
    events: CountEvents
    export: ExportUser
    erase: EraseUser
    checkpoints: Checkpoints
    store: ManageStoreItems
    lifecycle: ForgetMemories
    consolidate: Consolidate
    consent: Consent
    jobs: Jobs
    run_jobs: RunJobs
    readiness: Readiness
    metrics: Metrics
    read_metrics: ReadMetrics
    publisher: JobPublisher


@dataclass(frozen=True, slots=True)
class Doubles:
    """Stand-ins a test may hand in; None = the real one."""

    embedder: Embedder | None = None
    clock: Clock | None = None
    tokens: TokenCounter | None = None
    reranker: Reranker | None = None
    chat: ChatModel | None = None


@dataclass(frozen=True, slots=True)
class _SharedParts:
    """What everything else is made of."""

    settings: Settings
    policies: Policies
    engine: Engine
    uow: UnitOfWork
    space: Space
    embedder: Embedder
    reranker: Reranker
    chat: ChatModel
    metrics: Metrics
    clock: Clock
    tokens: TokenCounter


@asynccontextmanager
async def build_application(settings: Settings, doubles: Doubles | None = None) -> AsyncIterator[Application]:
    """Build everything, hold it open, close it in order.

    Raises ConfigError for a wrong configuration or database role, DatabaseUnavailable when there is no database to ask
    which embedding space is its model's.
    """
    doubles = doubles or Doubles()
    check_required(settings)
    policies = load_process_policies(settings)
    engine = Engine(
        settings.database_url.get_secret_value(),
        min_size=settings.pool_min,
        max_size=settings.pool_max,
        timeout_s=settings.database_timeout_s,
    )
    uow, metrics = UnitOfWork(engine), Metrics(VERSION)
    embedder = MeasuredEmbedder(doubles.embedder or build_embedder(embedder_settings(settings)), metrics)
    built = doubles.reranker or build_reranker(reranker_settings(settings), embedder)
    reranker = MeasuredReranker(built, metrics)
    chat = MeasuredChatModel(doubles.chat or build_chat_model(chat_model_settings(settings)), metrics)
    try:
        space = await require_space(uow, embedder.model, embedder.dimension)
        clock, tokens = doubles.clock or SystemClock(), doubles.tokens or WordPieceCounter()
        app = _build_use_cases(
            _SharedParts(settings, policies, engine, uow, space, embedder, reranker, chat, metrics, clock, tokens)
        )
        try:
            async with (
                run_periodically(app.access.flush_pending, ACCESS_FLUSH_S, "access_flush_failed"),
                run_periodically(app.limits.exchange_counts, settings.limits_exchange_s, "limits_exchange_failed"),
            ):
                yield app
        finally:
            await app.limits.close()
            await asyncio.to_thread(app.publisher.close)
    finally:
        await chat.close()
        await reranker.close()
        await embedder.close()
        await engine.close()


def _build_use_cases(base: _SharedParts) -> Application:
    settings, policies, uow, embedder, clock = base.settings, base.policies, base.uow, base.embedder, base.clock
    journal, records, consent = build_journal_and_consent(
        uow, base.space.name, settings.erasure_secret(), policies, clock
    )
    memories, access = MemoryStorage(uow, base.space.name), AccessLog(uow, journal, clock)
    lifecycle, consolidate = _build_maintenance(base, journal, records)
    limits, publisher = _build_limits(base, access), JobPublisher(broker_settings(settings))
    write = WriteMemories(memories, journal, access, embedder, limits, policies, clock)
    delta, query = _build_recall(base, access)
    return Application(
        settings=settings,
        policies=policies,
        engine=base.engine,
        uow=uow,
        embedder=embedder,
        access=access,
        tenants=Tenants(TenantStorage(uow), policies, clock, settings.key_cache_s),
        limits=limits,
        write=write,
        turns=StoreTurn(write, journal, embedder, publisher, limits, policies),
        bulk=BulkWrite(write, limits),
        edit=EditMemories(uow, memories, journal, embedder, policies, clock),
        read=ReadMemories(uow, memories),
        query=query,
        delta=delta,
        history=ReadHistory(uow, memories),
        events=CountEvents(uow, EventStorage(), access),
        export=ExportUser(uow, ExportStorage(), access),
        erase=EraseUser(records, access, clock),
        checkpoints=_build_checkpoints(base),
        store=ManageStoreItems(uow, ItemStorage(base.space.name), embedder, limits, clock, settings.store_batch_s),
        lifecycle=lifecycle,
        consolidate=consolidate,
        consent=consent,
        jobs=Jobs(JobStorage(uow, policies.jobs)),
        run_jobs=_build_job_runner(base, journal, write, lifecycle, consolidate, consent),
        readiness=build_readiness(settings, uow, embedder, base.reranker, base.chat),
        metrics=base.metrics,
        read_metrics=ReadMetrics(base.metrics, uow, base.engine, limits, JobStorage(uow, policies.jobs)),
        publisher=publisher,
    )


def _build_maintenance(
    base: _SharedParts, journal: Journal, records: ForgettingStorage
) -> tuple[ForgetMemories, Consolidate]:
    pairs = ConsolidationStorage(base.space.name)
    lifecycle = ForgetMemories(base.uow, records, journal, base.policies, base.clock)
    judge = build_same_fact_judge(
        build_model_gateway(base.uow, journal, base.chat, base.policies, base.clock), base.policies
    )
    return lifecycle, Consolidate(base.uow, pairs, journal, base.policies, base.clock, judge)


def _build_checkpoints(base: _SharedParts) -> Checkpoints:
    largest = base.settings.max_checkpoint_bytes
    return Checkpoints(CheckpointStorage(base.uow, CHECKPOINT_SIZE_FACTOR * largest), largest)


def _build_job_runner(
    base: _SharedParts,
    journal: Journal,
    write: WriteMemories,
    lifecycle: ForgetMemories,
    consolidate: Consolidate,
    consent: Consent,
) -> RunJobs:
    embed = build_embed_missing(base.uow, base.space.name, base.embedder, base.policies.query.exact_up_to)
    models = base.chat, base.embedder, base.policies, base.clock, write, consent.proposals
    policy = adapt_job_policy(base.policies.jobs, base.chat)
    jobs, parts = JobStorage(base.uow, policy), ReflectionParts(base.uow, base.space.name, journal, *models)
    handlers = job_handlers(lifecycle, embed, consolidate, consent, build_turn_followup(parts, jobs))
    return RunJobs(jobs, TenantStorage(base.uow), journal, handlers, policy)


def _build_limits(base: _SharedParts, access: AccessLog) -> Limits:
    counters, name_of = build_shared_counters(base.settings), TenantStorage(base.uow).get_tenant_name
    return Limits(base.policies.limits, counters, name_of, access, base.clock)


def _build_recall(base: _SharedParts, access: AccessLog) -> tuple[ReadDelta, QueryMemories]:
    cursors, search = DeltaStorage(), SearchStorage(base.space.name)
    delta = ReadDelta(base.uow, cursors, base.policies)
    candidates = Candidates(search, base.reranker, base.clock)
    query = QueryMemories(
        base.uow, search, candidates, delta, cursors, base.embedder, base.tokens, access, base.policies, base.clock
    )
    return delta, query
