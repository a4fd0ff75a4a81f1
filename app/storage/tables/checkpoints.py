"""Checkpoints: the latest state of each thread, and what a checkpoint saver keeps of it."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    desc,
)
from sqlalchemy import (
    text as sql,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.storage.tables.base import bigint, identifier, metadata, tenant, text

_time = DateTime(timezone=True)

supervisor_checkpoints = Table(
    "supervisor_checkpoints",
    metadata,
    tenant(),
    identifier(),
    text("user_id"),
    text("thread_id"),
    Column("checkpoint_data", JSONB, nullable=False),
    Column("created_at", _time),
    Column("updated_at", _time),
    text("kind"),
    bigint("version"),
    Column("checkpoint_binary", LargeBinary),
    text("head", null=True),
    CheckConstraint("kind IN ('state', 'lineage')"),
    Index("supervisor_checkpoints_thread", "tenant_id", "user_id", "thread_id", unique=True),
)
Index("supervisor_checkpoints_updated", supervisor_checkpoints.c.tenant_id, desc("updated_at"))


def _of_thread() -> ForeignKeyConstraint:
    thread = ["supervisor_checkpoints.tenant_id", "supervisor_checkpoints.id"]
    return ForeignKeyConstraint(["tenant_id", "thread_pk"], thread, ondelete="CASCADE")


def _typed() -> tuple["Column[object]", "Column[object]"]:
    """What a saver wrote, and how."""
    return text("type"), Column("data", LargeBinary, nullable=False)


checkpoint_lineage = Table(
    "checkpoint_lineage",
    metadata,
    tenant(),
    identifier("thread_pk"),
    text("ns", key=True),
    text("checkpoint_id", key=True),
    text("parent_id", null=True),
    *_typed(),
    Column("metadata", JSONB, nullable=False),
    Column("versions", JSONB, nullable=False),
    Column("run_id", Text, Computed("metadata->>'run_id'", persisted=True)),
    Column("created_at", _time, nullable=False),
    _of_thread(),
)
Index("checkpoint_lineage_newest", checkpoint_lineage.c.tenant_id, checkpoint_lineage.c.checkpoint_id)
Index(
    "checkpoint_lineage_run",
    checkpoint_lineage.c.tenant_id,
    checkpoint_lineage.c.run_id,
    postgresql_where=sql("run_id IS NOT NULL"),
)
checkpoint_values = Table(
    "checkpoint_values",
    metadata,
    tenant(),
    identifier("thread_pk"),
    text("ns", key=True),
    text("channel", key=True),
    text("version", key=True),
    *_typed(),
    _of_thread(),
)
checkpoint_writes = Table(
    "checkpoint_writes",
    metadata,
    tenant(),
    identifier("thread_pk"),
    text("ns", key=True),
    text("checkpoint_id", key=True),
    text("task_id", key=True),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    text("task_path"),
    text("channel"),
    *_typed(),
    _of_thread(),
)
