"""Jobs that are due, memories that they forget, and workers that hang."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from app.bootstrap import Application
from app.domain.jobs.job import Job, JobKind, JobState, NewJob
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobStorage
from tests.background import until
from tests.conftest import Database
from tests.factories import draft


async def forgettable(
    app: Application, scope: Principal, text: str = "Maya drank oat milk.", user_id: str = "maya"
) -> str:
    """A memory that the next ttl job expires; its id."""
    long_ago = datetime.now(UTC) - timedelta(days=90)
    written = await app.memory.write.write_memory(
        scope, draft(text, user_id=user_id, importance=1, created_at=long_ago)
    )
    return str(written.id)


async def queued(store: JobStorage, scope: Principal, kind: JobKind = JobKind.ttl, **fields: Any) -> UUID:
    """A job that is due, and that nobody was told of."""
    [job_id] = await store.enqueue_jobs(scope, [NewJob(kind, **fields)])
    return job_id


async def reaches(store: JobStorage, scope: Principal, job_id: UUID, state: JobState = JobState.done) -> Job:
    """Wait until the job is in that state; answers it."""

    async def there() -> bool:
        job = await store.get_job(scope, job_id)
        return job is not None and job.state is state

    await until(there, f"job {job_id} to be {state}")
    job = await store.get_job(scope, job_id)
    assert job is not None
    return job


@asynccontextmanager
async def held(database: Database, scope: Principal) -> AsyncIterator[asyncpg.Connection]:
    """The rows of the tenant's memories are locked inside: whoever wants to change one hangs."""
    connection = await asyncpg.connect(database.superuser)
    try:
        async with connection.transaction():
            await connection.fetch("SELECT FROM memories WHERE tenant_id = $1 FOR UPDATE", scope.tenant_id)
            yield connection
    finally:
        await connection.close()


async def hanging(sql: asyncpg.Connection) -> None:
    """Come back when a worker waits for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

    async def there() -> bool:
        return bool(await sql.fetchval(waiting))

    await until(there, "a worker to hang")
