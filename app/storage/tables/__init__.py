"""The schema for SQLAlchemy and Alembic; queries do not use it (docs/adr/0002)."""

from app.storage.tables import (
    batches,
    chat,
    checkpoints,
    consent,
    core,
    facts,
    receipts,
    reflection,
    sources,
    tenancy,
    turn_memory,
)
from app.storage.tables import journal as ops
from app.storage.tables import model_calls as llm
from app.storage.tables import store_items as store
from app.storage.tables.base import metadata

__all__ = [
    "batches",
    "chat",
    "checkpoints",
    "consent",
    "core",
    "facts",
    "llm",
    "metadata",
    "ops",
    "receipts",
    "reflection",
    "sources",
    "store",
    "tenancy",
    "turn_memory",
]
