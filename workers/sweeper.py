"""The sweep: each worker process looks for due jobs in PostgreSQL by itself, without a message from the broker."""

import random
import threading
from collections.abc import Callable, Iterable
from uuid import UUID

import structlog
from celery import Celery

from app.bootstrap import Application
from app.domain.errors import MnemaError
from app.providers.broker import BrokerSettings, publish_jobs, report_worker
from workers.runtime import Runtime

CLOSE_S = 2.0
log = structlog.get_logger(__name__)


class Sweeper:
    """A thread that publishes due jobs about every `sweep_s` seconds, also jobs that lost their worker.

    Before each sweep it records in the broker that this worker lives.
    """

    def __init__(self, celery: Celery, runtime: Runtime, broker: BrokerSettings) -> None:
        self._celery = celery
        self._runtime = runtime
        self._broker = broker
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._reached = True

    def start(self) -> None:
        """Start the thread; call this in the forked process."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sweep_repeatedly, name="sweeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the current sweep. Wait CLOSE_S seconds at most; the daemon thread ends with its process."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _sweep_repeatedly(self) -> None:
        self._try_broker(lambda: report_worker(self._broker))  # at once: an operator who starts a worker looks then
        while not self._stopping.wait(self._broker.sweep_s * random.uniform(0.5, 1)):  # spreads the processes' sweeps
            self._try_broker(self._sweep_once)

    def _sweep_once(self) -> None:
        report_worker(self._broker)
        publish_jobs(self._celery, self._due_jobs)

    def _try_broker(self, work: Callable[[], None]) -> None:
        try:
            work()
            self._reached = True
        except MnemaError as error:
            log.error("task_failed", task="sweep", code=error.code, detail=error.detail)
        except Exception as error:  # any error of the broker; the next sweep may succeed
            if self._reached:
                log.warning("broker_unavailable", error=type(error).__name__)
            self._reached = False

    def _due_jobs(self) -> Iterable[tuple[UUID, UUID]]:
        async def collect_due(application: Application) -> list[tuple[UUID, UUID]]:
            return [(job.tenant_id, job.job_id) for job in await application.jobs.run.collect_due_jobs()]

        return self._runtime.run_on_loop(collect_due)
