"""How far a chat model has read."""

from sqlalchemy import CheckConstraint, Column, DateTime, ForeignKeyConstraint, SmallInteger, Table
from sqlalchemy import text as sql

from app.storage.tables.base import bigint, metadata, tenant, text

reflections = Table(
    "reflections",
    metadata,
    tenant(),
    *(text(name, key=True) for name in ("user_id", "kind", "thread_id")),
    bigint("rev"),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("tries", SmallInteger, nullable=False, server_default=sql("0")),
    CheckConstraint("kind IN ('episode', 'summary', 'insight', 'day')"),
    ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.user_id"], ondelete="CASCADE"),
)
