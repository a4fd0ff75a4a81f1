"""The schema as SQLAlchemy knows it; queries do not go through it (docs/adr/0002)."""

from app.storage.tables import checkpoints, consent, core, llm, ops, reflection, store
from app.storage.tables.base import metadata

__all__ = ["checkpoints", "consent", "core", "llm", "metadata", "ops", "reflection", "store"]
