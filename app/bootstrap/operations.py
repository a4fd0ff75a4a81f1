"""The builders of the capability `operations`: readiness, metrics and event counts."""

from functools import partial

from app.bootstrap.adapters import broker_settings
from app.bootstrap.parts import SharedParts
from app.config.settings import Settings
from app.ports import BlobStore, ChatModel, Embedder, Reranker
from app.providers.broker import check_broker, check_worker
from app.storage.jobs.jobs import JobStorage
from app.storage.operations.events import EventStorage
from app.storage.operations.secret import require_secret
from app.storage.uow import UnitOfWork
from app.usecases.operations.events import CountEvents
from app.usecases.operations.metrics import ReadMetrics
from app.usecases.operations.readiness import PATIENCE_S, Readiness
from app.usecases.tenancy.limits import Limits

DOCTORS_PATIENCE_S = 10.0
"""Seconds. No load balancer acts on the doctor, so it can wait longer than a server: a busy machine is not broken."""


def build_operations(parts: SharedParts, limits: Limits) -> tuple[CountEvents, ReadMetrics]:
    """Build the use-cases that count events and render metrics."""
    jobs = JobStorage(parts.uow, parts.policies.defaults.jobs)
    return (
        CountEvents(parts.uow, EventStorage(), parts.access),
        ReadMetrics(parts.metrics, parts.uow, parts.engine, limits, jobs),
    )


def build_readiness(parts: SharedParts) -> Readiness:
    """Build a server's readiness checks. The first server stores its secret's fingerprint; the others must match it.

    Raise ConfigError without a secret.
    """
    secret = partial(require_secret, parts.uow, parts.settings.erasure_secret(), note=True)
    broker, worker = _broker_checks(parts.settings)
    return Readiness(
        parts.uow, parts.embedder, parts.reranker, parts.chat, broker, PATIENCE_S, secret, parts.blobs, worker
    )


def build_doctor_readiness(
    settings: Settings,
    uow: UnitOfWork,
    embedder: Embedder,
    reranker: Reranker,
    chat: ChatModel,
    blobs: BlobStore | None,
    *,
    has_secret: bool,
) -> Readiness:
    """Build the doctor's readiness checks, which store nothing."""
    secret = partial(require_secret, uow, settings.erasure_secret(), note=False) if has_secret else None
    broker, worker = _broker_checks(settings)
    return Readiness(uow, embedder, reranker, chat, broker, DOCTORS_PATIENCE_S, secret, blobs, worker)


def _broker_checks(settings: Settings) -> tuple[partial[None], partial[None]]:
    """Return the checks of the broker itself and of the workers that report to it."""
    broker = broker_settings(settings)
    return partial(check_broker, broker), partial(check_worker, broker)
