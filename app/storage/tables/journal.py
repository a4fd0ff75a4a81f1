"""What the journal writes: history, the change log, revisions, events, idempotency records, cursors; and jobs."""

from sqlalchemy import (
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
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.types import UserDefinedType

from app.storage.tables.base import bigint, identifier, metadata, tenant, text

_time = DateTime(timezone=True)


class Xid8(UserDefinedType[int]):
    """PostgreSQL's 64-bit transaction id."""

    cache_ok = True

    def get_col_spec(self, **_kw: object) -> str:
        """The type's name in DDL."""
        return "xid8"


ischema_names["xid8"] = Xid8  # so that the schema can be read back without a warning

thread_revision = Table("thread_revision", metadata, tenant(), text("thread_id", key=True), bigint("rev"))
change_log = Table(
    "change_log",
    metadata,
    tenant(),
    identifier(),
    text("thread_id"),
    bigint("rev"),
    text("memory_id"),
    text("event"),
    text("category_before", null=True),
    text("category_after", null=True),
    Column("meta", JSONB, nullable=False),
    Column("ts", _time, nullable=False),
    Index("change_log_memory", "tenant_id", "memory_id"),
)
Index("change_log_rev", change_log.c.tenant_id, change_log.c.thread_id, desc("rev"), unique=True)

delta_cursors = Table(
    "delta_cursors",
    metadata,
    tenant(),
    text("user_id", key=True),
    text("thread_id", key=True),
    text("agent", key=True),
    bigint("rev"),
    Column("updated_at", _time, nullable=False),
)
history = Table(
    "history",
    metadata,
    tenant(),
    text("memory_id", key=True),
    identifier(),
    text("event"),
    *(text(name, null=True) for name in ("old_ref", "new_ref", "actor")),
    Column("meta", JSONB, nullable=False),
    Column("ts", _time, nullable=False),
    Column("xid", Xid8, nullable=False),
)
Index("history_by_time", history.c.tenant_id, history.c.memory_id, desc("ts"), desc("id"))

events = Table(
    "events",
    metadata,
    tenant(),
    identifier(),
    text("user_id", null=True),
    text("thread_id", null=True),
    *(text(name) for name in ("node", "op", "status")),
    text("memory_id", null=True),
    text("category", null=True),
    Column("sim", REAL),
    Column("ts", _time, nullable=False),
)
Index("events_by_user", events.c.tenant_id, events.c.user_id, desc("ts"))
Index("events_by_age", events.c.tenant_id, events.c.ts)
Index("events_by_node", events.c.tenant_id, events.c.node, desc("ts"))

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    tenant(),
    identifier("key_id"),
    text("route", key=True),
    text("key", key=True),
    Column("body_hash", LargeBinary, nullable=False),
    Column("response", JSONB, nullable=False),
    Column("created_at", _time, nullable=False),
    text("user_id", null=True),
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
    tenant(),
    Column("hash", LargeBinary, primary_key=True),
    Column("created_at", _time, nullable=False),
)
jobs = Table(
    "jobs",
    metadata,
    tenant(),
    identifier(),
    text("kind"),
    text("state"),
    text("user_id", null=True),
    Column("payload", JSONB, nullable=False),
    Column("payload_hash", Text, Computed("md5(payload::text)", persisted=True), nullable=False),
    text("slot", null=True),
    Column("attempts", Integer, nullable=False),
    Column("next_run", _time, nullable=False),
    Column("published_at", _time),
    Column("lease_until", _time),
    text("worker", null=True),
    text("last_error", null=True),
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
Index("jobs_ended", jobs.c.tenant_id, jobs.c.updated_at, postgresql_where=sql("state IN ('done', 'dead')"))
job_pauses = Table(
    "job_pauses",
    metadata,
    tenant(),
    text("kind", key=True),
    Column("paused_at", _time, nullable=False),
    ForeignKeyConstraint(["tenant_id"], ["tenants.id"], ondelete="CASCADE"),
)
consolidation_pairs = Table(
    "consolidation_pairs",
    metadata,
    tenant(),
    identifier("low"),
    identifier("high"),
    Column("score", REAL, primary_key=True),
    bigint("user_pk"),
    Column("same", Boolean, nullable=False),
    Column("checked_at", _time, nullable=False),
    ForeignKeyConstraint(["tenant_id", "user_pk"], ["users.tenant_id", "users.user_pk"], ondelete="CASCADE"),
)
Index(
    "consolidation_pairs_of_user",
    consolidation_pairs.c.tenant_id,
    consolidation_pairs.c.user_pk,
    consolidation_pairs.c.checked_at,
)
