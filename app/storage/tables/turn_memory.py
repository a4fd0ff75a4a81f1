"""Turn memory: artifacts, and the ledger of their blobs."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
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

blobs = Table(
    "blobs",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    text_column("uri", key=True),
    text_column("user_id"),
    Column("created_at", _time, nullable=False),
    Index("blobs_by_age", "tenant_id", "created_at"),
    Index("blobs_of_user", "tenant_id", "user_id"),
)
blob_contents = Table(
    "blob_contents",
    metadata,
    tenant_column(),
    text_column("uri", key=True),
    Column("content", LargeBinary, nullable=False),
    ForeignKeyConstraint(["tenant_id", "uri"], ["blobs.tenant_id", "blobs.uri"], ondelete="CASCADE"),
)
swept_blobs = Table(
    "swept_blobs",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    text_column("uri", key=True),
    Column("swept_at", _time, nullable=False),
    Column("deleted", Boolean, nullable=False),
)
conv_messages = Table(
    "conv_messages",
    metadata,
    tenant_column(),
    id_column(),
    *(text_column(name) for name in ("user_id", "conversation_id")),
    *(text_column(name, null=True) for name in ("turn_id", "track_id")),
    *(text_column(name) for name in ("kind", "place", "text")),
    Column("tags", ARRAY(Text), nullable=False),
    text_column("hosted_uri", null=True),
    bigint_column("version"),
    Column("reconciled_version", BigInteger),
    *(Column(name, _time, nullable=False) for name in ("made_at", "created_at", "updated_at")),
    UniqueConstraint("tenant_id", "user_id", "conversation_id", "kind", "place"),
    ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.user_id"]),
    ForeignKeyConstraint(["tenant_id", "hosted_uri"], ["blobs.tenant_id", "blobs.uri"]),
    CheckConstraint("(hosted_uri IS NOT NULL) = (kind IN ('artifact:turn.log', 'conversation.memory.bucket.v1'))"),
    Index("conv_messages_by_age", "tenant_id", "made_at"),
)
Index(
    "conv_messages_newest",
    *(conv_messages.c[name] for name in ("tenant_id", "user_id", "conversation_id", "kind")),
    desc("made_at"),
    desc("id"),
)
Index(
    "conv_messages_reactions",
    *(conv_messages.c[name] for name in ("tenant_id", "user_id", "conversation_id", "turn_id")),
    postgresql_where=sql("kind = 'artifact:turn.log.reaction'"),
)
Index(
    "conv_messages_waiting",
    *(conv_messages.c[name] for name in ("tenant_id", "user_id", "conversation_id", "made_at")),
    postgresql_where=sql("kind = 'artifact:turn.fingerprint.v1' AND reconciled_version IS DISTINCT FROM version"),
)
Index(
    "conv_messages_blob",
    *(conv_messages.c[name] for name in ("tenant_id", "hosted_uri")),
    postgresql_where=sql("hosted_uri IS NOT NULL"),
)
Index(
    "conv_messages_signals",
    *(conv_messages.c[name] for name in ("tenant_id", "user_id")),
    desc("made_at"),
    desc("id"),
    postgresql_where=sql("kind = 'artifact:turn.fingerprint.v1' AND tags @> '{assistant_signal}'"),
)
Index(
    "conv_messages_tags",
    sql("(tags || ARRAY['_t' || tenant_id::text, '_u' || user_id])"),
    postgresql_using="gin",
    _table=conv_messages,
)
