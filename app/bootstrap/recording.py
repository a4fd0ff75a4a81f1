"""What keeps the record: the journal, the erasure of people, and decisions about what may be known of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.database import open_database
from app.config.loader import Policies, load_policies
from app.config.settings import Settings
from app.ports import Clock
from app.providers.clock import SystemClock
from app.storage.consent.patches import ConsentStorage
from app.storage.journal import Journal
from app.storage.operations.spaces import active_space
from app.storage.retention.forgetting import ForgettingStorage
from app.storage.uow import UnitOfWork
from app.usecases.consent.consent import Consent
from app.usecases.consent.decisions import Decisions


def build_journal_and_consent(
    uow: UnitOfWork, space: str, secret: bytes, policies: Policies, clock: Clock
) -> tuple[Journal, ForgettingStorage, Consent]:
    """In one embedding space, with the secret that keys the hashes of erased text."""
    journal = Journal(uow, space, secret)
    decisions = Decisions(uow, ConsentStorage(), journal, policies.consent, clock)
    return journal, ForgettingStorage(uow, secret), Consent(decisions, secret)


@asynccontextmanager
async def build_standalone_consent(settings: Settings) -> AsyncIterator[Consent]:
    """Consent alone, for operators: needs the database, not the model."""
    policies = load_policies(settings.embedding_model, settings.config_dir)
    async with open_database(settings) as uow:
        space = (await active_space(uow)).name
        yield build_journal_and_consent(uow, space, settings.erasure_secret(), policies, SystemClock())[2]
