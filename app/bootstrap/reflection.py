"""The builders of the capability `reflection`: the model gateway and what a chat model makes of conversations."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.bootstrap.adapters import chat_model_settings, embedder_settings
from app.bootstrap.consent import build_consent
from app.bootstrap.database import open_clock, open_database
from app.bootstrap.model import choose_model
from app.bootstrap.policies import load_tenant_policies
from app.config.loader import Policies, load_policies
from app.config.settings import Settings
from app.config.tenant_policies import TenantPolicies
from app.domain.jobs.job import JobKind, JobPolicy
from app.ports import ChatModel, Clock, Embedder, SameFactJudge
from app.providers.chat_models import build_chat_model
from app.providers.embeddings import build_embedder
from app.storage.access_log import AccessLog
from app.storage.facts.facts import FactStorage
from app.storage.jobs.jobs import JobStorage
from app.storage.journal import Journal
from app.storage.memory.memories import MemoryStorage
from app.storage.operations.spaces import require_space
from app.storage.operations.vectors import VectorStorage
from app.storage.reflection.commands import CommandStorage
from app.storage.reflection.fact_extraction import TurnFactStorage
from app.storage.reflection.model_calls import ModelCallStorage
from app.storage.reflection.reconcile import ReconcileStorage
from app.storage.reflection.transcripts import ReflectionStorage
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.consent.proposals import Proposals, ProposeProfileFields
from app.usecases.facts.turns import EmbedFactMemories, ReadTurnFacts
from app.usecases.jobs.handlers import ReflectionJobs
from app.usecases.memory.closing import CloseSpans
from app.usecases.memory.later_check import LaterCheck
from app.usecases.memory.write import WriteMemories
from app.usecases.reflection.capture import CaptureFacts
from app.usecases.reflection.commands import ObeyTurn
from app.usecases.reflection.episodes import CaptureEpisodes
from app.usecases.reflection.fact_extraction import ExtractFacts
from app.usecases.reflection.generated_memories import GeneratedMemoryWriter
from app.usecases.reflection.insights import DrawInsights
from app.usecases.reflection.model_gateway import ModelGateway, ReportModel
from app.usecases.reflection.read_cursor import ReadCursor
from app.usecases.reflection.reconcile import Reconcile
from app.usecases.reflection.reflect import Reflect
from app.usecases.reflection.same_fact_judge import ModelJudge
from app.usecases.reflection.summaries import SummariseThreads
from app.usecases.reflection.workflows import LearnWorkflows
from app.usecases.tenancy.limits import Limits


def build_model_gateway(
    uow: UnitOfWork, journal: Journal, chat: ChatModel, policies: Policies, clock: Clock
) -> ModelGateway:
    """Build the gateway that every call of the chat model goes through."""
    return ModelGateway(chat, ModelCallStorage(uow), journal, policies.llm, clock)


def build_same_fact_judge(gateway: ModelGateway, policies: TenantPolicies) -> SameFactJudge | None:
    """Build the judge of consolidation; return None without a chat model."""
    return ModelJudge(gateway, policies) if gateway.has_model else None


@dataclass(frozen=True, slots=True)
class ReflectionParts:
    """The parts of reflection. `space`: the name of the active embedding space."""

    uow: UnitOfWork
    space: str
    journal: Journal
    chat: ChatModel
    embedder: Embedder
    policies: TenantPolicies
    clock: Clock
    write: WriteMemories
    proposals: Proposals

    def model_gateway(self) -> ModelGateway:
        """Build the gateway that every call of the chat model goes through."""
        return build_model_gateway(self.uow, self.journal, self.chat, self.policies.defaults, self.clock)


def build_fact_extraction(parts: ReflectionParts, gateway: ModelGateway) -> ExtractFacts:
    """Build the extraction of facts from turns."""
    around = ReconcileStorage(parts.uow, parts.space)
    reconcile = Reconcile(gateway, parts.write, around, parts.journal, parts.policies, parts.clock)
    turns = TurnFactStorage(parts.uow, MemoryStorage(parts.uow, parts.space))
    consent = ProposeProfileFields(parts.proposals, parts.policies)
    return ExtractFacts(gateway, reconcile, turns, parts.journal, parts.policies, parts.clock, consent)


def build_capture(parts: ReflectionParts) -> CaptureFacts:
    """Build the capture of plainly stated facts."""
    turns = TurnFactStorage(parts.uow, MemoryStorage(parts.uow, parts.space))
    consent = ProposeProfileFields(parts.proposals, parts.policies)
    return CaptureFacts(parts.write, turns, parts.journal, parts.policies, parts.clock, consent)


def build_commands(parts: ReflectionParts) -> ObeyTurn:
    """Build the obedience to what turns say of stored statements."""
    turns = TurnFactStorage(parts.uow, MemoryStorage(parts.uow, parts.space))
    storage = CommandStorage(parts.uow, parts.space)
    return ObeyTurn(turns, storage, parts.journal, parts.policies, parts.clock)


def build_reflection(parts: ReflectionParts) -> Reflect:
    """Build everything that a chat model makes of conversations."""
    gateway = parts.model_gateway()
    cursor = ReadCursor(parts.uow, ReflectionStorage(parts.space), parts.policies, parts.clock)
    writer = GeneratedMemoryWriter(cursor, parts.journal, parts.embedder)
    insights = DrawInsights(gateway, writer, ProposeProfileFields(parts.proposals, parts.policies))
    episodes = CaptureEpisodes(gateway, writer)
    summaries = SummariseThreads(gateway, writer)
    turns = TurnFactStorage(parts.uow, MemoryStorage(parts.uow, parts.space))
    workflows = LearnWorkflows(gateway, parts.write, turns, parts.journal, parts.policies, parts.clock)
    facts = build_fact_extraction(parts, gateway)
    return Reflect(gateway, facts, episodes, summaries, insights, workflows, cursor)


def build_reflection_jobs(parts: ReflectionParts, jobs: JobStorage) -> ReflectionJobs:
    """Build the handler of the jobs that follow a turn."""
    return ReflectionJobs(
        build_reflection(parts),
        build_capture(parts),
        build_commands(parts),
        jobs,
        parts.policies.defaults.llm,
        parts.clock,
        has_model=parts.chat.is_available,
    )


def adapt_job_policy(policy: JobPolicy, chat: ChatModel) -> JobPolicy:
    """Return the policy without the job kinds that need a chat model, if there is none."""
    return policy if chat.is_available else policy.without_kind(JobKind.reflect)


@asynccontextmanager
async def open_reflection(settings: Settings) -> AsyncIterator[Reflect]:
    """Open reflection alone, for an operator's command. It needs the database, the embedder and the chat model."""
    async with _open_parts(settings) as parts:
        yield build_reflection(parts)


