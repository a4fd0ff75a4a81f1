"""Receipts of answers, the memories that they told, and the usage of each user and day."""

from sqlalchemy import CheckConstraint, Column, Date, DateTime, Index, Integer, SmallInteger, Table, desc
from sqlalchemy.dialects.postgresql import JSONB, REAL, UUID

from app.storage.tables.base import bigint_column, id_column, metadata, tenant_column, text_column

receipts = Table(
    "receipts",
    metadata,
    tenant_column(),
    id_column(),
    Column("ts", DateTime(timezone=True), nullable=False),
    text_column("via"),
    text_column("agent", null=True),
    Column("key_id", UUID),
    *(text_column(name, null=True) for name in ("user_id", "thread_id")),
    *(bigint_column(name, null=True) for name in ("header_from", "header_to")),
    Column("tokens", Integer),
    Column("relevance", REAL),
    text_column("degraded", null=True),
    CheckConstraint("via IN ('query', 'chat')"),
)
Index("receipts_by_time", receipts.c.tenant_id, desc("ts"), desc("id"))
Index(
    "receipts_by_user",
    receipts.c.tenant_id,
    receipts.c.user_id,
    desc("ts"),
    desc("id"),
    postgresql_where=receipts.c.user_id.is_not(None),
)
Index(
    "receipts_by_thread",
    receipts.c.tenant_id,
    receipts.c.thread_id,
    desc("ts"),
    desc("id"),
    postgresql_where=receipts.c.thread_id.is_not(None),
)
receipt_items = Table(
    "receipt_items",
    metadata,
    tenant_column(),
    id_column("receipt_id"),
    Column("place", SmallInteger, primary_key=True, autoincrement=False),
    text_column("part"),
    Column("memory_id", UUID, nullable=False),
    text_column("category"),
    Column("version", Integer),
    Column("relevance", REAL),
    Column("bullet", JSONB),
    CheckConstraint("part IN ('header', 'fact', 'item', 'related')"),
)
Index(
    "receipt_items_by_memory",
    receipt_items.c.tenant_id,
    receipt_items.c.memory_id,
    desc("receipt_id"),
    receipt_items.c.place,
)
usage_days = Table(
    "usage_days",
    metadata,
    tenant_column(),
    Column("day", Date, primary_key=True),
    text_column("user_id", key=True),
    *(bigint_column(name) for name in ("queries", "tokens")),
)
Index("usage_days_by_user", usage_days.c.tenant_id, usage_days.c.user_id, usage_days.c.day)
