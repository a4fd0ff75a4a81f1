"""Handlers by kind of job. A handler may run more than once for one job, and concurrently for several jobs."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

from app.domain.errors import TerminalJobError
from app.domain.jobs.job import RULES, WAITS_FOR_MODEL, Deferral, Job, JobKind, NewJob
from app.domain.outages import ChatModelUnavailable, TokensSpent, TurnUnreadable, UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.model_usage import LlmPolicy
from app.domain.turn_memory.artifacts import Conversation
from app.ports import Clock
from app.storage.jobs.jobs import JobStorage
from app.usecases.consent.consent import Consent
from app.usecases.consolidation.consolidate import Consolidate
from app.usecases.operations.embed_missing import EmbedMissing
from app.usecases.reflection.capture import CaptureFacts
from app.usecases.reflection.commands import ObeyTurn
from app.usecases.reflection.reflect import Reflect
from app.usecases.retention.forgetting import ForgetMemories
from app.usecases.sources.index import IndexSources
from app.usecases.sources.turn_chunks import CutTurns
from app.usecases.turn_memory.blobs import StoreBlobs
from app.usecases.turn_memory.memory_reconcile import ReconcileMemory

SPREAD_S = 3600.0
"""Seconds after midnight (UTC) over which the jobs that waited for the new day's tokens start."""
UNREADABLE_WAIT_S = 86_400.0
"""Seconds after which a turn that the chat model could not read is tried again."""
REVIVED_OVER_S = 10.0
"""Seconds over which the jobs that an outage stranded start."""
Handler: TypeAlias = Callable[[Principal, Job], Awaitable[Mapping[str, Any]]]
"""A function that does a job and returns its report: JSON without any text of a user."""


@dataclass(frozen=True)
class ReflectionJobs:
    """The jobs that reflect on turns. They are separate jobs, so a chat model that hangs blocks nothing else."""

    reflect: Reflect
    capture: CaptureFacts
    obey: ObeyTurn
    jobs: JobStorage
    policy: LlmPolicy
    clock: Clock
    _: KW_ONLY
    has_model: bool

    async def capture_turn(self, principal: Principal, memory_id: UUID) -> Mapping[str, Any]:
        """Store what a turn plainly states. A chat model reads the turn afterwards."""
        return (await self.capture.capture_turn(principal, memory_id)).as_json()

    async def obey_turn(self, principal: Principal, memory_id: UUID) -> Mapping[str, Any]:
        """Carry out what a turn says of statements that are stored already."""
        return await self.obey.obey_turn(principal, memory_id)

    async def queue_turn(self, principal: Principal, job: Job, memory_id: UUID) -> Mapping[str, Any]:
        """Queue the reflection on the turn of `job`, once for each turn. Do nothing without a chat model."""
        if why := self._find_why_unread(job):
            return {"why": why}
        [*ids] = await self.jobs.enqueue_jobs(
            principal, [NewJob(JobKind.reflect_turn, job.user_id, job.payload)], f"turn:{memory_id}"
        )
        return {"queued": len(ids)}

    async def reflect_turn(self, principal: Principal, job: Job) -> Mapping[str, Any]:
        """Reflect on one turn. Raise Deferral until the next day (UTC) if the day's tokens are spent.

        A turn that the model cannot read waits a day, or until there is another model. A job that waited too long for
        tokens ends; the plain facts of its turn are captured already. Facts beyond a limit wait in a job of another
        day, the turn's next round. Raise TurnUnreadable for a turn that no model could read for `wait_days`.
        """
        user_id, thread_id, memory_id = _turn_from_job(job)
        number = _round_from_job(job)
        report: dict[str, Any] = {}
        if number:
            report["capture"] = await self.capture_turn(principal, memory_id)
        if why := self._find_why_unread(job):
            await self.defer_facts(principal, job, report)
            return report or {"why": why}
        try:
            report |= await self.reflect.reflect_turn(principal, user_id, thread_id, memory_id, number)
            await self.defer_facts(principal, job, report)
            return report
        except TokensSpent:
            wait_s = self.policy.wait_s(job.created_at, self.clock.now())
            if wait_s is None:
                return {"why": "spent"}
            why = f"{TokensSpent.code}: the job waits for the next day's tokens"
            raise Deferral(wait_s + random.uniform(0, SPREAD_S), why) from None
        except UnusableAnswer as error:
            if self.clock.now() - job.created_at >= timedelta(days=self.policy.wait_days):
                raise TurnUnreadable(error.detail) from None
            raise Deferral(UNREADABLE_WAIT_S, self._reason_to_wait) from None

    def _find_why_unread(self, job: Job) -> str | None:
        """Return why no chat model reads the turn of a job, None if one does."""
        if job.payload.get("learn") == RULES:
            return RULES
        return None if self.has_model else "no_model"

    @property
    def _reason_to_wait(self) -> str:
        return f"{WAITS_FOR_MODEL}the job waits a day, or for another model than {self.reflect.model_name}"

    async def defer_facts(self, principal: Principal, job: Job, report: Mapping[str, Any]) -> None:
        """Queue the next round of a turn for the next day, if its readers deferred facts. Give up after `wait_days`."""
        number = _round_from_job(job) + 1
        wait_s = self.policy.wait_s(job.created_at, self.clock.now())
        readers = (report.get(reader, {}) for reader in ("capture", "multi_fact"))
        if not any(reader.get("deferred") for reader in readers) or wait_s is None or number > self.policy.wait_days:
            return
        _, _, memory_id = _turn_from_job(job)
        payload = {**job.payload, "round": number}
        next_round = NewJob(JobKind.reflect_turn, job.user_id, payload)
        slot = f"turn:{memory_id}:{number}"
        await self.jobs.enqueue_jobs(principal, [next_round], slot, wait_s + random.uniform(0, SPREAD_S))

    async def reflect_pending(self, principal: Principal, job: Job) -> Mapping[str, Any]:
        """Reflect on the unread turns of the job's user, or of all users. Return counts by kind of memory."""
        counts: dict[str, dict[str, int]] = {}
        try:
            revived = await self._revive_turns(principal)
            revived += await self.jobs.wake_jobs(
                principal, JobKind.reflect_turn, WAITS_FOR_MODEL, self._reason_to_wait, REVIVED_OVER_S
            )
            for kind in Reflect.KINDS:
                total = counts.setdefault(kind, dict.fromkeys(("created", "updated", "tokens"), 0))
                async for result in self.reflect.reflect_waiting(principal, kind, user_id=job.user_id):
                    for name in total:
                        total[name] += getattr(result, name) if result.why is None or name == "tokens" else 0
        except TokensSpent:
            return {**counts, "why": "spent"}
        return {**counts, "revived": revived} if revived else counts

    async def _revive_turns(self, principal: Principal) -> int:
        """Queue again the turns whose attempts an outage used up, once the model answers. Return how many."""
        since = self.clock.now() - timedelta(days=self.policy.wait_days)
        if not await self.jobs.has_stranded(principal, JobKind.reflect_turn, since, ChatModelUnavailable.code):
            return 0
        await self.reflect.probe_model(principal)
        return await self.jobs.revive_jobs(
            principal, JobKind.reflect_turn, since, ChatModelUnavailable.code, REVIVED_OVER_S
        )


