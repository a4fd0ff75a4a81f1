"""The versions of tenants' own rules. `alembic check` compares this with the migrations."""

from sqlalchemy import CheckConstraint, Column, DateTime, ForeignKey, Index, Integer, Table, Text
from sqlalchemy.dialects.postgresql import JSONB, UUID

from app.storage.tables.base import bigint_column, metadata, text_column

tenant_configs = Table(
    "tenant_configs",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, CheckConstraint("version >= 1"), primary_key=True, autoincrement=False),
    Column("document", JSONB, CheckConstraint("jsonb_typeof(document) = 'object'"), nullable=False),
    text_column("actor"),
    Column("note", Text, CheckConstraint("length(note) <= 500")),
    Column("created_at", DateTime(timezone=True), nullable=False),
    bigint_column("stamp"),
    Index("tenant_configs_changed", "stamp"),
)
