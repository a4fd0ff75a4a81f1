"""The tasks. Each may be delivered twice, late or never: what is to be done stands in PostgreSQL."""

from typing import Any
from uuid import UUID

import structlog
from billiard.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_process_shutdown

from app.bootstrap import Application
from app.providers.broker import RUN_JOB, SCHEDULE, SWEEP, run_job_message
from workers.app import app
from workers.runtime import runtime

log = structlog.get_logger(__name__)


@app.task(name=RUN_JOB)  # type: ignore[untyped-decorator]  # Celery is untyped
def run_job(tenant_id: str, job_id: str) -> None:
    """Run one job if it is due; beyond the soft time limit it goes back to the queue."""

    async def run(application: Application) -> str:
        return await application.run_jobs.run(UUID(tenant_id), UUID(job_id), runtime.worker)

    try:
        outcome = runtime.call(run)
    except SoftTimeLimitExceeded:
        outcome = "out_of_time"
    log.info("job", tenant_id=tenant_id, job_id=job_id, outcome=outcome)


@app.task(name=SWEEP)  # type: ignore[untyped-decorator]  # Celery is untyped
def sweep() -> None:
    """Hand out what is due: jobs nobody was told of, and those that lost their worker."""

    async def due(application: Application) -> list[Any]:
        return list(await application.run_jobs.sweep())

    for job in runtime.call(due):
        run_job_message(app, job.tenant_id, job.job_id)


@app.task(name=SCHEDULE)  # type: ignore[untyped-decorator]  # Celery is untyped
def schedule() -> None:
    """Queue the scheduled jobs of the present period."""

    async def queue(application: Application) -> int:
        return await application.run_jobs.schedule()

    if made := runtime.call(queue):
        log.info("scheduled", jobs=made)


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]  # Celery is untyped
def _close(**_signal: Any) -> None:
    runtime.close()
