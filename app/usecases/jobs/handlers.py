"""What each kind of job does. A handler may run more than once for one job, and twice at the same time for two."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

from app.domain.errors import TerminalJobError
from app.domain.jobs.job import Deferral, Job, JobKind, NewJob
from app.domain.outages import ChatModelUnavailable, TokensSpent
from app.domain.principal import Principal
from app.domain.reflection.model_usage import LlmPolicy
from app.ports import Clock
from app.storage.jobs.jobs import JobStorage
from app.usecases.consent.consent import Consent
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.operations.embed_missing import EmbedMissing
from app.usecases.reflection.reflect import Reflect
from app.usecases.retention.forgetting import ForgetMemories

SPREAD_S = 3600.0
"""Over so many seconds after midnight the jobs that waited for its tokens begin."""
REVIVED_OVER_S = 10.0
"""Over so many seconds the jobs that an outage stranded begin."""
Handler: TypeAlias = Callable[[Principal, Job], Awaitable[Mapping[str, Any]]]
"""Does the job and answers its report: JSON, without anything a user wrote."""


class ReflectionJobs:
    """What follows a turn. What needs the chat model is a job of its own: a model that hangs holds nothing else up."""

    def __init__(self, reflect: Reflect, jobs: JobStorage, policy: LlmPolicy, clock: Clock, *, able: bool) -> None:
        self._reflect = reflect
        self._jobs = jobs
        self._policy = policy
        self._clock = clock
        self._able = able

    async def queue_turn(self, scope: Principal, job: Job, memory_id: UUID) -> Mapping[str, Any]:
        """Have the turn of this job reflected on, once."""
        if not self._able:
            return {"why": "no_model"}
        [*ids] = await self._jobs.enqueue_jobs(
            scope, [NewJob(JobKind.reflect_turn, job.user_id, job.payload)], f"turn:{memory_id}"
        )
        return {"queued": len(ids)}

    async def reflect_turn(self, scope: Principal, job: Job) -> Mapping[str, Any]:
        """Reflect on one turn; when the day's tokens are spent it waits for those of the next."""
        turn = _turn_from_job(job)
        try:
            return await self._reflect.reflect_turn(scope, *turn)
        except TokensSpent:
            wait_s = self._policy.wait_s(job.created_at, self._clock.now())
            if wait_s is None:
                return {"why": "spent"}
            why = f"{TokensSpent.code}: waits for the tokens of the next day"
            raise Deferral(wait_s + random.uniform(0, SPREAD_S), why) from None

    async def reflect_pending(self, scope: Principal, job: Job) -> Mapping[str, Any]:
        """Reflect on what was said and not read yet, of one user or all."""
        counts: dict[str, dict[str, int]] = {}
        try:
            revived = await self._revive_turns(scope)
            for kind in Reflect.KINDS:
                total = counts.setdefault(kind, dict.fromkeys(("created", "updated", "tokens"), 0))
                async for made in self._reflect.reflect_waiting(scope, kind, user_id=job.user_id):
                    for name in total:
                        total[name] += getattr(made, name) if made.why is None or name == "tokens" else 0
        except TokensSpent:
            return {**counts, "why": "spent"}
        return {**counts, "revived": revived} if revived else counts

    async def _revive_turns(self, scope: Principal) -> int:
        """Once the model answers again, put back the turns whose attempts an outage used up; how many."""
        since = self._clock.now() - timedelta(days=self._policy.wait_days)
        outage = JobKind.reflect_turn, since, ChatModelUnavailable.code
        if not await self._jobs.has_stranded(scope, *outage):
            return 0
        await self._reflect.probe_model(scope)
        return await self._jobs.revive_jobs(scope, *outage, REVIVED_OVER_S)


def job_handlers(
    lifecycle: ForgetMemories,
    embed: EmbedMissing,
    consolidate: Consolidate,
    consent: Consent,
    afterwards: ReflectionJobs,
) -> dict[JobKind, Handler]:
    """The handlers by kind. A kind without one is not scheduled here."""

    async def embed_all(scope: Principal, _job: Job) -> Mapping[str, Any]:
        return await embed.embed_all(scope)

    async def consolidate_memories(scope: Principal, job: Job) -> Mapping[str, Any]:
        report = await consolidate.consolidate_users(scope, user_id=job.user_id)
        if report.unanswered:  # what could be done is done; the rest is tried again with a growing pause
            raise ChatModelUnavailable(report.fault or None)
        return report.as_json()

    async def after_turn(scope: Principal, job: Job) -> Mapping[str, Any]:
        user_id, thread_id, memory_id = _turn_from_job(job)
        answer = await consent.chat.settle_question(scope, thread_id)  # first: nobody's consent waits for a model
        embedded = await embed.embed_one(scope, memory_id)
        evicted = await lifecycle.evict_thread(scope, user_id, thread_id)
        done: dict[str, Any] = {"embedded": embedded, "evicted": evicted.counts["memories"]}
        done["reflect"] = await afterwards.queue_turn(scope, job, memory_id)
        return done if answer is None else {**done, "consent": answer}

    async def expire_proposals(scope: Principal, _job: Job) -> Mapping[str, Any]:
        return {"expired": await consent.expire_patches(scope)}

    swept = {JobKind(name): _forgetting_handler(lifecycle, name) for name in ForgetMemories.JOBS}
    ours = {JobKind.consolidate: consolidate_memories, JobKind.consent: expire_proposals, JobKind.embed: embed_all}
    reflecting = {JobKind.reflect_turn: afterwards.reflect_turn, JobKind.reflect: afterwards.reflect_pending}
    return {**swept, **ours, JobKind.after_turn: after_turn, **reflecting}


def _forgetting_handler(lifecycle: ForgetMemories, name: str) -> Handler:
    async def run_forgetting(scope: Principal, _job: Job) -> Mapping[str, Any]:
        report = asdict(await lifecycle.run_job(scope, name))
        return report | {"sample": [str(memory_id) for memory_id in report["sample"]]}

    return run_forgetting


def _turn_from_job(job: Job) -> tuple[str, str, UUID]:
    """User, thread and turn; raises TerminalJobError."""
    try:
        memory_id, thread_id = UUID(str(job.payload["memory_id"])), job.payload["thread_id"]
        if not isinstance(thread_id, str):
            raise TypeError
    except (KeyError, TypeError, ValueError) as error:
        raise TerminalJobError("its payload names no turn") from error
    if job.user_id is None:
        raise TerminalJobError("it names no user")
    return job.user_id, thread_id, memory_id
