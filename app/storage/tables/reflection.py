"""The positions up to which a chat model has read."""

from sqlalchemy import CheckConstraint, Column, DateTime, ForeignKeyConstraint, SmallInteger, Table
from sqlalchemy import text as sql

from app.storage.tables.base import bigint_column, metadata, tenant_column, text_column

reflections = Table(
    "reflections",
    metadata,
    tenant_column(),
    *(text_column(name, key=True) for name in ("user_id", "kind", "thread_id")),
    bigint_column("rev"),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("tries", SmallInteger, nullable=False, server_default=sql("0")),
    CheckConstraint("kind IN ('episode', 'summary', 'insight', 'day')"),
    ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.user_id"], ondelete="CASCADE"),
)
