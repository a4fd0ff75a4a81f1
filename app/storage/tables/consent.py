"""A user's consented context, the proposals to change it, and the questions asked about them."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    desc,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from app.storage.tables.base import bigint_column, id_column, metadata, tenant_column, text_column

_time = DateTime(timezone=True)

context_patches = Table(
    "context_patches",
    metadata,
    tenant_column(),
    id_column(),
    *(text_column(name) for name in ("user_id", "field", "value")),
    Column("value_key", LargeBinary, nullable=False),
    Column("sensitive", Boolean, nullable=False),
    text_column("state"),
    Column("signals", JSONB, nullable=False),
    text_column("actor"),
    text_column("thread_id", null=True),
    Column("created_at", _time, nullable=False),
    Column("expires_at", _time, nullable=False),
    Column("decided_at", _time),
    text_column("decided_by", null=True),
    text_column("way", null=True),
    bigint_column("decided_stamp", null=True),
    Column("keys", ARRAY(UUID), nullable=False),
    Column("answer_id", UUID),
    ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.user_id"]),
)
Index(
    "context_patches_pending",
    *(context_patches.c[name] for name in ("tenant_id", "user_id", "field", "value_key")),
    unique=True,
    postgresql_where=sql("state = 'pending'"),
)
Index(
    "context_patches_by_user",
    context_patches.c.tenant_id,
    context_patches.c.user_id,
    desc("created_at"),
    desc("id"),
)
Index(
    "context_patches_due",
    context_patches.c.tenant_id,
    context_patches.c.expires_at,
    postgresql_where=sql("state = 'pending'"),
)
user_context = Table(
    "user_context",
    metadata,
    tenant_column(),
    *(text_column(name, key=True) for name in ("user_id", "field", "item")),
    text_column("value"),
    Column("patch_id", UUID, nullable=False),
    Column("updated_at", _time, nullable=False),
    CheckConstraint(r"item = '' OR field LIKE '%\_add'"),
    ForeignKeyConstraint(["tenant_id", "patch_id"], ["context_patches.tenant_id", "context_patches.id"]),
    Index("user_context_patch", "tenant_id", "patch_id", unique=True),
)
context_questions = Table(
    "context_questions",
    metadata,
    tenant_column(),
    text_column("thread_id", key=True),
    text_column("user_id"),
    Column("patch_id", UUID, nullable=False),
    text_column("question"),
    bigint_column("rev"),
    Column("asked_at", _time, nullable=False),
    Column("turn_id", UUID, nullable=False),
    Column("key_id", UUID),
    ForeignKeyConstraint(
        ["tenant_id", "patch_id"], ["context_patches.tenant_id", "context_patches.id"], ondelete="CASCADE"
    ),
    Index("context_questions_patch", "tenant_id", "patch_id", unique=True),
)
