"""Tenants and their usage, for the operator; API keys, also for a tenant's administrators."""

from datetime import date, datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Page, Request, words
from mnema_wire.fields import Identifier, Moment

Scope = Literal["query", "write", "chat", "approve", "read_all", "admin"]


class NewTenant(Request):
    """A tenant to create."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "acme"}]})
    name: Identifier = Field(description="unique in the installation")
    cluster: Identifier | None = Field(
        None, description="its home, where there are clusters; by default the emptiest one"
    )
    region: Identifier | None = Field(
        None, description="the region that its home must be in, and stays in when it moves"
    )


class Tenant(Answered):
    """A tenant."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    name: str
    created_at: datetime


class TenantPage(Page[Tenant]):
    """A page of tenants by name. Pass `next_cursor` as `cursor` for the next page."""


class NewKey(Request):
    """An API key to create."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "planner", "scopes": ["query", "write"], "agents": ["planner"]}]},
    )
    name: Identifier = "key"
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=6)]
    agents: Annotated[list[Identifier], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="absent or null: the key is bound to no agent"
    )
    expires_at: Moment | None = Field(default=None, description="absent or null: the key does not expire")


class ApiKey(Answered):
    """An API key, without the key itself."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    name: str
    prefix: str = Field(description="the first characters of the key")
    scopes: list[Annotated[str, words(*get_args(Scope))]]
    agents: list[str] | None = Field(description="null: the key is bound to no agent")
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class CreatedKey(ApiKey):
    """A new API key. Only this answer has its plain text."""

    key: str = Field(description="the plain key; it is shown here alone and not stored")

    def __repr__(self) -> str:
        return f"CreatedKey(id={self.id!r}, prefix={self.prefix!r})"


class ApiKeyPage(Page[ApiKey]):
    """A page of keys, oldest first. Pass `next_cursor` as `cursor` for the next page."""


class TenantUsage(Answered):
    """The usage of a tenant on a day (UTC)."""

    tenant_id: UUID
    tenant: str = Field(description="its name")
    day: date
    queries: int = Field(description="answered queries that left a receipt")
    tokens: int = Field(description="of their answers")
    writes: int = Field(description="memories and facts that were stored, changed or deleted")
    model_tokens: int = Field(description="of the chat model")


class TenantUsagePage(Page[TenantUsage]):
    """A page of usage, by tenant and day. Pass `next_cursor` as `cursor` for the next page, also after an empty one."""
