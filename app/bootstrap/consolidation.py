"""The builder of the capability `consolidation`: merge and relate stored memories."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.adapters import chat_model_settings
from app.bootstrap.database import open_clock, open_database
from app.bootstrap.policies import load_tenant_policies
from app.bootstrap.reflection import build_model_gateway, build_same_fact_judge
from app.config.settings import Settings
from app.config.tenant_policies import TenantPolicies
from app.ports import ChatModel, Clock
from app.providers.chat_models import build_chat_model
from app.storage.consolidation.comparison import ConsolidationStorage
from app.storage.journal import Journal
from app.storage.operations.spaces import Space, active_space
from app.storage.uow import UnitOfWork
from app.usecases.consolidation.consolidate import Consolidate


def build_consolidation(
    uow: UnitOfWork, space: Space, journal: Journal, chat: ChatModel, policies: TenantPolicies, clock: Clock
) -> Consolidate:
    """Build the daily consolidation of one embedding space. Without a chat model the deterministic rule decides."""
    judge = build_same_fact_judge(build_model_gateway(uow, journal, chat, policies.defaults, clock), policies)
    return Consolidate(uow, ConsolidationStorage(space.name), journal, policies, clock, judge)


@asynccontextmanager
async def open_consolidation(settings: Settings) -> AsyncIterator[Consolidate]:
    """Open consolidation alone, for an operator's command. It needs the database, its vectors and any chat model."""
    secret = settings.erasure_secret()
    chat = build_chat_model(chat_model_settings(settings))
    try:
        async with open_database(settings) as uow:
            space = await active_space(uow)
            policies = await load_tenant_policies(settings, uow, space.model)
            journal = Journal(uow, space.name, secret)
            yield build_consolidation(uow, space, journal, chat, policies, await open_clock(uow))
    finally:
        await chat.close()
