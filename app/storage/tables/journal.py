"""The journal's tables: history, change log, revisions, events, idempotency keys, cursors; and jobs."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    desc,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import JSONB, REAL

from app.storage.tables.base import bigint_column, id_column, metadata, tenant_column, text_column

_time = DateTime(timezone=True)


thread_revision = Table(
    "thread_revision",
    metadata,
    tenant_column(),
    text_column("thread_id", key=True),
    bigint_column("rev"),
    *(Column(name, JSONB, nullable=False) for name in ("pruned", "erased")),
)
change_log = Table(
    "change_log",
    metadata,
    tenant_column(),
    id_column(),
    text_column("thread_id"),
    bigint_column("rev"),
    text_column("memory_id"),
    text_column("event"),
    text_column("category_before", null=True),
    text_column("category_after", null=True),
    Column("meta", JSONB, nullable=False),
    Column("ts", _time, nullable=False),
    Column("user_pk", BigInteger),
    *(text_column(name, null=True) for name in ("type", "state_before")),
    Index("change_log_memory", "tenant_id", "memory_id"),
)
Index("change_log_rev", change_log.c.tenant_id, change_log.c.thread_id, desc("rev"), unique=True)

delta_cursors = Table(
    "delta_cursors",
    metadata,
    tenant_column(),
    text_column("user_id", key=True),
    text_column("thread_id", key=True),
    text_column("agent", key=True),
    bigint_column("rev"),
    Column("updated_at", _time, nullable=False),
    id_column("key_id"),
)
Index(
    "delta_cursors_of_key",
    delta_cursors.c.tenant_id,
    delta_cursors.c.key_id,
    postgresql_where=sql("key_id <> '00000000-0000-0000-0000-000000000000'"),
)
history = Table(
    "history",
    metadata,
    tenant_column(),
    text_column("memory_id", key=True),
    id_column(),
    text_column("event"),
    *(text_column(name, null=True) for name in ("old_ref", "new_ref", "actor")),
    Column("meta", JSONB, nullable=False),
    Column("ts", _time, nullable=False),
    bigint_column("stamp"),
)
Index("history_by_time", history.c.tenant_id, history.c.memory_id, desc("ts"), desc("id"))
Index("history_by_transaction", history.c.tenant_id, history.c.stamp, history.c.id)

events = Table(
    "events",
    metadata,
    tenant_column(),
    id_column(),
    text_column("user_id", null=True),
    text_column("thread_id", null=True),
    *(text_column(name) for name in ("node", "op", "status")),
    text_column("memory_id", null=True),
    text_column("category", null=True),
    Column("sim", REAL),
    Column("ts", _time, nullable=False),
)
Index("events_by_user", events.c.tenant_id, events.c.user_id, desc("ts"))
Index("events_by_age", events.c.tenant_id, events.c.ts)
Index("events_by_node", events.c.tenant_id, events.c.node, desc("ts"))

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    tenant_column(),
    id_column("key_id"),
    text_column("route", key=True),
    text_column("key", key=True),
    Column("body_hash", LargeBinary, nullable=False),
    Column("response", JSONB, nullable=False),
    Column("created_at", _time, nullable=False),
    text_column("user_id", null=True),
)
Index(
    "idempotency_keys_of_user",
    idempotency_keys.c.tenant_id,
    idempotency_keys.c.user_id,
    postgresql_where=sql("user_id IS NOT NULL"),
)
Index("idempotency_keys_by_age", idempotency_keys.c.tenant_id, idempotency_keys.c.created_at)
tombstones = Table(
    "tombstones",
    metadata,
    tenant_column(),
    Column("hash", LargeBinary, primary_key=True),
    Column("created_at", _time, nullable=False),
)
jobs = Table(
    "jobs",
    metadata,
    tenant_column(),
    id_column(),
    text_column("kind"),
    text_column("state"),
    text_column("user_id", null=True),
    Column("payload", JSONB, nullable=False),
    Column("payload_hash", Text, Computed("md5(payload::text)", persisted=True), nullable=False),
    text_column("slot", null=True),
    Column("attempts", Integer, nullable=False),
    Column("next_run", _time, nullable=False),
    Column("published_at", _time),
    Column("lease_until", _time),
    text_column("worker", null=True),
    text_column("last_error", null=True),
    Column("report", JSONB),
    Column("created_at", _time, nullable=False),
    Column("updated_at", _time, nullable=False),
    ForeignKeyConstraint(["tenant_id"], ["tenants.id"], ondelete="CASCADE"),
    UniqueConstraint("tenant_id", "kind", "slot"),
)
Index("jobs_due", jobs.c.next_run, postgresql_where=sql("state IN ('queued', 'running')"))
Index("jobs_listed", jobs.c.tenant_id, desc("created_at"), desc("id"))
Index("jobs_of_user", jobs.c.tenant_id, jobs.c.user_id, postgresql_where=sql("user_id IS NOT NULL"))
Index("jobs_dead", jobs.c.tenant_id, jobs.c.kind, jobs.c.created_at, postgresql_where=sql("state = 'dead'"))
Index(
    "jobs_same_fact",
    jobs.c.tenant_id,
    jobs.c.user_id,
    postgresql_where=sql("kind = 'same_fact' AND state = 'queued'"),
)
Index("jobs_ended", jobs.c.tenant_id, jobs.c.updated_at, postgresql_where=sql("state IN ('done', 'dead')"))
job_pauses = Table(
    "job_pauses",
    metadata,
    tenant_column(),
    text_column("kind", key=True),
    Column("paused_at", _time, nullable=False),
    ForeignKeyConstraint(["tenant_id"], ["tenants.id"], ondelete="CASCADE"),
)
consolidation_pairs = Table(
    "consolidation_pairs",
    metadata,
    tenant_column(),
    id_column("low"),
    id_column("high"),
    Column("score", REAL, primary_key=True),
    bigint_column("user_pk"),
    Column("same", Boolean),
    Column("checked_at", _time, nullable=False),
    ForeignKeyConstraint(["tenant_id", "user_pk"], ["users.tenant_id", "users.user_pk"], ondelete="CASCADE"),
)
Index(
    "consolidation_pairs_of_user",
    consolidation_pairs.c.tenant_id,
    consolidation_pairs.c.user_pk,
    consolidation_pairs.c.checked_at,
)
