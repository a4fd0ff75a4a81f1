"""Talks that fell quiet: storing their turns, running what is due, and what came of it."""

from typing import Any
from uuid import UUID

from app.bootstrap import Application
from app.domain.jobs.job import JobKind, JobPolicy, NewJob
from app.domain.memory.memory import Memory, MemoryType
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobStorage
from tests.factories import draft


async def say(app: Application, scope: Principal, *texts: str, **fields: Any) -> list[UUID]:
    """Store turns of the thread `talk`."""
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "talk", "role": "user"} | fields
    return [(await app.memory.turns.store_turn(scope, draft(text, **turn))).id or UUID(int=0) for text in texts]


async def work(app: Application) -> list[str]:
    """Run what is due to its end; how it went."""
    outcomes = []
    while swept := await app.jobs.run.collect_due_jobs():
        outcomes += [await app.jobs.run.run_job(tenant_id, job_id, "test") for tenant_id, job_id, _ in swept]
    return outcomes


async def sweep_quiet(app: Application, scope: Principal) -> dict[str, Any]:
    """Run the job of the hour; its report."""
    [job_id] = await JobStorage(app.parts.uow, JobPolicy()).enqueue_jobs(scope, [NewJob(JobKind.reflect)])
    await work(app)
    return dict((await app.jobs.manage.get_job(scope, job_id)).report or {})


async def made(app: Application, scope: Principal, type_: MemoryType, user_id: str = "maya") -> list[Memory]:
    """The user's active memories of a type, oldest first."""
    sql = "SELECT id FROM memories WHERE tenant_id = $1 AND user_id = $2 AND type = $3 AND state = 'active' ORDER BY id"
    async with app.parts.uow.read(scope) as tx:
        ids = [row["id"] for row in await tx.fetch(sql, scope.tenant_id, user_id, type_)]
    return [await app.memory.read.get_memory(scope, memory_id) for memory_id in ids]
