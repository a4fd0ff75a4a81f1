"""Helpers of the consent tests: proposals, turns and the answers in them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from app.bootstrap import Application
from app.domain.consent.patches import Patch
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.usecases.consent.proposals import Proposal, ProposalResult
from tests.factories import draft

ASKED = "Shall I remember {}?"


def assistant_of(scope: Principal) -> Principal:
    """Return another key of the same tenant. It proposes and asks; the first key then sends the user's answer."""
    return replace(scope, key_id=UUID(int=7))


async def say(app: Application, scope: Principal, text: str, **fields: Any) -> UUID:
    """Store a turn of maya in the thread `talk` and return its id."""
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "talk", "role": "user"}
    stored = await app.memory.turns.store_turn(scope, draft(text, **turn | fields))
    assert stored.id is not None
    return stored.id


async def propose(app: Application, scope: Principal, field: str, value: str, **fields: Any) -> ProposalResult:
    """Propose a value for maya."""
    return await app.consent.proposals.propose_value(scope, Proposal("maya", field, value, **fields))


async def asked(app: Application, scope: Principal, value: str = "Lisbon", thread: str = "talk") -> Patch:
    """Propose maya's city, let an assistant's turn ask about it, and return the proposal."""
    other, question = assistant_of(scope), ASKED.format(value)
    patch = (await propose(app, other, "city", value)).patch
    await say(app, other, f"Glad to hear it. {question}", role="assistant", thread_id=thread)
    return await app.consent.chat.ask_question(other, "maya", patch.id, thread, question)


async def known(app: Application, scope: Principal, user_id: str = "maya") -> dict[str, str]:
    """Return the user's context: the last value of each field."""
    return {value.field: value.value for value in (await app.consent.load_context(scope, user_id)).values}


async def state_of(app: Application, scope: Principal, patch_id: UUID) -> str:
    """Return the state of a proposal of maya."""
    [patch] = [p for p in (await app.consent.list_patches(scope, "maya", None, None, 200)).items if p.id == patch_id]
    return patch.state


async def trail(app: Application, scope: Principal, patch_id: UUID) -> list[tuple[str | None, Mapping[str, Any]]]:
    """Return actor and meta of a proposal's history rows, oldest first."""
    page = await app.memory.history.list_history(scope, patch_id, None, 200)
    assert {row.event for row in page.items} == {"CONSENT"}
    return [(row.actor, row.meta) for row in reversed(page.items)]


async def work_off(app: Application, scope: Principal) -> list[Mapping[str, Any]]:
    """Run all due jobs to their end and return their reports."""
    reports = []
    while swept := await app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, kind in swept:
            assert await app.jobs.run.run_job(tenant_id, job_id, "test") == "done", kind
            reports.append((await app.jobs.manage.get_job(scope, job_id)).report or {})
    return reports
