"""Store items by namespace and key, and their vectors."""

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Interval,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from app.storage.tables.base import id_column, metadata, text_column

_time = DateTime(timezone=True)
_by_bytes = Text(collation="C")

store_items = Table(
    "store_items",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    id_column(),
    Column("path", _by_bytes, CheckConstraint("path <> ''"), nullable=False),
    Column("key", _by_bytes, nullable=False),
    Column("value", JSONB, nullable=False),
    Column("size", Integer, nullable=False),
    Column("indexed", ARRAY(Text)),
    text_column("user_id", null=True),
    Column("ttl", Interval),
    Column("expires_at", _time),
    Column("created_at", _time, nullable=False),
    Column("updated_at", _time, nullable=False),
    UniqueConstraint("tenant_id", "path", "key"),
    Index(
        "store_items_names",
        sql("store_names(tenant_id, path, key)"),
        postgresql_using="gin",
        postgresql_where=sql("user_id IS NULL"),
    ),
)
Index(
    "store_items_of_user",
    store_items.c.tenant_id,
    store_items.c.user_id,
    postgresql_where=sql("user_id IS NOT NULL"),
)
Index(
    "store_items_expiring",
    store_items.c.tenant_id,
    store_items.c.expires_at,
    postgresql_where=sql("expires_at IS NOT NULL"),
)
store_vectors = Table(
    "store_vectors",
    metadata,
    Column("tenant_id", UUID, primary_key=True),
    id_column("item_id"),
    text_column("space", key=True),
    Column("part", SmallInteger, primary_key=True),
    Column("embedding", HALFVEC, nullable=False),
    ForeignKeyConstraint(["tenant_id", "item_id"], ["store_items.tenant_id", "store_items.id"], ondelete="CASCADE"),
)
