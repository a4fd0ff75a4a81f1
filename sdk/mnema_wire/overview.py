"""Lists of what a tenant holds and what happened: users, threads, agents, categories, events and relations."""

from datetime import datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Page, words
from mnema_wire.fields import TypeWord

NodeName = Literal["hotpath", "context", "episodic", "worker"]
StatusName = Literal["ok", "error", "skipped"]


class Event(Answered):
    """An operational event: what was done, where, and with which result. It holds no text."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    ts: datetime
    node: Annotated[str, words(*get_args(NodeName))]
    op: str
    status: Annotated[str, words(*get_args(StatusName))]
    user_id: str | None
    thread_id: str | None
    memory_id: str | None = Field(description="the memory that it is about; it may be deleted by now")
    category: str | None
    similarity: float | None = Field(description="the cosine to the memory that a write was compared with")


class EventPage(Page[Event]):
    """A page of events, newest first. Pass `next_cursor` as `cursor` for the next page."""


class RelatedMemory(Answered):
    """A memory that has relations."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    text: str = Field(description="the first 300 characters")
    category: str
    type: TypeWord
    importance: int
    pinned: bool


class Relation(Answered):
    """A relation of two memories, from the newer one to the older one."""

    model_config = ConfigDict(from_attributes=True)
    from_id: UUID
    to_id: UUID
    relation_type: str
    strength: float = Field(description="the cosine of the two memories when they were related")


class Relations(Answered):
    """The strongest relations of a user's active memories, and the memories at their ends."""

    model_config = ConfigDict(from_attributes=True)
    nodes: list[RelatedMemory] = Field(description="oldest first")
    edges: list[Relation] = Field(description="strongest first")
    truncated: bool = Field(description="true: there are more relations than `limit`")


class KeyDescription(Answered):
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


class UserOverview(Answered):
    """A user of the tenant."""

    model_config = ConfigDict(from_attributes=True)
    user_id: str
    memories: int = Field(description="active memories, as `GET /memory` lists them")
    threads: int = Field(description="threads with active memories of this user")
    last_activity_at: datetime | None = Field(description="when a memory or a fact of this user last changed")
    created_at: datetime = Field(description="when the user was first stored")


class UserOverviewPage(Answered):
    """A page of users, by name. Pass `next_cursor` as `cursor` for the next page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[UserOverview]
    next_cursor: str | None = None


class ThreadOverview(Answered):
    """A thread with active memories. With `user_id`, its counts are those of this user."""

    model_config = ConfigDict(from_attributes=True)
    thread_id: str
    users: int = Field(description="users with active memories in the thread")
    user_ids: list[str] = Field(description="the first ten of them, by name")
    turns: int = Field(description="active turns")
    memories: int = Field(description="active memories, turns included")
    revision: int = Field(description="of the newest change that the key may see")
    last_activity_at: datetime


class ThreadOverviewPage(Answered):
    """A page of threads, by name. Pass `next_cursor` as `cursor` for the next page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[ThreadOverview]
    next_cursor: str | None = None


class AgentOverview(Answered):
    """An agent with an allowlist."""

    model_config = ConfigDict(from_attributes=True)
    agent: str
    categories: list[str] = Field(description="the categories of its allowlist, in the order of the configuration")
    memories: int = Field(description="active memories in these categories")
    written: int = Field(description="active memories that carry the agent's name")
    last_activity_at: datetime | None = Field(description="when one of the memories that it wrote last changed")


class AgentOverviewPage(Answered):
    """A page of agents, by name. Pass `next_cursor` as `cursor` for the next page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[AgentOverview]
    next_cursor: str | None = None


class CategoryOverview(Answered):
    """A configured category."""

    model_config = ConfigDict(from_attributes=True)
    name: str
    context: Annotated[str, words("all", "rag")] = Field(
        description="all: a query answers every memory of it; rag: the best ones"
    )
    label: str | None
    description: str | None
    memories: int = Field(description="active memories")
    last_activity_at: datetime | None = Field(description="when one of them last changed")
    agents: list[str] = Field(description="the agents that may see it; for a key bound to agents, those of the key")


class CategoryOverviewPage(Answered):
    """A page of categories, by name. Pass `next_cursor` as `cursor` for the next page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[CategoryOverview]
    next_cursor: str | None = None
