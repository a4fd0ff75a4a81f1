"""The builders of the policies of all tenants, and of the use-cases that change and refresh them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from app.bootstrap.adapters import adapt_ranking, load_process_policies
from app.bootstrap.database import open_clock, open_database
from app.bootstrap.parts import SharedParts
from app.config.loader import Policies, load_policies
from app.config.settings import Settings
from app.config.tenant_builder import TenantBuilder
from app.config.tenant_policies import TenantPolicies
from app.storage.journal import Journal
from app.storage.memory.batches import BatchStorage
from app.storage.operations.spaces import active_space
from app.storage.tenancy.configs import TenantConfigStorage
from app.storage.uow import UnitOfWork
from app.usecases.tenancy.category_moves import MoveCategories
from app.usecases.tenancy.refresh import RefreshRules
from app.usecases.tenancy.rules import ManageRules


def build_policies(settings: Settings, defaults: Policies | None = None) -> TenantPolicies:
    """Build the policies of a process, without any tenant's rules yet. Raise ConfigError."""
    defaults = defaults or load_process_policies(settings)
    builder = TenantBuilder(defaults, settings.config_dir, partial(adapt_ranking, settings=settings))
    return TenantPolicies(defaults, builder.build_policies)


async def load_tenant_policies(settings: Settings, uow: UnitOfWork, model: str | None = None) -> TenantPolicies:
    """Load the policies of all tenants once, for an operator's command. `model`: by default that of the settings."""
    policies = build_policies(settings, load_policies(model or settings.embedding_model, settings.config_dir))
    await build_refresh(uow, policies).load_changes()
    return policies


def build_refresh(uow: UnitOfWork, policies: TenantPolicies) -> RefreshRules:
    """Build the refresh of tenants' rules."""
    return RefreshRules([TenantConfigStorage(part) for part in uow.parts.values()], policies)


def build_rules(parts: SharedParts) -> ManageRules:
    """Build the use-cases that read and change a tenant's rules."""
    storage = TenantConfigStorage(parts.uow)
    moves = MoveCategories(storage, BatchStorage(), parts.journal, parts.clock)
    return ManageRules(parts.uow, storage, moves, parts.journal, parts.policies)


@asynccontextmanager
async def open_rules(settings: Settings) -> AsyncIterator[ManageRules]:
    """Open tenants' rules alone, for an operator's command. It needs the database, not the model."""
    secret = settings.erasure_secret()
    async with open_database(settings) as uow:
        policies = await load_tenant_policies(settings, uow)
        journal = Journal(uow, (await active_space(uow)).name, secret)
        storage = TenantConfigStorage(uow)
        moves = MoveCategories(storage, BatchStorage(), journal, await open_clock(uow))
        yield ManageRules(uow, storage, moves, journal, policies)
