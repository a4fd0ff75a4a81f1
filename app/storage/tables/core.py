"""Tenants, keys, users, memories and their dependent tables. `alembic check` compares these with the migrations."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    desc,
)
from sqlalchemy import (
    text as sql,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL, TSVECTOR, UUID

from app.storage.tables.base import bigint_column, id_column, metadata, tenant_column, text_column

_time = DateTime(timezone=True)
_tsv = (
    "to_tsvector('english', coalesce(actor_id, '') || ' ' || text || ' ' || coalesce(steps_text, '') "
    "|| CASE WHEN type = 'chunk' THEN ' ' || coalesce(source->>'heading', '') ELSE '' END) "
    "|| array_to_tsvector(CASE WHEN type = 'chunk' "
    "THEN ARRAY['_ct' || replace(tenant_id::text, '-', ''), '_cu' || user_pk::text] "
    "ELSE ARRAY['_t' || replace(tenant_id::text, '-', ''), '_u' || user_pk::text] END)"
)

tenants = Table(
    "tenants",
    metadata,
    id_column(),
    Column("name", Text, CheckConstraint("length(name) BETWEEN 1 AND 200"), nullable=False, unique=True),
    Column("created_at", _time, nullable=False),
)
_of_tenant = ForeignKey("tenants.id", ondelete="CASCADE")

api_keys = Table(
    "api_keys",
    metadata,
    Column("tenant_id", UUID, _of_tenant, primary_key=True),
    id_column(),
    text_column("name"),
    text_column("prefix"),
    Column("key_hash", LargeBinary, nullable=False),
    Column("agents", ARRAY(Text)),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("created_at", _time, nullable=False),
    Column("expires_at", _time),
    Column("revoked_at", _time),
    Index("api_keys_hash", "key_hash", unique=True),
)
users = Table(
    "users",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    text_column("user_id", key=True),
    Column("user_pk", bigint_column("user_pk").type, Identity(always=True), nullable=False),
    Column("created_at", _time, nullable=False),
    UniqueConstraint("tenant_id", "user_pk"),
)
memories = Table(
    "memories",
    metadata,
    tenant_column(),
    id_column(),
    bigint_column("user_pk"),
    text_column("user_id"),
    text_column("thread_id", null=True),
    bigint_column("seq", null=True),
    *(text_column(name, null=True) for name in ("agent_id", "run_id", "actor_id", "role")),
    *(text_column(name) for name in ("type", "category", "text")),
    text_column("steps_text", null=True),
    Column("text_hash", LargeBinary, nullable=False),
    Column("importance", SmallInteger, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("tags", ARRAY(Text), nullable=False),
    text_column("state"),
    Column("source", JSONB),
    Column("metadata", JSONB, nullable=False),
    Column("superseded_by", UUID),
    Column("purge_at", _time),
    Column("version", Integer, nullable=False),
    Column("created_at", _time, nullable=False),
    Column("updated_at", _time, nullable=False),
    Column("stored_at", _time, nullable=False),
    text_column("fact_topic", null=True),
    Column("tsv", TSVECTOR, Computed(_tsv, persisted=True), nullable=False),
    ForeignKeyConstraint(["tenant_id", "user_pk"], ["users.tenant_id", "users.user_pk"]),
)
Index(
    "memories_active_text",
    *(memories.c[name] for name in ("tenant_id", "user_pk", "category", "text_hash")),
    unique=True,
    postgresql_where=sql("type = 'semantic' AND state = 'active'"),
)
Index(
    "memories_of_facts",
    *(memories.c[name] for name in ("tenant_id", "user_pk", "fact_topic")),
    unique=True,
    postgresql_where=sql("fact_topic IS NOT NULL"),
)
Index("memories_by_created", memories.c.tenant_id, desc("created_at"), desc("id"))
Index("memories_by_user", memories.c.tenant_id, memories.c.user_pk, desc("created_at"), desc("id"))
Index(
    "memories_by_thread",
    *(memories.c[name] for name in ("tenant_id", "thread_id", "seq")),
    postgresql_where=sql("thread_id IS NOT NULL"),
)
Index(
    "memories_by_run",
    *(memories.c[name] for name in ("tenant_id", "run_id")),
    postgresql_where=sql("run_id IS NOT NULL"),
)
Index("memories_by_category", memories.c.tenant_id, memories.c.category, memories.c.state)
Index(
    "memories_forgettable",
    memories.c.tenant_id,
    memories.c.updated_at,
    postgresql_where=sql("state = 'active' AND NOT pinned"),
)
for _name, _which in (("memories_filtered", "<>"), ("memories_chunks", "=")):
    Index(
        _name,
        memories.c.tenant_id,
        memories.c.user_pk,
        postgresql_include=(
            *("id", "category", "type", "thread_id", "agent_id", "run_id", "actor_id", "role", "tags", "pinned"),
            *("importance", "updated_at"),
        ),
        postgresql_where=sql(f"state = 'active' AND type {_which} 'chunk'"),
    )
Index("memories_purgeable", memories.c.tenant_id, memories.c.purge_at, postgresql_where=sql("purge_at IS NOT NULL"))
Index(
    "memories_summaries",
    *(memories.c[name] for name in ("tenant_id", "user_pk", "thread_id")),
    postgresql_where=sql("type = 'summary' AND state = 'active'"),
)
Index("memories_tsv", memories.c.tsv, postgresql_using="gin")

memory_access = Table(
    "memory_access",
    metadata,
    tenant_column(),
    id_column("memory_id"),
    Column("last_accessed", _time, nullable=False),
    bigint_column("hits"),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"], ondelete="CASCADE"),
)
relations = Table(
    "relations",
    metadata,
    tenant_column(),
    id_column(),
    text_column("from_id"),
    text_column("to_id"),
    text_column("relation_type", null=True),
    Column("strength", REAL, nullable=False),
    Column("created_at", _time),
    Index("relations_from", "tenant_id", "from_id"),
    Index("relations_to", "tenant_id", "to_id"),
    Index("relations_pair", "tenant_id", sql("LEAST(from_id, to_id)"), sql("GREATEST(from_id, to_id)"), unique=True),
)
embedding_spaces = Table(
    "embedding_spaces",
    metadata,
    text_column("name", key=True),
    text_column("model"),
    Column("dimension", Integer, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("created_at", _time, nullable=False),
    Column("ready", Boolean, nullable=False),
)
installation = Table(
    "installation",
    metadata,
    Column("only_row", Boolean, CheckConstraint("only_row"), primary_key=True),
    Column("secret_fingerprint", LargeBinary, nullable=False),
)
epochs = Table(
    "epochs",
    metadata,
    Column("number", SmallInteger, primary_key=True, autoincrement=False),
    Column("id", UUID, nullable=False),
    text_column("database"),
    Column("started_at", _time, nullable=False),
)
schema_fingerprint = Table(
    "schema_fingerprint",
    metadata,
    Column("only_row", Boolean, CheckConstraint("only_row"), primary_key=True),
    *(text_column(name) for name in ("revision", "fingerprint")),
    Column("server", Integer, nullable=False),
    Column("objects", JSONB, nullable=False),
    Column("migrated_at", _time, nullable=False),
)
Index("embedding_spaces_one_active", embedding_spaces.c.active, unique=True, postgresql_where=sql("active"))
