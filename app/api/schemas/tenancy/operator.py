"""Bodies of /operator."""

from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from mnema_wire.bases import Request
from mnema_wire.fields import Identifier, Moment
from pydantic import BaseModel, ConfigDict, Field

from app.usecases.receipts.tenant_usage import TenantUsage

ScopeName = Literal["query", "write", "chat", "approve", "admin"]


class TenantIn(Request):
    """A tenant to create."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "acme"}]})
    name: Identifier = Field(description="unique in the installation")


class TenantOut(BaseModel):
    """A tenant."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    name: str
    created_at: datetime


class TenantPageOut(BaseModel):
    """A page of tenants by name. Pass `next_cursor` as `cursor` for the next page."""

    items: list[TenantOut]
    next_cursor: str | None = None


class ApiKeyIn(Request):
    """An API key to create."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "planner", "scopes": ["query", "write"], "agents": ["planner"]}]},
    )
    name: Identifier = "key"
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=5)]
    agents: Annotated[list[Identifier], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="absent or null: the key is bound to no agent"
    )
    expires_at: Moment | None = Field(default=None, description="absent or null: the key does not expire")


class ApiKeyOut(BaseModel):
    """An API key, without the key itself."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    name: str
    prefix: str = Field(description="the first characters of the key")
    scopes: list[ScopeName]
    agents: list[str] | None = Field(description="null: the key is bound to no agent")
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewApiKeyOut(ApiKeyOut):
    """A new API key. Only this answer has its plain text."""

    key: str = Field(description="the plain key; it is shown here alone and not stored")


class ApiKeyPageOut(BaseModel):
    """A page of keys, oldest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[ApiKeyOut]
    next_cursor: str | None = None


class TenantUsageOut(BaseModel):
    """The usage of a tenant on a day (UTC)."""

    tenant_id: UUID
    tenant: str = Field(description="its name")
    day: date
    queries: int = Field(description="answered queries that left a receipt")
    tokens: int = Field(description="of their answers")
    writes: int = Field(description="memories and facts that were stored, changed or deleted")
    model_tokens: int = Field(description="of the chat model")

    @classmethod
    def from_row(cls, row: TenantUsage) -> "TenantUsageOut":
        """Return the body for a row."""
        counts = {name: getattr(row.usage, name) for name in ("day", "queries", "tokens", "writes", "model_tokens")}
        return cls(tenant_id=row.tenant.id, tenant=row.tenant.name, **counts)


class TenantUsagePageOut(BaseModel):
    """A page of usage, by tenant and day. Pass `next_cursor` as `cursor` for the next page, also after an empty one."""

    items: list[TenantUsageOut]
    next_cursor: str | None = None
