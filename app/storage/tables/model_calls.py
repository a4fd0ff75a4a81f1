"""Calls of a chat model, and the tokens of each day."""

from sqlalchemy import Boolean, CheckConstraint, Column, Date, DateTime, ForeignKey, Index, Integer, SmallInteger, Table
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import UUID

from app.storage.tables.base import bigint, identifier, metadata, text


def _tenant() -> "Column[object]":
    return Column("tenant_id", UUID, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)


def _number(name: str, type_: type[Integer], *checks: CheckConstraint) -> "Column[int]":
    return Column(name, type_, *checks, nullable=False)


llm_calls = Table(
    "llm_calls",
    metadata,
    _tenant(),
    identifier(),
    Column("ts", DateTime(timezone=True), nullable=False, server_default=sql("now()")),
    text("prompt"),
    _number("version", SmallInteger),
    text("model"),
    _number("attempt", SmallInteger, CheckConstraint("attempt > 0")),
    *(_number(name, Integer) for name in ("input_tokens", "output_tokens", "duration_ms")),
    *(_number(name, SmallInteger) for name in ("items", "items_ok")),
    Column("first_pass_ok", Boolean, nullable=False),
    text("status"),
    text("error", null=True),
    CheckConstraint("status IN ('ok', 'refused', 'error')"),
)
Index("llm_calls_by_age", llm_calls.c.tenant_id, llm_calls.c.ts)
llm_budget = Table(
    "llm_budget",
    metadata,
    _tenant(),
    Column("day", Date, primary_key=True),
    bigint("tokens"),
    CheckConstraint("tokens >= 0"),
)
