"""The builders of the capability `jobs`: run background work, and manage it."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.bootstrap.reflection import ReflectionParts, adapt_job_policy, build_reflection_jobs
from app.bootstrap.sources import SourceUseCases
from app.bootstrap.spaces import build_embed_missing
from app.bootstrap.turn_memory import TurnMemoryUseCases
from app.storage.jobs.jobs import JobRecords, JobStorage
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.consent.consent import Consent
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.jobs.handlers import job_handlers, source_handlers, turn_memory_handlers
from app.usecases.jobs.management import Jobs
from app.usecases.jobs.runner import RunJobs
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
        manage=Jobs(JobRecords(parts.uow)),
        run=RunJobs(jobs, TenantStorage(parts.uow), parts.journal, handlers, policy),
    )
