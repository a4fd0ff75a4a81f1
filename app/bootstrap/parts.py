"""The parts that the builders of all capabilities share."""

from dataclasses import dataclass

from app.bootstrap.database import Database
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.config.tenant_policies import TenantPolicies
from app.ports import (
    BlobStore,
    ChatModel,
    Embedder,
    Reranker,
    TokenCounter,
    TrustedClock,
    UpstreamClient,
)
from app.providers.broker import JobPublisher
from app.providers.metrics import Metrics
from app.source_ports import DocumentParser, SourceFolders
from app.storage.access_log import AccessLog
from app.storage.journal import Journal
from app.storage.operations.spaces import Space
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class SharedParts:
    """One application's settings, adapters, journal and access log.

    `space`: the active embedding space. `worker`: the place of this process, if several serve one address.
    """

    settings: Settings
    policies: TenantPolicies
    database: Database
    uow: UnitOfWork
    space: Space
    embedder: Embedder
    reranker: Reranker
    chat: ChatModel
    metrics: Metrics
    clock: TrustedClock
    tokens: TokenCounter
    journal: Journal
    access: AccessLog
    publisher: JobPublisher
    upstream: UpstreamClient
    blobs: BlobStore
    parser: DocumentParser
    folders: SourceFolders
    worker: ServerWorker | None
