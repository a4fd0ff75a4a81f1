"""Checkpoints: the latest state of each thread, and a checkpoint saver's records."""

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

from app.storage.tables.base import bigint_column, id_column, metadata, tenant_column, text_column

_time = DateTime(timezone=True)

supervisor_checkpoints = Table(
    "supervisor_checkpoints",
    metadata,
    tenant_column(),
    id_column(),
    text_column("user_id"),
    text_column("thread_id"),
    Column("checkpoint_data", JSONB, nullable=False),
    Column("created_at", _time),
    Column("updated_at", _time),
    text_column("kind"),
    bigint_column("version"),
    Column("checkpoint_binary", LargeBinary),
    text_column("head", null=True),
    CheckConstraint("kind IN ('state', 'lineage')"),
    Index("supervisor_checkpoints_thread", "tenant_id", "user_id", "thread_id", unique=True),
)
Index("supervisor_checkpoints_updated", supervisor_checkpoints.c.tenant_id, desc("updated_at"))


def _thread_foreign_key() -> ForeignKeyConstraint:
    thread = ["supervisor_checkpoints.tenant_id", "supervisor_checkpoints.id"]
    return ForeignKeyConstraint(["tenant_id", "thread_pk"], thread, ondelete="CASCADE")


def _payload_columns() -> tuple["Column[object]", "Column[object]"]:
    """Return the columns for the type and the bytes that a saver wrote."""
    return text_column("type"), Column("data", LargeBinary, nullable=False)


checkpoint_lineage = Table(
    "checkpoint_lineage",
    metadata,
    tenant_column(),
    id_column("thread_pk"),
    text_column("ns", key=True),
    text_column("checkpoint_id", key=True),
    text_column("parent_id", null=True),
    *_payload_columns(),
    Column("metadata", JSONB, nullable=False),
    Column("versions", JSONB, nullable=False),
    Column("run_id", Text, Computed("metadata->>'run_id'", persisted=True)),
    Column("created_at", _time, nullable=False),
    _thread_foreign_key(),
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
    tenant_column(),
    id_column("thread_pk"),
    text_column("ns", key=True),
    text_column("channel", key=True),
    text_column("version", key=True),
    *_payload_columns(),
    _thread_foreign_key(),
)
checkpoint_writes = Table(
    "checkpoint_writes",
    metadata,
    tenant_column(),
    id_column("thread_pk"),
    text_column("ns", key=True),
    text_column("checkpoint_id", key=True),
    text_column("task_id", key=True),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    text_column("task_path"),
    text_column("channel"),
    *_payload_columns(),
    _thread_foreign_key(),
)
