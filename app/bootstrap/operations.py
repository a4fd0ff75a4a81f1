"""The builders of the capability `operations`: readiness, metrics, events, and what a tenant holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from app.bootstrap.adapters import broker_settings
from app.bootstrap.database import build_clock
from app.bootstrap.parts import SharedParts
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.ports import BlobStore, ChatModel, Embedder, Reranker, TurnSpool
from app.providers.broker import check_broker, check_worker
from app.providers.metrics import Metrics
from app.providers.worker_metrics import NoOtherWorkers, SocketWorkerMetrics
from app.storage.jobs.jobs import JobStorage
from app.storage.memory.memories import MemoryStorage
from app.storage.operations.events import EventStorage
from app.storage.operations.overview import OverviewStorage
from app.storage.operations.secret import require_secret
from app.storage.replicas import Replicas
from app.storage.uow import UnitOfWork
from app.usecases.operations.events import CountEvents, ListEvents
from app.usecases.operations.metrics import ReadMetrics
from app.usecases.operations.overview import DescribeKey, ReadOverview, ReadRelations
from app.usecases.operations.readiness import PATIENCE_S, Readiness
from app.usecases.operations.turn_trace import TraceTurn
from app.usecases.tenancy.limits import Limits

DOCTORS_PATIENCE_S = 10.0
"""Seconds. No load balancer acts on the doctor, so it can wait longer than a server: a busy machine is not broken."""


@dataclass(frozen=True, slots=True)
class OperationUseCases:
    """The use-cases that show how a server does, what a tenant holds, and what happened."""

    readiness: Readiness
    metrics: ReadMetrics
    count_events: CountEvents
    list_events: ListEvents
    overview: ReadOverview
    key: DescribeKey
    relations: ReadRelations
    trace: TraceTurn


def build_operations(parts: SharedParts, limits: Limits, spool: TurnSpool) -> OperationUseCases:
    """Build the use-cases of the capability. Raise ConfigError without a secret."""
    uow = parts.uow
    jobs = JobStorage(uow, parts.policies.defaults.jobs)
    others = NoOtherWorkers() if parts.worker is None else _open_worker_metrics(parts.worker)
    memories = MemoryStorage(uow, parts.space.name)
    return OperationUseCases(
        readiness=_build_readiness(parts, spool),
        metrics=ReadMetrics(parts.metrics, others, uow, parts.database.engines, limits, jobs, parts.database.replicas),
        count_events=CountEvents(uow, EventStorage(), parts.access),
        list_events=ListEvents(uow, parts.access),
        overview=ReadOverview(uow, OverviewStorage(), parts.policies),
        key=DescribeKey(uow),
        relations=ReadRelations(uow),
        trace=TraceTurn(uow, memories, parts.policies, has_model=parts.chat.is_available),
    )


@asynccontextmanager
async def tell_metrics(worker: ServerWorker | None, metrics: Metrics) -> AsyncIterator[None]:
    """Share this process's metrics with the other workers of the server, if there are any, while the block runs."""
    if worker is None:
        yield
        return
    async with _open_worker_metrics(worker).answer_others(metrics.render_text):
        yield


def _open_worker_metrics(worker: ServerWorker) -> SocketWorkerMetrics:
    return SocketWorkerMetrics(worker.metrics_socket, worker.number, worker.count)


def _build_readiness(parts: SharedParts, spool: TurnSpool) -> Readiness:
    """Build a server's readiness checks. The first server stores its secret's fingerprint; the others must match it.

    Raise ConfigError without a secret.
    """
    secret = partial(require_secret, parts.uow, parts.settings.erasure_secret(), note=True)
    broker, worker = _broker_checks(parts.settings)
    return Readiness(
        parts.uow,
        parts.embedder,
        parts.reranker,
        parts.chat,
        broker,
        PATIENCE_S,
        secret,
        parts.blobs,
        worker,
        replicas=parts.database.replicas.get(""),
        clock=parts.clock,
        spool=spool,
    )


def build_doctor_readiness(
    settings: Settings,
    uow: UnitOfWork,
    embedder: Embedder,
    reranker: Reranker,
    chat: ChatModel,
    blobs: BlobStore | None,
    replicas: Replicas | None,
    *,
    has_secret: bool,
) -> Readiness:
    """Build the doctor's readiness checks, which store nothing."""
    secret = partial(require_secret, uow, settings.erasure_secret(), note=False) if has_secret else None
    broker, worker = _broker_checks(settings)
    return Readiness(
        uow,
        embedder,
        reranker,
        chat,
        broker,
        DOCTORS_PATIENCE_S,
        secret,
        blobs,
        worker,
        replicas,
        build_clock(uow),
        is_thorough=True,
    )


def _broker_checks(settings: Settings) -> tuple[partial[None], partial[None]]:
    """Return the checks of the broker itself and of the workers that report to it."""
    broker = broker_settings(settings)
    return partial(check_broker, broker), partial(check_worker, broker)
