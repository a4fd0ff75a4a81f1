"""A shell with the server's address, and a worker that runs index jobs at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Application
from app.domain.jobs.job import JobKind, JobState
from tests.factories import Caller


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment of a shell with the server's address."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path / "home"}


@pytest.fixture
async def worker(app: Application, caller: Caller) -> AsyncIterator[None]:
    """Run the tenant's index jobs as soon as they are queued."""

    async def run_jobs() -> None:
        while True:
            for job in (await app.jobs.list_jobs(caller.scope, JobState.queued, JobKind.index_source, None, 50)).items:
                await app.run_jobs.run_job(caller.scope.tenant_id, job.id, "w")
            await asyncio.sleep(0.05)

    running = asyncio.create_task(run_jobs())
    yield
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
