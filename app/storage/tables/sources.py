"""Sources: their files, the places of their chunks, and the jobs that index them."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
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
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from app.storage.tables.base import bigint_column, id_column, metadata, tenant_column, text_column

_time = DateTime(timezone=True)


def _integers(*names: str) -> "list[Column[object]]":
    return [Column(name, Integer, nullable=False) for name in names]


sources = Table(
    "sources",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    id_column(),
    *(text_column(name) for name in ("user_id", "name", "kind")),
    text_column("root_path", null=True),
    text_column("category"),
    text_column("agent_id", null=True),
    Column("include", ARRAY(Text), nullable=False),
    Column("exclude", ARRAY(Text), nullable=False),
    Column("watch", Boolean, nullable=False),
    Column("removed_at", _time),
    Column("created_at", _time, nullable=False),
    Column("updated_at", _time, nullable=False),
    ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.user_id"]),
    CheckConstraint("kind IN ('folder', 'upload')"),
    Index(
        "sources_root",
        *("tenant_id", "user_id", "category", "root_path"),
        unique=True,
        postgresql_where=sql("removed_at IS NULL"),
    ),
    Index("sources_listed", "tenant_id", desc("created_at"), desc("id")),
    Index("sources_of_user", "tenant_id", "user_id"),
    Index("sources_removed", "tenant_id", postgresql_where=sql("removed_at IS NOT NULL")),
)
files = Table(
    "files",
    metadata,
    tenant_column(),
    id_column(),
    id_column("source_id", key=False),
    *(text_column(name) for name in ("user_id", "path")),
    text_column("filetype", null=True),
    bigint_column("size"),
    Column("modified_at", _time, nullable=False),
    text_column("stamp"),
    Column("hash", LargeBinary),
    *(text_column(name) for name in ("settings", "state")),
    *(text_column(name, null=True) for name in ("reason", "detail", "encoding")),
    bigint_column("characters"),
    *_integers("chunk_count"),
    text_column("hosted_uri", null=True),
    Column("indexed_at", _time),
    Column("index_job_id", UUID),
    Column("created_at", _time, nullable=False),
    Column("updated_at", _time, nullable=False),
    UniqueConstraint("tenant_id", "source_id", "path"),
    ForeignKeyConstraint(["tenant_id", "source_id"], ["sources.tenant_id", "sources.id"]),
    ForeignKeyConstraint(["tenant_id", "hosted_uri"], ["blobs.tenant_id", "blobs.uri"]),
    CheckConstraint("state IN ('waiting', 'indexed', 'rejected')"),
    Index("files_by_state", "tenant_id", "source_id", "state", "path"),
    Index("files_of_user", "tenant_id", "user_id", "id"),
    Index("files_blob", "tenant_id", "hosted_uri", postgresql_where=sql("hosted_uri IS NOT NULL")),
)
chunks = Table(
    "chunks",
    metadata,
    tenant_column(),
    id_column("memory_id"),
    Column("file_id", UUID),
    Column("turn_id", UUID),
    *_integers("ordinal", "start_at", "end_at"),
    Column("page", Integer),
    Column("heading", ARRAY(Text), nullable=False),
    Column("gap", Text, nullable=False, server_default=""),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"], ondelete="CASCADE"),
    ForeignKeyConstraint(["tenant_id", "file_id"], ["files.tenant_id", "files.id"]),
    ForeignKeyConstraint(["tenant_id", "turn_id"], ["memories.tenant_id", "memories.id"], ondelete="CASCADE"),
    UniqueConstraint("tenant_id", "file_id", "ordinal", name="chunks_of_file", deferrable=True, initially="DEFERRED"),
    UniqueConstraint("tenant_id", "turn_id", "ordinal", name="chunks_of_turn", deferrable=True, initially="DEFERRED"),
)
index_jobs = Table(
    "index_jobs",
    metadata,
    tenant_column(),
    id_column(),
    id_column("source_id", key=False),
    text_column("user_id"),
    id_column("job_id", key=False),
    *(text_column(name) for name in ("kind", "cause", "state")),
    Column("files_total", Integer),
    *_integers("files_done", "added", "changed", "unchanged", "removed", "rejected"),
    *_integers("chunks_added", "chunks_kept", "chunks_removed"),
    Column("bytes_read", BigInteger, nullable=False),
    text_column("error", null=True),
    Column("created_at", _time, nullable=False),
    Column("started_at", _time),
    Column("ended_at", _time),
    Column("updated_at", _time, nullable=False),
    ForeignKeyConstraint(["tenant_id", "source_id"], ["sources.tenant_id", "sources.id"], ondelete="CASCADE"),
    Index(
        "index_jobs_open",
        *("tenant_id", "source_id", "state"),
        unique=True,
        postgresql_where=sql("state IN ('queued', 'running')"),
    ),
    Index("index_jobs_listed", "tenant_id", "source_id", desc("created_at"), desc("id")),
)
