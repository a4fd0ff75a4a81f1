"""The builders of the blobs of turn memory: their store, their ledger and their sweep."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.adapters import blob_store_settings
from app.bootstrap.database import open_clock, open_database
from app.bootstrap.parts import SharedParts
from app.config.settings import Settings
from app.ports import BlobStore
from app.providers.blobs import build_blob_store
from app.storage.turn_memory.blobs import BlobLedger, PostgresBlobStore
from app.storage.uow import UnitOfWork
from app.usecases.turn_memory.blobs import StoreBlobs


def build_blobs(settings: Settings, uow: UnitOfWork) -> BlobStore:
    """Build the store of blobs. It opens nothing yet. Raise ConfigError for invalid settings."""
    return build_blob_store(blob_store_settings(settings), PostgresBlobStore(uow))


def build_blob_use_case(parts: SharedParts) -> StoreBlobs:
    """Build the use-case that stores, reads and sweeps blobs."""
    return StoreBlobs(parts.blobs, BlobLedger(parts.uow), parts.clock)


@asynccontextmanager
async def open_blobs(settings: Settings) -> AsyncIterator[StoreBlobs]:
    """Open the blobs alone, for an operator's command. It needs the database and the store, not the model."""
    async with open_database(settings) as uow:
        store = build_blobs(settings, uow)
        try:
            yield StoreBlobs(store, BlobLedger(uow), await open_clock(uow))
        finally:
            await store.close()