@asynccontextmanager
async def open_fact_extraction(settings: Settings) -> AsyncIterator[ExtractFacts]:
    """Open fact extraction alone, for an operator's command. It needs the database, the embedder and the chat model."""
    async with _open_parts(settings) as parts:
        yield build_fact_extraction(parts, parts.model_gateway())


@asynccontextmanager
async def _open_parts(settings: Settings) -> AsyncIterator[ReflectionParts]:
    secret = settings.erasure_secret()
    settings = await choose_model(settings)
    chat = build_chat_model(chat_model_settings(settings))
    embedder = build_embedder(embedder_settings(settings))
    try:
        async with open_database(settings) as uow:
            space = (await require_space(uow, embedder.model, embedder.dimension)).name
            policies = await load_tenant_policies(settings, uow)
            journal = Journal(uow, space, secret)
            clock = await open_clock(uow)
            consent = build_consent(uow, journal, secret, policies, clock)
            memories = MemoryStorage(uow, space)
            access = AccessLog(uow, journal, clock)
            limits = Limits(policies.defaults.limits, None, TenantStorage(uow).get_tenant_name, access, clock)
            later = LaterCheck(None, policies.defaults.bands)  # facts of turns are judged already
            told = EmbedFactMemories(VectorStorage(uow, space), embedder)
            facts = ReadTurnFacts(FactStorage(uow), policies)
            closing = CloseSpans(uow, memories, journal, policies, clock)
            write = WriteMemories(
                memories, journal, access, embedder, told, limits, policies, clock, later, facts, closing
            )
            yield ReflectionParts(uow, space, journal, chat, embedder, policies, clock, write, consent.proposals)
            await access.flush_pending()
    finally:
        await embedder.close()
        await chat.close()


@asynccontextmanager
async def open_model_report(settings: Settings) -> AsyncIterator[ReportModel]:
    """Open the report on the calls of the chat model. It needs the database, no model."""
    policies = load_policies(settings.embedding_model, settings.config_dir)
    async with open_database(settings) as uow:
        yield ReportModel(ModelCallStorage(uow), policies.llm, await open_clock(uow))
