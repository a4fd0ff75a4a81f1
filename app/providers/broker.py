"""The message broker: Celery over Redis. It only notifies workers that a job is due.

The jobs are in PostgreSQL, so everything in Redis may be lost. Celery and the client of Redis are imported where they
are used: a server publishes from a thread, and most commands of an operator need neither.
"""

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog

from app.domain.outages import BrokerUnavailable

if TYPE_CHECKING:
    from celery import Celery
    from kombu.connection import Connection
    from redis import Redis

log = structlog.get_logger(__name__)
RUN_JOB = "mnema.run_job"
SCHEDULE = "mnema.schedule"
PARTITIONS = "mnema.partitions"
PARTITIONS_S = 600.0
MOVES = "mnema.moves"
MOVES_S = 10.0
CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 5.0
"""The seconds that a command waits for its reply, and the interval of health checks on an idle consumer."""

KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds and probes of TCP keepalive, where the system has them. A dead host is noticed within half a minute."""

UNCONFIGURED_URL = "redis://127.0.0.1:6379/0"
MAX_WAITING = 10_000
MAX_QUEUE_LENGTH = 500
"""The queue length from which a sweep adds no messages: the workers are busy and need no reminder."""

WORKER_KEY = "{queue}.worker-seen"
"""The key in Redis that every worker process of a queue sets again and again. It expires when all of them stop."""

WORKER_SILENT_S = 30.0
"""Seconds without a sign of any worker after which none counts as running; at least three sweeps."""

REBUILDS_KEY = "{queue}.consumer-rebuilds"
"""The key in Redis of a hash: the worker's name, and how often and why it built its consumer anew of late."""

REBUILDS_S = 600
"""Seconds for which a rebuilt consumer counts."""

MANY_REBUILDS = 3
"""The rebuilds of one worker from which they are told. One may follow each restart of Redis and harms nothing."""

UNREACHABLE = (
    "The message broker cannot be reached, background jobs wait: check MNEMA_REDIS_URL and that Redis runs there"
)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The broker's address (`url` is empty if there is none) and the workers' intervals in seconds.

    `several_clusters`: the workers go on with moves of tenants that stopped.
    """

    url: str = field(repr=False)
    queue: str
    job_soft_limit_s: float
    sweep_s: float
    schedule_s: float
    several_clusters: bool = False


def make_celery(settings: BrokerSettings) -> "Celery":
    """Return the Celery application of this installation, for publishers, workers and beat."""
    from celery import Celery

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
        broker_connection_max_retries=None,  # retry for ever, so that nobody has to restart a worker
        broker_transport_options={
            "visibility_timeout": settings.job_soft_limit_s
            + 60,  # longer than the longest task; the default is an hour
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "socket_timeout": ANSWER_TIMEOUT_S,  # else a half-open connection blocks worker and beat for ever
            "health_check_interval": ANSWER_TIMEOUT_S,
            "socket_keepalive": True,
            "socket_keepalive_options": {
                getattr(socket, name): value for name, value in KEEPALIVE.items() if hasattr(socket, name)
            },
        },
        beat_scheduler="celery.beat:Scheduler",  # keeps no file, because the tasks are idempotent
        beat_max_loop_interval=settings.schedule_s,
        beat_schedule={
            "schedule": _beat_entry(SCHEDULE, settings.schedule_s),
            "partitions": _beat_entry(PARTITIONS, PARTITIONS_S),
            **({"moves": _beat_entry(MOVES, MOVES_S)} if settings.several_clusters else {}),
        },
        timezone="UTC",
    )
    return celery


def _beat_entry(task: str, seconds: float) -> dict[str, Any]:
    """Return a beat entry. Its message expires after five intervals, because the next one asks for the same."""
    return {"task": task, "schedule": seconds, "options": {"expires": 5 * seconds}}


def send_job_message(celery: "Celery", tenant_id: UUID, job_id: UUID, connection: "Connection | None" = None) -> None:
    """Send one job's message to the workers. Let the broker's errors pass."""
    celery.send_task(RUN_JOB, (str(tenant_id), str(job_id)), retry=False, connection=connection)


def _queue_length(celery: "Celery", connection: "Connection") -> int:
    """Return the number of messages in the queue."""
    job_queue = celery.amqp.queues[celery.conf.task_default_queue]
    return int(job_queue.bind(connection.default_channel).queue_declare().message_count)


def publish_jobs(celery: "Celery", find: Callable[[], Iterable[tuple[UUID, UUID]]]) -> None:
    """Send messages for the jobs that `find` returns as (tenant, job), unless the queue is MAX_QUEUE_LENGTH long.

    The connection is opened before `find` is called, so nothing is marked as published while the broker is away. Let
    the broker's errors pass.
    """
    with celery.connection_for_write() as connection:
        if _queue_length(celery, connection) < MAX_QUEUE_LENGTH:
            for tenant_id, job_id in find():
                send_job_message(celery, tenant_id, job_id, connection)


class JobPublisher:
    """A publisher that sends messages of new jobs from its own thread, so that no request waits for the broker.

    It drops what it cannot send: the next sweep finds the job.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._waiting: queue.Queue[tuple[UUID, UUID] | None] = queue.Queue(MAX_WAITING)
        self._thread: threading.Thread | None = None

    def publish_job(self, tenant_id: UUID, job_id: UUID) -> None:
        """Queue the job's message and return at once."""
        if not self._settings.url:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_queued, name="publisher", daemon=True)
            self._thread.start()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait((tenant_id, job_id))

    def close(self) -> None:
        """Send what is queued, for at most twice CONNECT_TIMEOUT_S seconds, and close."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait(None)
            self._thread.join(2 * CONNECT_TIMEOUT_S)

    def _send_queued(self) -> None:
        with make_celery(self._settings) as celery:
            while (job := self._waiting.get()) is not None:
                try:
                    send_job_message(celery, *job)
                except Exception as error:  # the thread must survive any error
                    log.warning("broker_unavailable", error=type(error).__name__)
                    self._drop_queued()

    def _drop_queued(self) -> None:
        """Empty the queue: the broker is away, and each message would wait for its own timeout."""
        with contextlib.suppress(queue.Empty):
            while (job := self._waiting.get_nowait()) is not None:
                pass
            self._waiting.put_nowait(job)


def check_broker(settings: BrokerSettings) -> None:
    """Raise BrokerUnavailable if Redis does not answer within CONNECT_TIMEOUT_S seconds, or none is configured."""
    from redis.exceptions import RedisError

    if not settings.url:
        raise BrokerUnavailable("no broker configured, background jobs wait: set MNEMA_REDIS_URL")
    try:
        with _connect_redis(settings) as client:
            client.ping()
    except (RedisError, ValueError) as error:
        raise BrokerUnavailable(UNREACHABLE) from error


def _connect_redis(settings: BrokerSettings) -> "Redis":
    from redis import Redis

    return Redis.from_url(settings.url, socket_connect_timeout=CONNECT_TIMEOUT_S, socket_timeout=CONNECT_TIMEOUT_S)


def silence_limit_s(settings: BrokerSettings) -> float:
    """Return the seconds after which a worker that has given no sign counts as stopped."""
    return max(WORKER_SILENT_S, 3 * settings.sweep_s)


def report_worker(settings: BrokerSettings) -> None:
    """Record for `silence_limit_s` seconds that a worker of this queue lives. Raise the broker's errors."""
    with _connect_redis(settings) as client:
        client.set(WORKER_KEY.format(queue=settings.queue), 1, px=int(1000 * silence_limit_s(settings)))


