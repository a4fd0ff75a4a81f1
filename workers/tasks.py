"""The Celery tasks. A message may come twice, late or never, because the jobs themselves are in PostgreSQL."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, TypeVar
from uuid import UUID

import structlog
from billiard.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_process_init, worker_process_shutdown

from app.bootstrap import Application
from app.bootstrap.adapters import broker_settings
from app.domain.clusters.move import Move
from app.domain.errors import MnemaError
from app.providers.broker import MOVES, PARTITIONS, RUN_JOB, SCHEDULE
from app.usecases.retention.partitions import PartitionReport
from workers.app import app, settings
from workers.courier import Courier
from workers.runtime import runtime
from workers.sweeper import Sweeper
from workers.watcher import Watcher

T = TypeVar("T")
log = structlog.get_logger(__name__)


def _run_or_log(task: str, work: Callable[[Application], Awaitable[T]]) -> T | None:
    """Return the result of `work`. Log a MnemaError in one line and return None; the next sweep tries again."""
    try:
        return runtime.run_on_loop(work)
    except MnemaError as error:
        log.error("task_failed", task=task, code=error.code, detail=error.detail)
        return None


@app.task(name=RUN_JOB)  # type: ignore[untyped-decorator]  # Celery is untyped
def run_job(tenant_id: str, job_id: str) -> None:
    """Run one job if it is due; put it back into the queue at the soft time limit."""

    async def run_claimed(application: Application) -> str:
        return await application.jobs.run.run_job(UUID(tenant_id), UUID(job_id), runtime.worker_name)

    try:
        outcome = _run_or_log(RUN_JOB, run_claimed)
    except SoftTimeLimitExceeded:
        outcome = "out_of_time"
    log.info("job", tenant_id=tenant_id, job_id=job_id, outcome=outcome or "skipped")


@app.task(name=SCHEDULE)  # type: ignore[untyped-decorator]  # Celery is untyped
def schedule_jobs() -> None:
    """Queue the scheduled jobs of the current period."""

    async def queue_jobs(application: Application) -> int:
        return await application.jobs.run.schedule_jobs()

    if queued := _run_or_log(SCHEDULE, queue_jobs):
        log.info("scheduled", jobs=queued)


@app.task(name=PARTITIONS)  # type: ignore[untyped-decorator]  # Celery is untyped
def keep_partitions() -> None:
    """Make the partitions of the next weeks and drop those that no tenant keeps."""

    async def keep(application: Application) -> PartitionReport:
        return await application.retention.partitions.keep_partitions()

    if (report := _run_or_log(PARTITIONS, keep)) is not None and not report.is_empty:
        log.info("partitions", **asdict(report))


@app.task(name=MOVES)  # type: ignore[untyped-decorator]  # Celery is untyped
def finish_moves() -> None:
    """Go on with a tenant's move that stopped. What the soft time limit interrupts goes on in the next run."""

    async def finish(application: Application) -> Move | None:
        return None if application.finish_moves is None else await application.finish_moves.finish_one()

    try:
        move = _run_or_log(MOVES, finish)
    except SoftTimeLimitExceeded:
        log.info("move", outcome="out_of_time")
        return
    if move is not None:
        log.info("move", tenant_id=str(move.tenant_id), outcome=move.step.value, target=move.target)


sweeper = Sweeper(app, runtime, broker_settings(settings))
courier = Courier(runtime)
watcher = Watcher(runtime) if settings.source_roots else None


@worker_process_init.connect  # type: ignore[untyped-decorator]  # Celery is untyped
def _start_threads(**_signal: Any) -> None:
    sweeper.start()
    courier.start()
    if watcher is not None:
        watcher.start()


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]  # Celery is untyped
def _close_process(**_signal: Any) -> None:
    if watcher is not None:
        watcher.close()
    courier.close()
    sweeper.close()
    runtime.close()
