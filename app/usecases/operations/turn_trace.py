"""The trace of a turn: what the background work made of it, and why nothing was remembered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.domain.errors import NotFound
from app.domain.jobs.job import RULES
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.principal import Principal
from app.domain.reflection.echoes import strip_echoes
from app.domain.reflection.turn_trace import (
    Band,
    JobStatus,
    Reading,
    SettledFact,
    TurnJob,
    find_band,
    job_reasons,
    read_reports,
    reading_reasons,
)
from app.storage.memory.memories import MemoryStorage
from app.storage.operations.turn_trace import count_stated_facts, list_settled_facts, list_turn_jobs
from app.storage.uow import UnitOfWork

STORED: Final = ("created", "updated", "merged")
_CODE: Final = re.compile(r"[a-z][a-z_]*")


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """The trace of a turn. `reasons`: codes of `app.domain.reflection.turn_trace.REASONS`.

    `remembered`: memories that the key may see; `stated`: facts in lists and single values that the turn stated.
    """

    turn: Memory
    has_model: bool
    remembered: int
    stated: int
    reasons: Sequence[str]
    readings: Sequence[Reading]
    facts: Sequence[tuple[SettledFact, Band | None]]
    jobs: Sequence[TurnJob]


class TraceTurn:
    """The use-case that explains what became of a turn, from what the jobs stored."""

    def __init__(self, uow: UnitOfWork, memories: MemoryStorage, policies: TenantPolicies, *, has_model: bool) -> None:
        self._uow = uow
        self._memories = memories
        self._policies = policies
        self._has_model = has_model

    async def trace_turn(self, principal: Principal, turn_id: UUID) -> TurnTrace:
        """Return the trace of a memory; one that is no turn has only a reason. Raise NotFound if the key cannot see it.

        Jobs and the records of facts are kept for a limited time; the trace tells only what is still stored.
        """
        async with self._uow.read_anywhere(principal) as tx:
            turn = await self._memories.get_memory(tx, principal, turn_id)
            if turn is None:
                raise NotFound()
            if turn.type is not MemoryType.turn:
                return TurnTrace(turn, self._has_model, 0, 0, ["not_a_turn"], (), (), ())
            jobs = await list_turn_jobs(tx, principal, turn)
            facts = await list_settled_facts(tx, principal, turn)
            stated = await count_stated_facts(tx, principal, turn)
        policies = self._policies.of(principal)
        readings = read_reports([job.report for job in jobs if job.report is not None])
        remembered = len({fact.memory_id for fact in facts if fact.memory_id and fact.action in STORED})
        waiting = job_reasons(
            [JobStatus(job.state, job.paused, error_code(job.last_error), job.is_later_round) for job in jobs]
        )
        reasons = waiting if remembered or stated else [*waiting, *self._explain(turn, jobs, readings, policies)]
        if not (reasons or remembered or stated):
            reasons = ["nothing_visible" if principal.categories is not None else "deleted_since"]
        banded = [(fact, find_band(fact.similarity, policies.bands)) for fact in facts]
        return TurnTrace(turn, self._has_model, remembered, stated, reasons, readings, banded, jobs)

    def _explain(
        self, turn: Memory, jobs: Sequence[TurnJob], readings: Sequence[Reading], policies: Policies
    ) -> list[str]:
        """Return the reasons why nothing was remembered, apart from unfinished jobs."""
        reasons = [] if turn.state is MemoryState.active else ["turn_deleted"]
        if not jobs:
            reasons.append("no_job")
        reports = [job.report for job in jobs if job.kind == "after_turn" and job.report is not None]
        unread = {(report.get("reflect") or {}).get("why") for report in reports}
        if RULES in unread:
            reasons.append("rules_only")
        elif "no_model" in unread or (not reports and not self._has_model):
            reasons.append("no_model")
        return reasons + reading_reasons(readings, capture_detail=_capture_detail(turn, policies))


def error_code(error: str | None) -> str | None:
    """Return the code at the start of a job's last error; `error` if it has none, None without an error."""
    if error is None:
        return None
    code = error.partition(":")[0]
    return code if _CODE.fullmatch(code) else "error"


def _capture_detail(turn: Memory, policies: Policies) -> str | None:
    """Return the code of a limit because of which capture does not read the turn, by the present rules."""
    if policies.capture.per_turn == 0:
        return "capture_off"
    message = strip_echoes(turn.text, policies.echo_marks)
    is_long = len(message) > policies.capture.max_characters or "\n\n" in message
    return "capture_too_long" if is_long else None
