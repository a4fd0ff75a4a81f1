"""The message broker: Celery over Redis. It only carries the news that a job is due; the jobs are in PostgreSQL, so all
that Redis holds may be lost."""

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog
from celery import Celery
from kombu.connection import Connection
from redis import Redis
from redis.exceptions import RedisError

from app.domain.outages import BrokerUnavailable

log = structlog.get_logger(__name__)
RUN_JOB, SCHEDULE = "mnema.run_job", "mnema.schedule"
CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 5.0
"""How long a command waits for its answer; an idle consumer is asked for a sign of life as often."""

KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""In seconds and probes, where the system has them: a host that is gone is noticed within half a minute."""

UNCONFIGURED_URL = "redis://127.0.0.1:6379/0"
MAX_WAITING = 10_000
MAX_QUEUE_LENGTH = 500
"""Messages in the queue from which on a sweep adds none: the workers are busy, not uninformed."""

UNREACHABLE = (
    "The message broker cannot be reached, background jobs wait: check MNEMA_REDIS_URL and that Redis runs there"
)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Where the broker is (`url` empty: there is none), and the rhythm of the workers, in seconds."""

    url: str = field(repr=False)
    queue: str
    job_soft_limit_s: float
    sweep_s: float
    schedule_s: float


def make_celery(settings: BrokerSettings) -> Celery:
    """The Celery application of this installation, for publishers, workers and beat alike."""
    celery = Celery("mnema", broker=settings.url or UNCONFIGURED_URL, set_as_current=False)
    celery.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,  # without it one killed child loses its message
        task_ignore_result=True,
        task_default_queue=settings.queue,
        task_soft_time_limit=settings.job_soft_limit_s,
        task_time_limit=settings.job_soft_limit_s + 30,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # for ever: jobs wait, nobody has to restart a worker
        broker_transport_options={
            "visibility_timeout": settings.job_soft_limit_s + 60,  # above the longest task; the default is an hour
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "socket_timeout": ANSWER_TIMEOUT_S,  # without it a half-open connection blocks worker and beat for ever
            "health_check_interval": ANSWER_TIMEOUT_S,
            "socket_keepalive": True,
            "socket_keepalive_options": {
                getattr(socket, name): value for name, value in KEEPALIVE.items() if hasattr(socket, name)
            },
        },
        beat_scheduler="celery.beat:Scheduler",  # keeps no file: what it triggers is idempotent
        beat_max_loop_interval=settings.schedule_s,
        beat_schedule={"schedule": _beat_entry(SCHEDULE, settings.schedule_s)},
        timezone="UTC",
    )
    return celery


def _beat_entry(task: str, seconds: float) -> dict[str, Any]:
    """A message nobody took in time is worth nothing: the next one asks the same."""
    return {"task": task, "schedule": seconds, "options": {"expires": 5 * seconds}}


def send_job_message(celery: Celery, tenant_id: UUID, job_id: UUID, connection: Connection | None = None) -> None:
    """Tell the workers of one job; raises what the broker raises."""
    celery.send_task(RUN_JOB, (str(tenant_id), str(job_id)), retry=False, connection=connection)


def _queue_length(celery: Celery, connection: Connection) -> int:
    """Messages in the queue."""
    wanted = celery.amqp.queues[celery.conf.task_default_queue]
    return int(wanted.bind(connection.default_channel).queue_declare().message_count)


def publish_jobs(celery: Celery, find: Callable[[], Iterable[tuple[UUID, UUID]]]) -> None:
    """Tell the workers of the jobs that `find` answers, as (tenant, job), unless CROWD messages wait already.

    It connects anew and before it calls `find`: nothing is marked as told while the broker is away. Raises what the
    broker raises.
    """
    with celery.connection_for_write() as connection:
        if _queue_length(celery, connection) < MAX_QUEUE_LENGTH:
            for tenant_id, job_id in find():
                send_job_message(celery, tenant_id, job_id, connection)


class JobPublisher:
    """Tells the workers of new jobs from a thread of its own: no request waits for the broker.

    What cannot be told is dropped: the next sweep finds the job.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._configured = bool(settings.url)
        self._celery = make_celery(settings)
        self._waiting: queue.Queue[tuple[UUID, UUID] | None] = queue.Queue(MAX_WAITING)
        self._thread: threading.Thread | None = None

    def publish_job(self, tenant_id: UUID, job_id: UUID) -> None:
        """Returns at once."""
        if not self._configured:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_queued, name="publisher", daemon=True)
            self._thread.start()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait((tenant_id, job_id))

    def close(self) -> None:
        """Tell what is waiting, for a moment."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait(None)
            self._thread.join(2 * CONNECT_TIMEOUT_S)
        self._celery.close()

    def _send_queued(self) -> None:
        while (job := self._waiting.get()) is not None:
            try:
                send_job_message(self._celery, *job)
            except Exception as error:  # whatever it is, the thread goes on
                log.warning("broker_unavailable", error=type(error).__name__)
                self._drop_queued()

    def _drop_queued(self) -> None:
        """The broker is away: those who wait would only wait in turn."""
        with contextlib.suppress(queue.Empty):
            while (job := self._waiting.get_nowait()) is not None:
                pass
            self._waiting.put_nowait(job)


def check_broker(settings: BrokerSettings) -> None:
    """Raises BrokerUnavailable; returns within PATIENCE_S."""
    if not settings.url:
        raise BrokerUnavailable("no broker configured: set MNEMA_REDIS_URL; background jobs wait")
    try:
        with Redis.from_url(
            settings.url, socket_connect_timeout=CONNECT_TIMEOUT_S, socket_timeout=CONNECT_TIMEOUT_S
        ) as client:
            client.ping()
    except (RedisError, ValueError) as error:
        raise BrokerUnavailable(UNREACHABLE) from error
