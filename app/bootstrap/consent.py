"""The builder of the capability `consent`: proposals about a user, and their decisions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.database import open_clock, open_database
from app.bootstrap.policies import load_tenant_policies
from app.config.settings import Settings
from app.config.tenant_policies import TenantPolicies
from app.ports import TrustedClock
from app.storage.consent.patches import ConsentStorage
from app.storage.journal import Journal
from app.storage.operations.spaces import active_space
from app.storage.uow import UnitOfWork
from app.usecases.consent.consent import Consent
from app.usecases.consent.decisions import Decisions


def build_consent(
    uow: UnitOfWork, journal: Journal, secret: bytes, policies: TenantPolicies, clock: TrustedClock
) -> Consent:
    """Build the use-case of consent. `secret` keys the hashes of erased text."""
    return Consent(Decisions(uow, ConsentStorage(), journal, policies, clock), secret)


@asynccontextmanager
async def open_consent(settings: Settings) -> AsyncIterator[Consent]:
    """Open consent alone, for an operator's command. It needs the database, not the model."""
    secret = settings.erasure_secret()
    async with open_database(settings) as uow:
        policies = await load_tenant_policies(settings, uow)
        journal = Journal(uow, (await active_space(uow)).name, secret)
        yield build_consent(uow, journal, secret, policies, await open_clock(uow))
