"""The sweep: each worker process looks in PostgreSQL for due jobs by itself; no message has to arrive for that."""

import random
import threading
from collections.abc import Iterable
from uuid import UUID

import structlog
from celery import Celery

from app.bootstrap import Application
from app.domain.errors import MnemaError
from app.providers.broker import publish_jobs
from workers.runtime import Runtime

CLOSE_S = 2.0
log = structlog.get_logger(__name__)


class Sweeper:
    """A thread that hands out the jobs nobody was told of, and those that lost their worker, every `interval_s`."""

    def __init__(self, celery: Celery, runtime: Runtime, interval_s: float) -> None:
        self._celery = celery
        self._runtime = runtime
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._reached = True

    def start(self) -> None:
        """Begin, in a process that was just forked."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sweep_repeatedly, name="sweeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the sweep under way; a daemon thread ends with its process anyway."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _sweep_repeatedly(self) -> None:
        while not self._stopping.wait(self._interval_s * random.uniform(0.5, 1)):  # not all processes at once
            try:
                publish_jobs(self._celery, self._due_jobs)
                self._reached = True
            except MnemaError as error:
                log.error("task_failed", task="sweep", code=error.code, detail=error.detail)
            except Exception as error:  # the broker's: whatever it is, the next sweep may go well
                if self._reached:
                    log.warning("broker_unavailable", error=type(error).__name__)
                self._reached = False

    def _due_jobs(self) -> Iterable[tuple[UUID, UUID]]:
        async def collect_due(application: Application) -> list[tuple[UUID, UUID]]:
            return [(job.tenant_id, job.job_id) for job in await application.run_jobs.collect_due_jobs()]

        return self._runtime.run_on_loop(collect_due)
