"""The builders of tenants' chat endpoints, for servers and for operators' commands."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.adapters import upstream_settings
from app.bootstrap.database import open_database
from app.bootstrap.parts import SharedParts
from app.config.settings import Settings
from app.providers.upstreams import build_upstream_client, installation_upstreams
from app.storage.chat.key_cipher import KeyCipher
from app.storage.chat.upstreams import UpstreamStorage
from app.storage.operations.secret import require_secret
from app.storage.uow import UnitOfWork
from app.usecases.chat.upstreams import FindUpstream, ManageUpstreams


def build_upstreams(parts: SharedParts) -> FindUpstream:
    """Build the use-case that finds a tenant's endpoint."""
    policy = parts.policies.defaults.chat
    return FindUpstream(
        _build_storage(parts.uow, parts.settings),
        installation_upstreams(upstream_settings(parts.settings)),
        key_cache_s=parts.settings.key_cache_s,
        patience_s=policy.memory_timeout_s,
        grace_s=policy.outage_grace_s,
    )


@asynccontextmanager
async def open_upstreams(settings: Settings, *, check_secret: bool = False) -> AsyncIterator[ManageUpstreams]:
    """Open tenants' chat endpoints alone, for an operator's command.

    With `check_secret`, raise ConfigError if the servers use another secret: they could not decrypt a key of ours.
    """
    share = upstream_settings(settings)
    installation = installation_upstreams(share)
    client = build_upstream_client(share)
    try:
        async with open_database(settings) as uow:
            if check_secret:
                await require_secret(uow, settings.erasure_secret(), note=False)
            yield ManageUpstreams(_build_storage(uow, settings), installation, client)
    finally:
        await client.close()


def _build_storage(uow: UnitOfWork, settings: Settings) -> UpstreamStorage:
    return UpstreamStorage(uow, build_key_cipher(settings))


def build_key_cipher(settings: Settings) -> KeyCipher:
    """Build the encryption of endpoints' keys. Raise ConfigError for a missing or too short secret."""
    return KeyCipher(settings.erasure_secret(), settings.former_secret())
