"""The builders of the capability `retention`: forgetting, export and erasure."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from app.bootstrap.database import open_clock, open_database
from app.bootstrap.parts import SharedParts
from app.bootstrap.policies import load_tenant_policies
from app.config.settings import Settings
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobStorage
from app.storage.journal import Journal
from app.storage.operations.spaces import active_space
from app.storage.retention.export import ExportStorage
from app.storage.retention.forgetting import ForgettingStorage
from app.storage.retention.imports import ImportStorage
from app.storage.retention.partitions import PartitionStorage
from app.usecases.retention.erasure import EraseUser
from app.usecases.retention.export import ExportUser
from app.usecases.retention.forgetting import ForgetMemories
from app.usecases.retention.import_files import ImportFiles
from app.usecases.retention.imports import ImportUser
from app.usecases.retention.partitions import KeepPartitions
from app.usecases.tenancy.limits import Limits


@dataclass(frozen=True, slots=True)
class RetentionUseCases:
    """The use-cases that forget memories, export and erase a user, and keep partitions."""

    forget: ForgetMemories
    export: ExportUser
    importing: ImportUser
    erase: EraseUser
    partitions: KeepPartitions


def build_retention(
    parts: SharedParts, limits: Limits, store_kept: Callable[[UUID], Awaitable[None]]
) -> RetentionUseCases:
    """Build the use-cases of the capability.

    `store_kept` stores the turns of a tenant that this server keeps, so that an erasure finds them.
    """
    storage = ForgettingStorage(parts.uow, parts.settings.erasure_secret())
    imports = ImportStorage(parts.uow, parts.journal, parts.space.name)
    homes = parts.database.homes

    async def note_copies(principal: Principal) -> list[str]:
        return [] if homes is None else await homes.note_erasure(principal)

    def find_home(tenant_id: UUID) -> dict[str, str | None]:
        if homes is None or (cluster := homes.known_home(tenant_id)) is None:
            return {}
        return {"cluster": cluster, "region": homes.regions.get(cluster)}

    return RetentionUseCases(
        forget=ForgetMemories(parts.uow, storage, parts.journal, parts.policies, parts.clock),
        export=ExportUser(
            parts.uow,
            ExportStorage(),
            parts.access,
            parts.blobs,
            parts.policies,
            parts.clock,
            find_home,
        ),
        importing=ImportUser(
            parts.uow,
            imports,
            JobStorage(parts.uow, parts.policies.defaults.jobs),
            ImportFiles(parts.uow, imports, parts.blobs, parts.policies.defaults.sources.max_file_bytes),
            parts.embedder,
            parts.policies,
            limits,
            parts.clock,
            parts.settings.erasure_secret(),
        ),
        erase=EraseUser(storage, parts.access, parts.clock, store_kept, note_copies),
        partitions=KeepPartitions(PartitionStorage(parts.uow), parts.policies, parts.clock),
    )


@asynccontextmanager
async def open_partitions(settings: Settings) -> AsyncIterator[KeepPartitions]:
    """Open the upkeep of partitions alone, for an operator's command. It needs the database, not the model."""
    async with open_database(settings) as uow:
        policies = await load_tenant_policies(settings, uow)
        yield KeepPartitions(PartitionStorage(uow), policies, await open_clock(uow))


@asynccontextmanager
async def open_forgetting(settings: Settings) -> AsyncIterator[ForgetMemories]:
    """Open forgetting alone, for an operator's command. It needs the database, not the model."""
    secret = settings.erasure_secret()
    async with open_database(settings) as uow:
        policies = await load_tenant_policies(settings, uow)
        journal = Journal(uow, (await active_space(uow)).name, secret)
        yield ForgetMemories(uow, ForgettingStorage(uow, secret), journal, policies, await open_clock(uow))
