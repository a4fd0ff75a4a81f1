"""The builders of the capability `jobs`: run background work, and manage it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.bootstrap.database import open_database
from app.bootstrap.parts import SharedParts
from app.bootstrap.reflection import ReflectionParts, adapt_job_policy, build_reflection_jobs
from app.bootstrap.sources import SourceUseCases
from app.bootstrap.spaces import build_embed_missing
from app.bootstrap.turn_memory import TurnMemoryUseCases
from app.config.loader import load_policies
from app.config.settings import Settings
from app.storage.jobs.jobs import JobStorage
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.consent.consent import Consent
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.jobs.handlers import job_handlers, source_handlers, turn_memory_handlers
from app.usecases.jobs.runner import Jobs, RunJobs
from app.usecases.memory.write import WriteMemories
from app.usecases.retention.forgetting import ForgetMemories


@dataclass(frozen=True, slots=True)
class JobUseCases:
    """The use-cases that run jobs, and that list, pause and replay them."""

    manage: Jobs
    run: RunJobs


def build_jobs(
    parts: SharedParts,
    write: WriteMemories,
    forgetting: ForgetMemories,
    consolidate: Consolidate,
    consent: Consent,
    turn_memory: TurnMemoryUseCases,
    sources: SourceUseCases,
) -> JobUseCases:
    """Build the use-cases of the capability. The runner has a handler for every kind of job."""
    embed = build_embed_missing(parts.uow, parts.space.name, parts.embedder, parts.policies.defaults.query.exact_up_to)
    reflection = ReflectionParts(
        uow=parts.uow,
        space=parts.space.name,
        journal=parts.journal,
        chat=parts.chat,
        embedder=parts.embedder,
        policies=parts.policies,
        clock=parts.clock,
        write=write,
        proposals=consent.proposals,
    )
    policy = adapt_job_policy(parts.policies.defaults.jobs, parts.chat)
    jobs = JobStorage(parts.uow, policy)
    afterwards = build_reflection_jobs(reflection, jobs)
    handlers = job_handlers(forgetting, embed, consolidate, consent, afterwards, sources.cut_turns)
    handlers |= turn_memory_handlers(turn_memory.blobs, turn_memory.reconcile_memory)
    handlers |= source_handlers(sources.index, sources.cut_turns)
    return JobUseCases(
        manage=Jobs(JobStorage(parts.uow, parts.policies.defaults.jobs)),
        run=RunJobs(jobs, TenantStorage(parts.uow), parts.journal, handlers, policy),
    )


@asynccontextmanager
async def open_jobs(settings: Settings) -> AsyncIterator[Jobs]:
    """Open the tenants' jobs alone, for an operator's command. It needs the database, not the model."""
    policies = load_policies(settings.embedding_model, settings.config_dir)
    async with open_database(settings) as uow:
        yield Jobs(JobStorage(uow, policies.jobs))
