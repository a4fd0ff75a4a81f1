"""What a chat model is asked through, and by whom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.bootstrap.adapters import chat_model_settings, embedder_settings
from app.bootstrap.database import open_database
from app.bootstrap.recording import build_journal_and_consent
from app.config.loader import Policies, load_policies
from app.config.settings import Settings
from app.domain.jobs.job import JobKind, JobPolicy
from app.ports import ChatModel, Clock, Embedder, SameFactJudge
from app.providers.chat_models import build_chat_model
from app.providers.clock import SystemClock
from app.providers.embeddings import build_embedder
from app.storage.access_log import AccessLog
from app.storage.jobs.jobs import JobStorage
from app.storage.journal import Journal
from app.storage.memory.memories import MemoryStorage
from app.storage.operations.spaces import require_space
from app.storage.reflection.fact_extraction import TurnFactStorage
from app.storage.reflection.model_calls import ModelCallStorage
from app.storage.reflection.reconcile import ReconcileStorage
from app.storage.reflection.transcripts import ReflectionStorage
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.consent.generated_proposals import ProposeProfileFields
from app.usecases.consent.proposals import Proposals
from app.usecases.jobs.handlers import ReflectionJobs
from app.usecases.memory.write import WriteMemories
from app.usecases.reflection.episodes import CaptureEpisodes
from app.usecases.reflection.fact_extraction import ExtractFacts
from app.usecases.reflection.generated_memories import ReflectionWriter
from app.usecases.reflection.insights import DrawInsights
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.model_report import ReportModel
from app.usecases.reflection.reconcile import Reconcile
from app.usecases.reflection.reflect import Reflect
from app.usecases.reflection.same_fact_judge import ModelJudge
from app.usecases.reflection.summaries import SummariseThreads
from app.usecases.tenancy.limits import Limits


def build_model_gateway(
    uow: UnitOfWork, journal: Journal, chat: ChatModel, policies: Policies, clock: Clock
) -> ModelGateway:
    """The way to the model."""
    return ModelGateway(chat, ModelCallStorage(uow), journal, policies.llm, clock)


def build_same_fact_judge(ask: ModelGateway, policies: Policies) -> SameFactJudge | None:
    """The judge of consolidation; None without a model."""
    numeric = tuple(c.name for c in policies.categories.categories.values() if c.numeric_update)
    return ModelJudge(ask, numeric) if ask.has_model else None


@dataclass(frozen=True, slots=True)
class ReflectionParts:
    """What reflection is made of. `space`: the active embedding space."""

    uow: UnitOfWork
    space: str
    journal: Journal
    chat: ChatModel
    embedder: Embedder
    policies: Policies
    clock: Clock
    write: WriteMemories
    proposals: Proposals

    def model_gateway(self) -> ModelGateway:
        """The way to the model."""
        return build_model_gateway(self.uow, self.journal, self.chat, self.policies, self.clock)


def build_fact_extraction(of: ReflectionParts, ask: ModelGateway) -> ExtractFacts:
    """What makes facts of long turns."""
    around = ReconcileStorage(of.uow, of.space)
    reconcile = Reconcile(ask, of.write, around, of.journal, of.policies, of.clock)
    turns = TurnFactStorage(of.uow, MemoryStorage(of.uow, of.space))
    consent = ProposeProfileFields(of.proposals, of.policies.consent)
    return ExtractFacts(ask, reconcile, turns, of.journal, of.policies, of.clock, consent)


def build_reflection(of: ReflectionParts) -> Reflect:
    """All that is made of what is said."""
    ask, storage = of.model_gateway(), ReflectionStorage(of.space)
    keep = ReflectionWriter(of.uow, storage, of.journal, of.embedder, of.policies, of.clock)
    insights = DrawInsights(ask, keep, ProposeProfileFields(of.proposals, of.policies.consent))
    return Reflect(
        ask, build_fact_extraction(of, ask), CaptureEpisodes(ask, keep), SummariseThreads(ask, keep), insights, keep
    )


def build_turn_followup(of: ReflectionParts, jobs: JobStorage) -> ReflectionJobs:
    """What follows a turn."""
    return ReflectionJobs(build_reflection(of), jobs, of.policies.llm, of.clock, able=of.chat.is_available)


def adapt_job_policy(policy: JobPolicy, chat: ChatModel) -> JobPolicy:
    """Without a model nothing is queued that needs one."""
    return policy if chat.is_available else policy.without_kind(JobKind.reflect)


@asynccontextmanager
async def build_standalone_reflection(settings: Settings) -> AsyncIterator[Reflect]:
    """Reflection alone, for operators: needs the database, the embedder and the chat model."""
    async with _build_standalone_parts(settings) as parts:
        yield build_reflection(parts)


@asynccontextmanager
async def build_standalone_fact_extraction(settings: Settings) -> AsyncIterator[ExtractFacts]:
    """Facts out of turns alone, for operators: needs the database, the embedder and the chat model."""
    async with _build_standalone_parts(settings) as parts:
        yield build_fact_extraction(parts, parts.model_gateway())


@asynccontextmanager
async def _build_standalone_parts(settings: Settings) -> AsyncIterator[ReflectionParts]:
    clock, secret = SystemClock(), settings.erasure_secret()
    policies = load_policies(settings.embedding_model, settings.config_dir)
    chat, embedder = build_chat_model(chat_model_settings(settings)), build_embedder(embedder_settings(settings))
    try:
        async with open_database(settings) as uow:
            space = (await require_space(uow, embedder.model, embedder.dimension)).name
            journal, _records, consent = build_journal_and_consent(uow, space, secret, policies, clock)
            memories = MemoryStorage(uow, space)
            access = AccessLog(uow, journal, clock)
            limits = Limits(policies.limits, None, TenantStorage(uow).get_tenant_name, access, clock)
            write = WriteMemories(memories, journal, access, embedder, limits, policies, clock)
            yield ReflectionParts(uow, space, journal, chat, embedder, policies, clock, write, consent.proposals)
            await access.flush_pending()
    finally:
        await embedder.close()
        await chat.close()


@asynccontextmanager
async def build_standalone_model_report(settings: Settings) -> AsyncIterator[ReportModel]:
    """What the calls of the chat model came to, for operators: needs the database, no model."""
    policies = load_policies(settings.embedding_model, settings.config_dir)
    async with open_database(settings) as uow:
        yield ReportModel(ModelCallStorage(uow), policies.llm, SystemClock())
