"""A worker within the test's process that runs the index jobs of one tenant."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from app.bootstrap import Application
from app.domain.jobs.job import JobKind, JobState
from tests.factories import Caller


@contextlib.asynccontextmanager
async def index_worker(app: Application, caller: Caller) -> AsyncIterator[None]:
    """Run the tenant's index jobs as soon as they are queued."""

    async def run_jobs() -> None:
        while True:
            for job in (
                await app.jobs.manage.list_jobs(caller.scope, JobState.queued, JobKind.index_source, None, 50)
            ).items:
                await app.jobs.run.run_job(caller.scope.tenant_id, job.id, "w")
            await asyncio.sleep(0.05)

    running = asyncio.create_task(run_jobs())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
