"""What a server, and the doctor, asks before requests can be served."""

from functools import partial

from app.bootstrap.adapters import broker_settings
from app.config.settings import Settings
from app.ports import ChatModel, Embedder, Reranker
from app.providers.broker import check_broker
from app.storage.operations.secret import require_secret
from app.storage.uow import UnitOfWork
from app.usecases.operations.readiness import PATIENCE_S, Readiness

DOCTORS_PATIENCE_S = 10.0
"""Nobody shifts load by what the doctor says: a busy machine is not a broken one."""


def build_readiness(
    settings: Settings, uow: UnitOfWork, embedder: Embedder, reranker: Reranker, chat: ChatModel
) -> Readiness:
    """Of a server: the first one's secret is the one that the others are held to. Raises ConfigError without one."""
    secret = partial(require_secret, uow, settings.erasure_secret(), note=True)
    return Readiness(uow, embedder, reranker, chat, _broker_check(settings), PATIENCE_S, secret)


def build_doctor_readiness(
    settings: Settings, uow: UnitOfWork, embedder: Embedder, reranker: Reranker, chat: ChatModel, *, has_secret: bool
) -> Readiness:
    """Of the doctor, who looks and changes nothing."""
    secret = partial(require_secret, uow, settings.erasure_secret(), note=False) if has_secret else None
    return Readiness(uow, embedder, reranker, chat, _broker_check(settings), DOCTORS_PATIENCE_S, secret)


def _broker_check(settings: Settings) -> partial[None]:
    return partial(check_broker, broker_settings(settings))
