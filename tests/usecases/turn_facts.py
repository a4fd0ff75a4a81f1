"""A turn that holds facts, storing turns, and what came of them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import asyncpg

from app.bootstrap import Application
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from tests.factories import draft

TURN = (
    "I work as a nurse in Porto and sleep badly after nights. My daughter Lena is allergic to peanuts. "
    "I prefer trains to planes whenever there is a choice. I plan to run the Berlin marathon in 2027. "
    "Could you find me a hotel near the start of the race, please?"
)

FACTS = [
    "The user works as a nurse in Porto and sleep badly after nights.",
    "The user's daughter Lena is allergic to peanuts.",
    "The user prefers trains to planes whenever there is a choice.",
]


async def say(app: Application, scope: Principal, text: str = TURN, **fields: Any) -> UUID:
    """Store a turn of the thread `talk`."""
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "talk", "role": "user"}
    stored = await app.memory.turns.store_turn(scope, draft(text, **turn | fields))
    assert stored.id is not None
    return stored.id


async def work(app: Application, scope: Principal, expected: str = "done") -> Mapping[str, Any]:
    """Run what is due once; the report of the last job on facts."""
    report: Mapping[str, Any] = {}
    while swept := await app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, kind in swept:
            outcome = await app.jobs.run.run_job(tenant_id, job_id, "test")
            assert outcome == (expected if kind == "reflect_turn" else "done")
            report = ((await app.jobs.manage.get_job(scope, job_id)).report or {}).get("multi_fact", report)
    return report


async def due(sql: asyncpg.Connection) -> None:
    """Make the waiting jobs due now."""
    await sql.execute("UPDATE jobs SET next_run = now() - interval '1 s', published_at = NULL WHERE state = 'queued'")


async def facts(sql: asyncpg.Connection, user_id: str = "maya") -> list[str]:
    """Texts of the user's semantic memories, oldest first."""
    rows = await sql.fetch("SELECT text FROM memories WHERE user_id = $1 AND type = 'semantic' ORDER BY id", user_id)
    return [row["text"] for row in rows]
