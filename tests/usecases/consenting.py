"""What the tests of consent share: proposals, turns and the answers in them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from app.bootstrap import Application
from app.domain.consent.patches import Patch
from app.domain.memory.memory import MemoryType
from app.domain.principal import Scope
from app.usecases.consent.proposals import Proposal, Proposed
from tests.factories import draft

ASKED = "Shall I remember {}?"


def assistant_of(scope: Scope) -> Scope:
    """Another key of the same tenant: it proposes and asks, so that the first one may bring the user's answer."""
    return replace(scope, key_id=UUID(int=7))


async def say(app: Application, scope: Scope, text: str, **fields: Any) -> UUID:
    """Store a turn of maya's in the thread `talk`; its id."""
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "talk", "role": "user"}
    stored = await app.turns.store(scope, draft(text, **turn | fields))
    assert stored.id is not None
    return stored.id


async def propose(app: Application, scope: Scope, field: str, value: str, **fields: Any) -> Proposed:
    """Propose a value for maya."""
    return await app.consent.proposals.propose(scope, Proposal("maya", field, value, **fields))


async def asked(app: Application, scope: Scope, value: str = "Lisbon", thread: str = "talk") -> Patch:
    """A proposal of maya's city that an assistant's turn asks her about."""
    other, question = assistant_of(scope), ASKED.format(value)
    patch = (await propose(app, other, "city", value)).patch
    await say(app, other, f"Glad to hear it. {question}", role="assistant", thread_id=thread)
    return await app.consent.chat.ask(other, "maya", patch.id, thread, question)


async def known(app: Application, scope: Scope, user_id: str = "maya") -> dict[str, str]:
    """What is known of a user: the last value of each field."""
    return {value.field: value.value for value in (await app.consent.context(scope, user_id)).values}


async def state_of(app: Application, scope: Scope, patch_id: UUID) -> str:
    """Where a proposal of maya's stands."""
    [patch] = [p for p in (await app.consent.page(scope, "maya", None, None, 200)).items if p.id == patch_id]
    return patch.state


async def trail(app: Application, scope: Scope, patch_id: UUID) -> list[tuple[str | None, Mapping[str, Any]]]:
    """Actor and meta of a proposal's history, oldest first."""
    page = await app.history.page(scope, patch_id, None, 200)
    assert {row.event for row in page.items} == {"CONSENT"}
    return [(row.actor, row.meta) for row in reversed(page.items)]


async def work_off(app: Application, scope: Scope) -> list[Mapping[str, Any]]:
    """Run what is due to its end; the reports."""
    reports = []
    while swept := await app.run_jobs.sweep():
        for tenant_id, job_id, kind in swept:
            assert await app.run_jobs.run(tenant_id, job_id, "test") == "done", kind
            reports.append((await app.jobs.get(scope, job_id)).report or {})
    return reports
