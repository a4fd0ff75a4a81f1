"""What each kind of job does. A handler may run more than once for one job, and twice at the same time for two."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

from app.domain.errors import TerminalJobError
from app.domain.jobs.job import Job, JobKind, NewJob, PutOff
from app.domain.outages import ChatModelUnavailable, TokensSpent
from app.domain.principal import Scope
from app.domain.reflection.model_usage import LlmPolicy
from app.ports import Clock
from app.storage.jobs.jobs import JobStorage
from app.usecases.consent.consent import Consent
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.operations.embed_missing import EmbedMissing
from app.usecases.reflection.reflect import Reflect
from app.usecases.retention.forgetting import Lifecycle

SPREAD_S = 3600.0
"""Over so many seconds after midnight the jobs that waited for its tokens begin."""
REVIVED_OVER_S = 10.0
"""Over so many seconds the jobs that an outage stranded begin."""
Handler: TypeAlias = Callable[[Scope, Job], Awaitable[Mapping[str, Any]]]
"""Does the job and answers its report: JSON, without anything a user wrote."""


class Afterwards:
    """What follows a turn. What needs the chat model is a job of its own: a model that hangs holds nothing else up."""

    def __init__(self, reflect: Reflect, jobs: JobStorage, policy: LlmPolicy, clock: Clock, *, able: bool) -> None:
        self._reflect = reflect
        self._jobs = jobs
        self._policy = policy
        self._clock = clock
        self._able = able

    async def queue(self, scope: Scope, job: Job, memory_id: UUID) -> Mapping[str, Any]:
        """Have the turn of this job reflected on, once."""
        if not self._able:
            return {"why": "no_model"}
        [*ids] = await self._jobs.enqueue(
            scope, [NewJob(JobKind.reflect_turn, job.user_id, job.payload)], f"turn:{memory_id}"
        )
        return {"queued": len(ids)}

    async def turn(self, scope: Scope, job: Job) -> Mapping[str, Any]:
        """Reflect on one turn; when the day's tokens are spent it waits for those of the next."""
        turn = _turn_of(job)
        try:
            return await self._reflect.turn(scope, *turn)
        except TokensSpent:
            wait_s = self._policy.wait_s(job.created_at, self._clock.now())
            if wait_s is None:
                return {"why": "spent"}
            why = f"{TokensSpent.code}: waits for the tokens of the next day"
            raise PutOff(wait_s + random.uniform(0, SPREAD_S), why) from None

    async def quiet(self, scope: Scope, job: Job) -> Mapping[str, Any]:
        """Reflect on what was said and not read yet, of one user or all."""
        counts: dict[str, dict[str, int]] = {}
        try:
            revived = await self._revive(scope)
            for kind in Reflect.KINDS:
                total = counts.setdefault(kind, dict.fromkeys(("created", "updated", "tokens"), 0))
                async for made in self._reflect.waiting(scope, kind, user_id=job.user_id):
                    for name in total:
                        total[name] += getattr(made, name) if made.why is None or name == "tokens" else 0
        except TokensSpent:
            return {**counts, "why": "spent"}
        return {**counts, "revived": revived} if revived else counts

    async def _revive(self, scope: Scope) -> int:
        """Once the model answers again, put back the turns whose attempts an outage used up; how many."""
        since = self._clock.now() - timedelta(days=self._policy.wait_days)
        outage = JobKind.reflect_turn, since, ChatModelUnavailable.code
        if not await self._jobs.stranded(scope, *outage):
            return 0
        await self._reflect.check(scope)
        return await self._jobs.revive(scope, *outage, REVIVED_OVER_S)


def job_handlers(
    lifecycle: Lifecycle, embed: EmbedMissing, consolidate: Consolidate, consent: Consent, afterwards: Afterwards
) -> dict[JobKind, Handler]:
    """The handlers by kind. A kind without one is not scheduled here."""

    async def embed_all(scope: Scope, _job: Job) -> Mapping[str, Any]:
        return await embed.all(scope)

    async def merge(scope: Scope, job: Job) -> Mapping[str, Any]:
        report = await consolidate.run(scope, user_id=job.user_id)
        if report.unanswered:  # what could be done is done; the rest is tried again with a growing pause
            raise ChatModelUnavailable(report.fault or None)
        return report.as_json()

    async def after_turn(scope: Scope, job: Job) -> Mapping[str, Any]:
        user_id, thread_id, memory_id = _turn_of(job)
        answer = await consent.chat.settle(scope, thread_id)  # first: nobody's consent waits for a model
        embedded = await embed.one(scope, memory_id)
        evicted = await lifecycle.evict_thread(scope, user_id, thread_id)
        done: dict[str, Any] = {"embedded": embedded, "evicted": evicted.counts["memories"]}
        done["reflect"] = await afterwards.queue(scope, job, memory_id)
        return done if answer is None else {**done, "consent": answer}

    async def expire(scope: Scope, _job: Job) -> Mapping[str, Any]:
        return {"expired": await consent.expire(scope)}

    swept = {JobKind(name): _lifecycle(lifecycle, name) for name in Lifecycle.JOBS}
    ours = {JobKind.consolidate: merge, JobKind.consent: expire, JobKind.embed: embed_all}
    reflecting = {JobKind.reflect_turn: afterwards.turn, JobKind.reflect: afterwards.quiet}
    return {**swept, **ours, JobKind.after_turn: after_turn, **reflecting}


def _lifecycle(lifecycle: Lifecycle, name: str) -> Handler:
    async def swept(scope: Scope, _job: Job) -> Mapping[str, Any]:
        report = asdict(await lifecycle.run(scope, name))
        return report | {"sample": [str(memory_id) for memory_id in report["sample"]]}

    return swept


def _turn_of(job: Job) -> tuple[str, str, UUID]:
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