def report_rebuilds(settings: BrokerSettings, worker: str, number: int, error: str) -> None:
    """Record how often a worker has built its consumer anew in REBUILDS_S seconds, and the last error's type.

    Raise the broker's errors.
    """
    key = REBUILDS_KEY.format(queue=settings.queue)
    with _connect_redis(settings) as client, client.pipeline() as commands:
        if number:
            commands.hset(key, worker, f"{number} {error} {_server_seconds(client)}")
        else:  # a worker that was started again does not answer for its forerunner
            commands.hdel(key, worker)
        commands.expire(key, REBUILDS_S).execute()


def _server_seconds(client: "Redis") -> int:
    """Return the seconds of Redis' clock, which is the same for all workers."""
    return int(client.time()[0])


def _describe_rebuilds(reports: Mapping[bytes, bytes], now: int) -> str | None:
    """Return a message about the worker with the most rebuilds, None if there are few."""
    number, error, worker = max(_recent_rebuilds(reports, now), default=(0, "", ""))
    if number < MANY_REBUILDS:
        return None
    return (
        f"the worker {worker} has lost its consumer {number} times within {REBUILDS_S // 60} minutes, the last time "
        f"after {error}, and works on: look for `consumer_failed` in its log, and at the restarts of Redis"
    )


def _recent_rebuilds(reports: Mapping[bytes, bytes], now: int) -> Iterator[tuple[int, str, str]]:
    """Yield number, error and worker of each report of the last REBUILDS_S seconds."""
    for worker, report in reports.items():
        number, error, at = report.decode().split(" ")
        if int(at) > now - REBUILDS_S:
            yield int(number), error, worker.decode()


def check_worker(settings: BrokerSettings) -> None:
    """Raise BrokerUnavailable if no worker has reported for `silence_limit_s` seconds, or one fails again and again.

    Return if no broker is configured or it does not answer: `check_broker` reports that.
    """
    if not settings.url:
        return
    from redis.exceptions import RedisError

    try:
        with _connect_redis(settings) as client:
            reported = client.exists(WORKER_KEY.format(queue=settings.queue))
            rebuilds = client.hgetall(REBUILDS_KEY.format(queue=settings.queue))
            now = _server_seconds(client)
    except (RedisError, ValueError):
        return
    if not reported:
        raise BrokerUnavailable(
            f"no worker has reported for {silence_limit_s(settings):.0f} s, background jobs wait: start a worker, "
            "or look into its log; it needs the same MNEMA_REDIS_URL and MNEMA_WORKER_QUEUE"
        )
    if many := _describe_rebuilds(rebuilds, now):
        raise BrokerUnavailable(many)
