"""What each kind of job does. A handler may run more than once for one job, and twice at the same time for two."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias
from uuid import UUID

from app.domain.errors import ChatModelUnavailable, TerminalJobError
from app.domain.jobs import Job, JobKind
from app.domain.scope import Scope
from app.usecases.memories.consent import Consent
from app.usecases.memories.consolidation import Consolidate
from app.usecases.memories.embed import EmbedMissing
from app.usecases.memories.lifecycle import Lifecycle
from app.usecases.memories.multi_fact import ExtractFacts

Handler: TypeAlias = Callable[[Scope, Job], Awaitable[Mapping[str, Any]]]
"""Does the job and answers its report: JSON, without anything a user wrote."""


def job_handlers(
    lifecycle: Lifecycle, embed: EmbedMissing, consolidate: Consolidate, consent: Consent, facts: ExtractFacts
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
        return await _after_turn(scope, job, lifecycle, embed, consent, facts)

    async def expire(scope: Scope, _job: Job) -> Mapping[str, Any]:
        return {"expired": await consent.expire(scope)}

    swept = {JobKind(name): _lifecycle(lifecycle, name) for name in Lifecycle.JOBS}
    ours = {JobKind.consolidate: merge, JobKind.consent: expire, JobKind.embed: embed_all}
    return {**swept, **ours, JobKind.after_turn: after_turn}


def _lifecycle(lifecycle: Lifecycle, name: str) -> Handler:
    async def swept(scope: Scope, _job: Job) -> Mapping[str, Any]:
        report = asdict(await lifecycle.run(scope, name))
        return report | {"sample": [str(memory_id) for memory_id in report["sample"]]}

    return swept


async def _after_turn(
    scope: Scope, job: Job, lifecycle: Lifecycle, embed: EmbedMissing, consent: Consent, facts: ExtractFacts
) -> Mapping[str, Any]:
    try:
        memory_id, thread_id, user_id = UUID(str(job.payload["memory_id"])), job.payload["thread_id"], job.user_id
        if not isinstance(thread_id, str):
            raise TypeError
    except (KeyError, TypeError, ValueError) as error:
        raise TerminalJobError("its payload names no turn") from error
    if user_id is None:
        raise TerminalJobError("it names no user")
    answer = await consent.chat.settle(scope, thread_id)  # first: nobody's consent waits for a model
    embedded = await embed.one(scope, memory_id)
    evicted = await lifecycle.evict_thread(scope, user_id, thread_id)
    made = await facts.turn(scope, memory_id)  # last: a model that is away holds nothing else up
    done = {"embedded": embedded, "evicted": evicted.counts["memories"], "multi_fact": made.as_json()}
    return done if answer is None else {**done, "consent": answer}
