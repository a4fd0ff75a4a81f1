"""What operators' commands are built from: as little as each needs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.adapters import (
    chat_model_settings,
    check_required,
    embedder_settings,
    reranker_settings,
)
from app.bootstrap.database import open_database
from app.bootstrap.readiness import build_doctor_readiness
from app.bootstrap.reflection import build_model_gateway, build_same_fact_judge
from app.config.loader import load_policies
from app.config.settings import Settings
from app.domain.errors import ConfigError, MnemaError
from app.ports import ChatModel, Reranker
from app.providers.chat_models import build_chat_model
from app.providers.chat_models.none import NullChatModel
from app.providers.clock import SystemClock
from app.providers.embeddings import build_embedder
from app.providers.rerankers import build_reranker
from app.providers.rerankers.none import NullReranker
from app.storage.consolidation.comparison import ConsolidationStorage
from app.storage.engine import Engine
from app.storage.jobs.jobs import JobStorage
from app.storage.journal import Journal
from app.storage.operations import administration as admin
from app.storage.operations.secret import secret_fingerprint
from app.storage.operations.spaces import active_space, require_space
from app.storage.retention.forgetting import ForgettingStorage
from app.storage.tenancy import tenant_removal
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.jobs.runner import Jobs
from app.usecases.retention.forgetting import ForgetMemories
from app.usecases.tenancy.tenants import Tenants


@asynccontextmanager
async def build_standalone_tenants(settings: Settings) -> AsyncIterator[Tenants]:
    """Tenants and keys alone, for operators: needs the database, not the model."""
    policies = load_policies(settings.embedding_model, settings.config_dir)
    async with open_database(settings) as uow:
        yield Tenants(TenantStorage(uow), policies, SystemClock(), settings.key_cache_s)


async def remove_tenant(settings: Settings, admin_url: str, name_or_id: str) -> dict[str, int]:
    """Everything of the tenant, and the tenant; how many rows went, by table. Raises NotFound, WrongState."""
    return await tenant_removal.remove_tenant(admin_url, name_or_id, settings.key_cache_s)


@asynccontextmanager
async def build_standalone_forgetting(settings: Settings) -> AsyncIterator[ForgetMemories]:
    """The lifecycle jobs alone, for operators: needs the database, not the model."""
    policies, secret = load_policies(settings.embedding_model, settings.config_dir), settings.erasure_secret()
    async with open_database(settings) as uow:
        journal = Journal(uow, (await active_space(uow)).name, secret)
        yield ForgetMemories(uow, ForgettingStorage(uow, secret), journal, policies, SystemClock())


@asynccontextmanager
async def build_standalone_consolidation(settings: Settings) -> AsyncIterator[Consolidate]:
    """Consolidation alone, for operators: needs the database, its vectors and, if there is one, the chat model."""
    secret, clock = settings.erasure_secret(), SystemClock()
    chat = build_chat_model(chat_model_settings(settings))
    try:
        async with open_database(settings) as uow:
            space = await active_space(uow)
            policies, journal = load_policies(space.model, settings.config_dir), Journal(uow, space.name, secret)
            judge = build_same_fact_judge(build_model_gateway(uow, journal, chat, policies, clock), policies)
            yield Consolidate(uow, ConsolidationStorage(space.name), journal, policies, clock, judge)
    finally:
        await chat.close()


@asynccontextmanager
async def build_standalone_jobs(settings: Settings) -> AsyncIterator[Jobs]:
    """The tenants' jobs alone, for operators: needs the database, not the model."""
    policies = load_policies(settings.embedding_model, settings.config_dir)
    async with open_database(settings) as uow:
        yield Jobs(JobStorage(uow, policies.jobs))


async def change_secret(settings: Settings, admin_url: str) -> None:
    """Make the settings' secret the one that replicas are held to. Raises ConfigError."""
    await admin.accept_secret(admin_url, secret_fingerprint(settings.erasure_secret()))


async def create_roles(superuser_url: str, database: str, passwords: dict[str, str]) -> None:
    """Roles, database and extension; idempotent. The one step that takes a superuser."""
    await admin.bootstrap_cluster(superuser_url, database, passwords)


async def migrate_database(admin_url: str, settings: Settings) -> str:
    """Bring the schema to the newest revision and give a fresh installation the configured model's embedding space.

    Answers the active space's model.
    """
    await admin.migrate_schema(admin_url)
    return await admin.adopt_model(admin_url, settings.embedding_model, settings.embedding_dimension)


async def check_configuration(settings: Settings) -> None:
    """What a server would refuse to start with: settings, policies, model, database role and embedding space.

    Raises ConfigError, or DatabaseUnavailable when there is no database to ask. Leaves nothing open.
    """
    check_required(settings)
    load_policies(settings.embedding_model, settings.config_dir)
    embedder = build_embedder(embedder_settings(settings))
    reranker = build_reranker(reranker_settings(settings), embedder)
    chat = build_chat_model(chat_model_settings(settings))
    engine = Engine(
        settings.database_url.get_secret_value(), min_size=1, max_size=1, timeout_s=settings.database_timeout_s
    )
    try:
        await require_space(UnitOfWork(engine), embedder.model, embedder.dimension)
    finally:
        await chat.close()
        await reranker.close()
        await embedder.close()
        await engine.close()


async def diagnose_installation(settings: Settings) -> dict[str, str]:
    """Every readiness check by name, and the configuration's, each `ok` or what is wrong and how to mend it."""
    checks = {"configuration": "ok"}
    if not settings.database_url.get_secret_value():
        return {"configuration": "set MNEMA_DATABASE_URL to the database URL of mnema_app, or run `mnema up`"}
    try:
        settings.erasure_secret()
        policies = load_policies(settings.embedding_model, settings.config_dir)
        checks |= {"insights": "; ".join(policies.configuration_warnings)} if policies.configuration_warnings else {}
    except ConfigError as error:
        checks["configuration"] = error.detail
    embedder = build_embedder(embedder_settings(settings))
    reranker: Reranker = NullReranker()
    chat: ChatModel = NullChatModel()
    try:
        reranker = build_reranker(reranker_settings(settings), embedder)
        chat = build_chat_model(chat_model_settings(settings))
    except ConfigError as error:
        checks["configuration"] = error.detail
    try:
        async with open_database(settings) as uow:
            asked = build_doctor_readiness(
                settings, uow, embedder, reranker, chat, has_secret=checks["configuration"] == "ok"
            )
            return checks | await asked.run_checks() | await _check_other_databases(uow)
    finally:
        await chat.close()
        await reranker.close()
        await embedder.close()


async def _check_other_databases(uow: UnitOfWork) -> dict[str, str]:
    """What mnema_app could connect to besides its own database; nothing while there is no database to ask."""
    try:
        names = ", ".join(row["datname"] for row in await uow.call_definer(admin.OPEN_DATABASES))
    except MnemaError:  # said already
        return {}
    cure = "unless another program needs that: REVOKE CONNECT ON DATABASE … FROM PUBLIC"
    return {"other_databases": f"mnema_app may connect to {names}; {cure}" if names else "ok"}
