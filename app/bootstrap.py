"""The only place that builds engines, providers and use-cases; every face gets them from here."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from celery import Celery

from app.config.loader import Policies, load_policies
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.domain.jobs import JobKind
from app.ports import Clock, Embedder, TokenCounter
from app.providers.broker import BrokerSettings, Publisher, check_broker, make_celery
from app.providers.clock import SystemClock
from app.providers.embeddings import EmbedderSettings, build_embedder
from app.providers.tokens import WordPieceCounter
from app.storage import admin
from app.storage.access import AccessLog
from app.storage.consolidation import ConsolidationStorage
from app.storage.delta import DeltaStorage
from app.storage.engine import Engine
from app.storage.events import EventStorage
from app.storage.export import ExportStorage
from app.storage.jobs import JobStorage
from app.storage.journal import Journal
from app.storage.lifecycle import LifecycleStorage
from app.storage.memories import MemoryStorage
from app.storage.search import SearchStorage
from app.storage.spaces import Space, active_space, require_space
from app.storage.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.storage.vectors import VectorStorage
from app.usecases.memories.bulk import BulkWrite
from app.usecases.memories.consolidation import Consolidate
from app.usecases.memories.delta import ReadDelta
from app.usecases.memories.edit import EditMemories
from app.usecases.memories.embed import EmbedMissing
from app.usecases.memories.lifecycle import Lifecycle
from app.usecases.memories.query import QueryMemories
from app.usecases.memories.read import ReadMemories
from app.usecases.memories.turns import StoreTurn
from app.usecases.memories.write import WriteMemories
from app.usecases.ops.erase import EraseUser
from app.usecases.ops.events import CountEvents
from app.usecases.ops.export import ExportUser
from app.usecases.ops.history import ReadHistory
from app.usecases.ops.job_handlers import Handler, job_handlers
from app.usecases.ops.jobs import Jobs, RunJobs
from app.usecases.ops.readiness import Readiness
from app.usecases.ops.tenants import Tenants


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
    lifecycle: Lifecycle
    consolidate: Consolidate
    jobs: Jobs
    run_jobs: RunJobs
    readiness: Readiness
    publisher: Publisher


@dataclass(frozen=True, slots=True)
class Doubles:
    """Stand-ins a test may hand in; None = the real one."""

    embedder: Embedder | None = None
    clock: Clock | None = None
    tokens: TokenCounter | None = None


def celery_app(settings: Settings) -> Celery:
    """The Celery application of the workers and of beat."""
    return make_celery(broker_settings(settings))


def broker_settings(settings: Settings) -> BrokerSettings:
    """The broker's share of the settings."""
    return BrokerSettings(
        url=settings.redis_url.get_secret_value(),
        queue=settings.worker_queue,
        job_soft_limit_s=settings.job_soft_limit_s,
        sweep_s=settings.sweep_s,
        schedule_s=settings.schedule_s,
    )


def embedder_settings(settings: Settings) -> EmbedderSettings:
    """The embedder's share of the settings."""
    return EmbedderSettings(
        kind=settings.embedder,
        model=settings.embedding_model,
        dimension=settings.embedding_dimension,
        base_url=settings.embedding_base_url,
        api_key=settings.embedding_api_key.get_secret_value(),
        timeout_s=settings.embedding_timeout_s,
        threads=settings.embedding_threads,
        cache_dir=settings.home / "models",
    )


@asynccontextmanager
async def application(settings: Settings, doubles: Doubles | None = None) -> AsyncIterator[Application]:
    """Build everything, hold it open, close it in order.

    Raises ConfigError for a wrong configuration or database role, DatabaseUnavailable when there is no database to ask
    which embedding space is active.
    """
    doubles = doubles or Doubles()
    if not settings.database_url.get_secret_value():
        raise ConfigError("set MNEMA_DATABASE_URL to the database URL of mnema_app")
    policies = load_policies(settings.embedding_model, settings.config_dir)
    engine = Engine(settings.database_url.get_secret_value(), min_size=settings.pool_min, max_size=settings.pool_max)
    embedder = doubles.embedder or build_embedder(embedder_settings(settings))
    try:
        space = await require_space(UnitOfWork(engine), embedder.model, embedder.dimension)
        app = _assemble(settings, policies, engine, embedder, space, doubles)
        app.access.start()
        try:
            yield app
        finally:
            await app.access.stop()
            await asyncio.to_thread(app.publisher.close)
    finally:
        await embedder.close()
        await engine.close()


@asynccontextmanager
async def tenancy(settings: Settings) -> AsyncIterator[Tenants]:
    """Tenants and keys alone, for operators: needs the database, not the model."""
    engine = Engine(settings.database_url.get_secret_value(), min_size=1, max_size=2)
    policies = load_policies(settings.embedding_model, settings.config_dir)
    try:
        yield Tenants(TenantStorage(UnitOfWork(engine)), policies, settings.key_cache_s)
    finally:
        await engine.close()


@asynccontextmanager
async def forgetting(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Lifecycle]:
    """The lifecycle jobs alone, for operators: needs the database, not the model."""
    engine = Engine(settings.database_url.get_secret_value(), min_size=1, max_size=2)
    policies = load_policies(settings.embedding_model, settings.config_dir)
    uow, secret, clock = UnitOfWork(engine), settings.erasure_secret(), clock or SystemClock()
    try:
        journal = Journal(uow, (await active_space(uow)).name, secret)
        yield Lifecycle(uow, LifecycleStorage(uow, secret), journal, policies, clock)
    finally:
        await engine.close()


