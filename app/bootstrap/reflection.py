"""What a chat model is asked through, and by whom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.bootstrap.adapters import chat_model_settings, embedder_settings
from app.bootstrap.database import database
from app.bootstrap.recording import recording
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
from app.storage.reflection.fact_extraction import TurnFacts
from app.storage.reflection.model_calls import LlmStorage
from app.storage.reflection.reconcile import ReconcileStorage
from app.storage.reflection.transcripts import ReflectionStorage
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.consent.generated_proposals import ProposeTold
from app.usecases.consent.proposals import Proposals
from app.usecases.jobs.handlers import Afterwards
from app.usecases.memory.write import WriteMemories
from app.usecases.reflection.episodes import CaptureEpisodes
from app.usecases.reflection.fact_extraction import ExtractFacts
from app.usecases.reflection.generated_memories import KeepReflections
from app.usecases.reflection.insights import DrawInsights
from app.usecases.reflection.model_gateway import AskModel
from app.usecases.reflection.model_report import ReportModel
from app.usecases.reflection.reconcile import Reconcile
from app.usecases.reflection.reflect import Reflect
from app.usecases.reflection.same_fact_judge import ModelJudge
from app.usecases.reflection.summaries import Summarise
from app.usecases.tenancy.limits import Limits


def asking(uow: UnitOfWork, journal: Journal, chat: ChatModel, policies: Policies, clock: Clock) -> AskModel:
    """The way to the model."""
    return AskModel(chat, LlmStorage(uow), journal, policies.llm, clock)


def judging(ask: AskModel, policies: Policies) -> SameFactJudge | None:
    """The judge of consolidation; None without a model."""
    numeric = tuple(c.name for c in policies.categories.categories.values() if c.numeric_update)
    return ModelJudge(ask, numeric) if ask.able else None


@dataclass(frozen=True, slots=True)
class Parts:
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

    def ask(self) -> AskModel:
        """The way to the model."""
        return asking(self.uow, self.journal, self.chat, self.policies, self.clock)


def extracting(of: Parts, ask: AskModel) -> ExtractFacts:
    """What makes facts of long turns."""
    around = ReconcileStorage(of.uow, of.space)
    reconcile = Reconcile(ask, of.write, around, of.journal, of.policies, of.clock)
    turns = TurnFacts(of.uow, MemoryStorage(of.uow, of.space))
    consent = ProposeTold(of.proposals, of.policies.consent)
    return ExtractFacts(ask, reconcile, turns, of.journal, of.policies, of.clock, consent)


def reflecting(of: Parts) -> Reflect:
    """All that is made of what is said."""
    ask, storage = of.ask(), ReflectionStorage(of.space)
    keep = KeepReflections(of.uow, storage, of.journal, of.embedder, of.policies, of.clock)
    insights = DrawInsights(ask, keep, ProposeTold(of.proposals, of.policies.consent))
    return Reflect(ask, extracting(of, ask), CaptureEpisodes(ask, keep), Summarise(ask, keep), insights, keep)


def afterwards(of: Parts, jobs: JobStorage) -> Afterwards:
    """What follows a turn."""
    return Afterwards(reflecting(of), jobs, of.policies.llm, of.clock, able=of.chat.answers)


def scheduled(policy: JobPolicy, chat: ChatModel) -> JobPolicy:
    """Without a model nothing is queued that needs one."""
    return policy if chat.answers else policy.without(JobKind.reflect)


@asynccontextmanager
async def reflection(settings: Settings) -> AsyncIterator[Reflect]:
    """Reflection alone, for operators: needs the database, the embedder and the chat model."""
    async with _by_hand(settings) as parts:
        yield reflecting(parts)


@asynccontextmanager
async def extraction(settings: Settings) -> AsyncIterator[ExtractFacts]:
    """Facts out of turns alone, for operators: needs the database, the embedder and the chat model."""
    async with _by_hand(settings) as parts:
        yield extracting(parts, parts.ask())


@asynccontextmanager
async def _by_hand(settings: Settings) -> AsyncIterator[Parts]:
    clock, secret = SystemClock(), settings.erasure_secret()
    policies = load_policies(settings.embedding_model, settings.config_dir)
    chat, embedder = build_chat_model(chat_model_settings(settings)), build_embedder(embedder_settings(settings))
    try:
        async with database(settings) as uow:
            space = (await require_space(uow, embedder.model, embedder.dimension)).name
            journal, _records, consent = recording(uow, space, secret, policies, clock)
            memories = MemoryStorage(uow, space)
            access = AccessLog(uow, journal, clock)
            limits = Limits(policies.limits, None, TenantStorage(uow).name, access, clock)
            write = WriteMemories(memories, journal, access, embedder, limits, policies, clock)
            yield Parts(uow, space, journal, chat, embedder, policies, clock, write, consent.proposals)
            await access.flush()
    finally:
        await embedder.close()
        await chat.close()


@asynccontextmanager
async def accounting(settings: Settings) -> AsyncIterator[ReportModel]:
    """What the calls of the chat model came to, for operators: needs the database, no model."""
    policies = load_policies(settings.embedding_model, settings.config_dir)
    async with database(settings) as uow:
        yield ReportModel(LlmStorage(uow), policies.llm, SystemClock())
