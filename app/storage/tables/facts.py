"""The facts that users stated."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    desc,
)
from sqlalchemy import text as sql

from app.storage.tables.base import id_column, metadata, tenant_column, text_column

_time = DateTime(timezone=True)
_place = sql("thread_place(thread_id)")

facts = Table(
    "facts",
    metadata,
    tenant_column(),
    id_column(),
    text_column("user_id"),
    text_column("thread_id", null=True),
    *(text_column(name) for name in ("topic_key", "kind")),
    Column("rank", Integer),
    *(text_column(name) for name in ("value", "value_key", "category")),
    text_column("source_message_id", null=True),
    Column("list_length", Integer),
    Column("listed_at", _time),
    *(Column(name, _time, nullable=False) for name in ("created_at", "updated_at")),
    Column("doubted_at", _time),
    Column("removed_at", _time),
    ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.user_id"]),
    CheckConstraint("(kind = 'ranked') = (rank IS NOT NULL)"),
    Index(
        "facts_place",
        *("tenant_id", "user_id", "topic_key", _place, "kind", "rank"),
        unique=True,
        postgresql_nulls_not_distinct=True,
    ),
)
Index(
    "facts_by_thread",
    *(facts.c[name] for name in ("tenant_id", "user_id")),
    _place,
    desc("created_at"),
    postgresql_where=sql("removed_at IS NULL"),
)
Index(
    "facts_by_topic",
    *(facts.c[name] for name in ("tenant_id", "user_id", "topic_key")),
    desc("created_at"),
    desc("updated_at"),
    postgresql_where=sql("removed_at IS NULL"),
)
Index(
    "facts_purgeable",
    *(facts.c[name] for name in ("tenant_id", "removed_at")),
    postgresql_where=sql("removed_at IS NOT NULL"),
)