@asynccontextmanager
async def consolidating(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Consolidate]:
    """Consolidation alone, for operators: needs the database and the vectors in it, not the model."""
    engine = Engine(settings.database_url.get_secret_value(), min_size=1, max_size=2)
    uow, secret, clock = UnitOfWork(engine), settings.erasure_secret(), clock or SystemClock()
    try:
        space = await active_space(uow)
        policies, journal = load_policies(space.model, settings.config_dir), Journal(uow, space.name, secret)
        yield Consolidate(uow, ConsolidationStorage(space.name), journal, policies, clock)
    finally:
        await engine.close()


@asynccontextmanager
async def supervising(settings: Settings) -> AsyncIterator[Jobs]:
    """The tenants' jobs alone, for operators: needs the database, not the model."""
    engine = Engine(settings.database_url.get_secret_value(), min_size=1, max_size=2)
    policies = load_policies(settings.embedding_model, settings.config_dir)
    try:
        yield Jobs(JobStorage(UnitOfWork(engine), policies.jobs))
    finally:
        await engine.close()


async def create_roles(superuser_url: str, database: str, passwords: dict[str, str]) -> None:
    """Roles, database and extension; idempotent. The one step that takes a superuser."""
    await admin.bootstrap(superuser_url, database, passwords)


async def migrate_database(admin_url: str, settings: Settings) -> str:
    """Bring the schema to the newest revision and give a fresh installation the configured model's embedding space.

    Answers the active space's model.
    """
    await admin.migrate(admin_url)
    return await admin.adopt_model(admin_url, settings.embedding_model, settings.embedding_dimension)


async def diagnose(settings: Settings) -> dict[str, str]:
    """Every readiness check by name, and the configuration's, each `ok` or what is wrong and how to mend it."""
    checks = {"configuration": "ok"}
    if not settings.database_url.get_secret_value():
        return {"configuration": "set MNEMA_DATABASE_URL to the database URL of mnema_app, or run `mnema up`"}
    try:
        load_policies(settings.embedding_model, settings.config_dir)
    except ConfigError as error:
        checks["configuration"] = error.detail
    engine = Engine(settings.database_url.get_secret_value(), min_size=1, max_size=2)
    embedder = build_embedder(embedder_settings(settings))
    try:
        return (
            checks
            | await Readiness(UnitOfWork(engine), embedder, partial(check_broker, broker_settings(settings))).checks()
        )
    finally:
        await embedder.close()
        await engine.close()


def _assemble(
    settings: Settings, policies: Policies, engine: Engine, embedder: Embedder, space: Space, doubles: Doubles
) -> Application:
    clock = doubles.clock or SystemClock()
    uow = UnitOfWork(engine)
    journal = Journal(uow, space.name, settings.erasure_secret())
    memories = MemoryStorage(uow, space.name)
    access = AccessLog(uow, journal, clock)
    records = LifecycleStorage(uow, settings.erasure_secret())
    lifecycle = Lifecycle(uow, records, journal, policies, clock)
    consolidate = Consolidate(uow, ConsolidationStorage(space.name), journal, policies, clock)
    embed_missing = EmbedMissing(VectorStorage(uow, space.name), embedder)
    write, publisher = WriteMemories(memories, journal, embedder, policies, clock), Publisher(broker_settings(settings))
    delta, query = _asking(uow, space, embedder, access, policies, doubles)
    return Application(
        settings=settings,
        policies=policies,
        engine=engine,
        uow=uow,
        embedder=embedder,
        access=access,
        tenants=Tenants(TenantStorage(uow), policies, settings.key_cache_s),
        write=write,
        turns=StoreTurn(write, journal, embedder, publisher, policies),
        bulk=BulkWrite(write),
        edit=EditMemories(uow, memories, journal, embedder, policies, clock),
        read=ReadMemories(uow, memories),
        query=query,
        delta=delta,
        history=ReadHistory(uow, memories),
        events=CountEvents(uow, EventStorage(), access),
        export=ExportUser(uow, ExportStorage(), access),
        erase=EraseUser(records, access, clock),
        lifecycle=lifecycle,
        consolidate=consolidate,
        jobs=Jobs(JobStorage(uow, policies.jobs)),
        run_jobs=_runner(uow, journal, policies, job_handlers(lifecycle, embed_missing, consolidate)),
        readiness=Readiness(uow, embedder, partial(check_broker, broker_settings(settings))),
        publisher=publisher,
    )


def _runner(uow: UnitOfWork, journal: Journal, policies: Policies, handlers: Mapping[JobKind, Handler]) -> RunJobs:
    return RunJobs(JobStorage(uow, policies.jobs), TenantStorage(uow), journal, handlers, policies.jobs)


def _asking(
    uow: UnitOfWork, space: Space, embedder: Embedder, access: AccessLog, policies: Policies, doubles: Doubles
) -> tuple[ReadDelta, QueryMemories]:
    cursors, search = DeltaStorage(), SearchStorage(space.name)
    delta = ReadDelta(uow, cursors, policies)
    clock, tokens = doubles.clock or SystemClock(), doubles.tokens or WordPieceCounter()
    return delta, QueryMemories(uow, search, delta, cursors, embedder, tokens, access, policies, clock)
