"""Batches of changed memories."""

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, Index, Integer, Table, Text, desc
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from app.storage.tables.base import bigint_column, id_column, metadata, tenant_column, text_column

memory_batches = Table(
    "memory_batches",
    metadata,
    tenant_column(),
    id_column(),
    text_column("action"),
    Column("undoes", UUID),
    text_column("user_id", null=True),
    Column("user_pks", ARRAY(BigInteger), nullable=False),
    *(Column(name, JSONB, nullable=False) for name in ("filters", "changes")),
    Column("categories", ARRAY(Text), nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("matched", "changed")),
    Column("skipped", JSONB, nullable=False),
    text_column("actor"),
    Column("created_at", DateTime(timezone=True), nullable=False),
    bigint_column("stamp"),
    CheckConstraint("(action = 'undo') = (undoes IS NOT NULL)"),
)
Index("memory_batches_listed", memory_batches.c.tenant_id, desc("created_at"), desc("id"))
for _name in ("user_id", "undoes"):
    Index(
        {"user_id": "memory_batches_of_user", "undoes": "memory_batches_undone"}[_name],
        memory_batches.c.tenant_id,
        _name,
        postgresql_where=sql(f"{_name} IS NOT NULL"),
    )
