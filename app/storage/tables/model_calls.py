"""Calls of a chat model, and the tokens used each day."""

from sqlalchemy import Boolean, CheckConstraint, Column, Date, DateTime, ForeignKey, Index, Integer, SmallInteger, Table
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import UUID

from app.storage.tables.base import bigint_column, id_column, metadata, text_column


def _tenant_column() -> "Column[object]":
    return Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)


def _integer_column(name: str, type_: type[Integer], *checks: CheckConstraint) -> "Column[int]":
    return Column(name, type_, *checks, nullable=False)


llm_calls = Table(
    "llm_calls",
    metadata,
    _tenant_column(),
    id_column(),
    Column("ts", DateTime(timezone=True), nullable=False, server_default=sql("now()")),
    text_column("prompt"),
    _integer_column("version", SmallInteger),
    text_column("model"),
    _integer_column("attempt", SmallInteger, CheckConstraint("attempt > 0")),
    *(_integer_column(name, Integer) for name in ("input_tokens", "output_tokens", "duration_ms")),
    *(_integer_column(name, SmallInteger) for name in ("items", "items_ok")),
    Column("first_pass_ok", Boolean, nullable=False),
    text_column("status"),
    text_column("error", null=True),
    CheckConstraint("status IN ('ok', 'refused', 'error')"),
)
Index("llm_calls_by_age", llm_calls.c.tenant_id, llm_calls.c.ts)
llm_budget = Table(
    "llm_budget",
    metadata,
    _tenant_column(),
    Column("day", Date, primary_key=True),
    bigint_column("tokens"),
    CheckConstraint("tokens >= 0"),
)
