"""Bodies of /key, /users, /threads, /agents and /categories (`docs/contract.md`, Overview)."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field


class OwnKeyOut(BaseModel):
    """The key of the request. `agents` null: it is bound to no agent; `categories` null: it may see every category."""

    model_config = ConfigDict(from_attributes=True)
    tenant_id: UUID
    tenant: str = Field(description="the name of the key's tenant")
    key_id: UUID
    name: str
    scopes: list[str]
    agents: list[str] | None
    categories: list[str] | None
    expires_at: datetime | None


class UserOverviewOut(BaseModel):
    """A user of the tenant."""

    model_config = ConfigDict(from_attributes=True)
    user_id: str
    memories: int = Field(description="active memories, as `GET /memory` lists them")
    threads: int = Field(description="threads with active memories of this user")
    last_activity_at: datetime | None = Field(description="when a memory or a fact of this user last changed")
    created_at: datetime = Field(description="when the user was first stored")


class UserOverviewPageOut(BaseModel):
    """A page of users, by name. Pass `next_cursor` as `cursor` for the next page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[UserOverviewOut]
    next_cursor: str | None = None


class ThreadOverviewOut(BaseModel):
    """A thread with active memories. With `user_id`, its counts are those of this user."""

    model_config = ConfigDict(from_attributes=True)
    thread_id: str
    users: int = Field(description="users with active memories in the thread")
    user_ids: list[str] = Field(description="the first ten of them, by name")
    turns: int = Field(description="active turns")
    memories: int = Field(description="active memories, turns included")
    revision: int = Field(description="of the newest change that the key may see")
    last_activity_at: datetime


class ThreadOverviewPageOut(BaseModel):
    """A page of threads, by name. Pass `next_cursor` as `cursor` for the next page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[ThreadOverviewOut]
    next_cursor: str | None = None


class AgentOverviewOut(BaseModel):
    """An agent with an allowlist."""

    model_config = ConfigDict(from_attributes=True)
    agent: str
    categories: list[str] = Field(description="the categories of its allowlist, in the order of the configuration")
    memories: int = Field(description="active memories in these categories")
    written: int = Field(description="active memories that carry the agent's name")
    last_activity_at: datetime | None = Field(description="when one of the memories that it wrote last changed")


class AgentOverviewPageOut(BaseModel):
    """A page of agents, by name. Pass `next_cursor` as `cursor` for the next page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[AgentOverviewOut]
    next_cursor: str | None = None


class CategoryOverviewOut(BaseModel):
    """A configured category."""

    model_config = ConfigDict(from_attributes=True)
    name: str
    context: Literal["all", "rag"] = Field(description="all: a query answers every memory of it; rag: the best ones")
    label: str | None
    description: str | None
    memories: int = Field(description="active memories")
    last_activity_at: datetime | None = Field(description="when one of them last changed")
    agents: list[str] = Field(description="the agents that may see it; for a key bound to agents, those of the key")


class CategoryOverviewPageOut(BaseModel):
    """A page of categories, by name. Pass `next_cursor` as `cursor` for the next page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[CategoryOverviewOut]
    next_cursor: str | None = None