def job_handlers(
    lifecycle: ForgetMemories,
    embed: EmbedMissing,
    consolidate: Consolidate,
    consent: Consent,
    afterwards: ReflectionJobs,
    cut_turns: CutTurns,
) -> dict[JobKind, Handler]:
    """Return the handlers by kind. A worker does not schedule a kind without a handler."""

    async def embed_all(principal: Principal, _job: Job) -> Mapping[str, Any]:
        return await embed.embed_all(principal)

    async def consolidate_memories(principal: Principal, job: Job) -> Mapping[str, Any]:
        report = await consolidate.consolidate_users(principal, user_id=job.user_id)
        if report.unanswered:  # the other pairs are done; the error makes the runner retry these with backoff
            raise ChatModelUnavailable(report.fault or None)
        return report.as_json()

    async def after_turn(principal: Principal, job: Job) -> Mapping[str, Any]:
        user_id, thread_id, memory_id = _turn_from_job(job)
        # first, so that consent never waits for a model
        answer = await consent.chat.settle_question(principal, thread_id)
        embedded = await embed.embed_one(principal, memory_id)
        evicted = await lifecycle.evict_thread(principal, user_id, thread_id)
        report: dict[str, Any] = {"embedded": embedded, "evicted": evicted.counts["memories"]}
        if obeyed := await afterwards.obey_turn(principal, memory_id):
            report["commands"] = obeyed
        report["capture"] = await afterwards.capture_turn(principal, memory_id)
        report["reflect"] = await afterwards.queue_turn(principal, job, memory_id)
        await afterwards.defer_facts(principal, job, report)
        if chunks := await cut_turns.cut_turn(principal, memory_id):
            report["chunks"] = chunks
        return report if answer is None else {**report, "consent": answer}

    async def expire_proposals(principal: Principal, _job: Job) -> Mapping[str, Any]:
        return {"expired": await consent.expire_patches(principal)}

    forgetting = {JobKind(name): _forgetting_handler(lifecycle, name) for name in ForgetMemories.JOBS}
    upkeep = {JobKind.consolidate: consolidate_memories, JobKind.consent: expire_proposals, JobKind.embed: embed_all}
    writes = {JobKind.after_turn: after_turn, JobKind.same_fact: _same_fact_handler(consolidate)}
    reflection = {JobKind.reflect_turn: afterwards.reflect_turn, JobKind.reflect: afterwards.reflect_pending}
    return {**forgetting, **upkeep, **writes, **reflection}


