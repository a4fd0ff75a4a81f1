"""The schema for SQLAlchemy and Alembic; queries do not use it (docs/adr/0002)."""

from app.storage.tables import chat, checkpoints, consent, core, facts, reflection, sources, turn_memory
from app.storage.tables import journal as ops
from app.storage.tables import model_calls as llm
from app.storage.tables import store_items as store
from app.storage.tables.base import metadata

__all__ = [
    "chat",
    "checkpoints",
    "consent",
    "core",
    "facts",
    "llm",
    "metadata",
    "ops",
    "reflection",
    "sources",
    "store",
    "turn_memory",
]
