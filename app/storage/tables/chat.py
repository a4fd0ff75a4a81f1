"""Chat with memory."""

from sqlalchemy import CheckConstraint, Column, DateTime, ForeignKey, LargeBinary, Table, Text
from sqlalchemy.dialects.postgresql import UUID

from app.storage.tables.base import metadata

chat_upstreams = Table(
    "chat_upstreams",
    metadata,
    Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("base_url", Text, CheckConstraint("length(base_url) BETWEEN 1 AND 2048"), nullable=False),
    Column("api_key", LargeBinary, CheckConstraint("length(api_key) <= 16384"), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
)