def _forgetting_handler(lifecycle: ForgetMemories, name: str) -> Handler:
    async def run_forgetting(principal: Principal, _job: Job) -> Mapping[str, Any]:
        report = asdict(await lifecycle.run_job(principal, name))
        return report | {"sample": [str(memory_id) for memory_id in report["sample"]]}

    return run_forgetting


def turn_memory_handlers(blobs: StoreBlobs, memory: ReconcileMemory) -> dict[JobKind, Handler]:
    """Return the handlers of turn memory by kind."""

    async def sweep_blobs(principal: Principal, _job: Job) -> Mapping[str, Any]:
        return asdict(await blobs.sweep_blobs(principal))

    async def reconcile_memory(principal: Principal, job: Job) -> Mapping[str, Any]:
        return await memory.reconcile_conversation(principal, _conversation_from_job(job))

    return {JobKind.blobs: sweep_blobs, JobKind.memory_reconcile: reconcile_memory}


def source_handlers(index: IndexSources, cut_turns: CutTurns) -> dict[JobKind, Handler]:
    """Return the handlers of sources by kind."""

    async def cut_turn(principal: Principal, job: Job) -> Mapping[str, Any]:
        try:
            memory_id = UUID(str(job.payload["memory_id"]))
        except (KeyError, ValueError) as error:
            raise TerminalJobError("the payload needs a memory_id (a UUID)") from error
        return {"chunks": await cut_turns.cut_turn(principal, memory_id)}

    return {JobKind.index_source: index.run_job, JobKind.turn_chunks: cut_turn}


def _same_fact_handler(consolidate: Consolidate) -> Handler:
    async def check_same_fact(principal: Principal, job: Job) -> Mapping[str, Any]:
        user_id, *ids = _memories_from_job(job)
        report = await consolidate.check_memories(principal, user_id, *ids)
        if report.unanswered:
            raise ChatModelUnavailable(report.fault or None)
        return report.as_json()

    return check_same_fact


def _turn_from_job(job: Job) -> tuple[str, str, UUID]:
    """Return user_id, thread_id and the turn's memory id. Raise TerminalJobError if the job lacks one of them."""
    try:
        memory_id = UUID(str(job.payload["memory_id"]))
        thread_id = job.payload["thread_id"]
        if not isinstance(thread_id, str):
            raise TypeError
    except (KeyError, TypeError, ValueError) as error:
        raise TerminalJobError("the payload needs a memory_id (a UUID) and a thread_id (a string)") from error
    if job.user_id is None:
        raise TerminalJobError("the job needs a user_id")
    return job.user_id, thread_id, memory_id


def _round_from_job(job: Job) -> int:
    """Return the round of a turn's job: 0 for the first one."""
    number = job.payload.get("round", 0)
    if not isinstance(number, int) or number < 0:
        raise TerminalJobError("the payload needs a round (an integer from 0)")
    return number


def _conversation_from_job(job: Job) -> Conversation:
    """Return the conversation of a job. Raise TerminalJobError if the job lacks it or its user."""
    conversation_id = job.payload.get("conversation_id")
    if job.user_id is None or not isinstance(conversation_id, str):
        raise TerminalJobError("the job needs a user_id, its payload a conversation_id (a string)")
    return Conversation(job.user_id, conversation_id)


def _memories_from_job(job: Job) -> tuple[str, list[UUID], list[UUID]]:
    """Return user_id, the new memories and their neighbours. Raise TerminalJobError if the job lacks one of them."""
    try:
        new, neighbours = ([UUID(str(one)) for one in job.payload[name]] for name in ("memory_ids", "neighbours"))
    except (KeyError, TypeError, ValueError) as error:
        raise TerminalJobError("the payload needs memory_ids and neighbours (lists of UUIDs)") from error
    if job.user_id is None:
        raise TerminalJobError("the job needs a user_id")
    return job.user_id, new, neighbours
