"""Lists of what a tenant holds and what happened, and the description of the caller's own key."""

from datetime import datetime
from typing import Literal, TypedDict, Unpack
from uuid import UUID

from mnema_wire.bases import Page

from mnema_client.answered import Answered
from mnema_client.calls import model_reader, query_params
from mnema_client.requests import Moment
from mnema_client.transport import Call


class KeyDescription(Answered):
    """A key without its secret. `agents` None: bound to no agent; `categories` None: it may see every category."""

    tenant_id: UUID
    tenant: str
    key_id: UUID
    name: str
    scopes: list[str]
    agents: list[str] | None
    categories: list[str] | None
    expires_at: datetime | None


class UserOverview(Answered):
    """A user: the active memories, the threads they are in, and the last change of a memory or a fact."""

    user_id: str
    memories: int
    threads: int
    last_activity_at: datetime | None
    created_at: datetime


class ThreadOverview(Answered):
    """A thread with active memories. `user_ids`: the first ten users; `turns` are counted in `memories` too.

    `revision`: of the newest change that the key may see.
    """

    thread_id: str
    users: int
    user_ids: list[str]
    turns: int
    memories: int
    revision: int
    last_activity_at: datetime


class AgentOverview(Answered):
    """An agent with an allowlist. `memories`: the active ones that it may see; `written`: those with its name.

    `last_activity_at`: the last change of one that it wrote.
    """

    agent: str
    categories: list[str]
    memories: int
    written: int
    last_activity_at: datetime | None


class CategoryOverview(Answered):
    """A configured category, its active memories, and the agents that may see it."""

    name: str
    context: str
    label: str | None
    description: str | None
    memories: int
    last_activity_at: datetime | None
    agents: list[str]


class Event(Answered):
    """An operational event. It holds no text; `memory_id` may name a memory that is deleted by now."""

    id: UUID
    ts: datetime
    node: str
    op: str
    status: str
    user_id: str | None
    thread_id: str | None
    memory_id: str | None
    category: str | None
    similarity: float | None


class RelatedMemory(Answered):
    """A memory that has relations. `text`: the first 300 characters."""

    id: UUID
    text: str
    category: str
    type: str
    importance: int
    pinned: bool


class Relation(Answered):
    """A relation of two memories, from the newer one to the older one."""

    from_id: UUID
    to_id: UUID
    relation_type: str
    strength: float


class Relations(Answered):
    """The strongest relations of a user's active memories. `truncated`: there are more than `limit`."""

    nodes: list[RelatedMemory]
    edges: list[Relation]
    truncated: bool


class EventFields(TypedDict, total=False):
    """Keywords of `list_events`; all must match. `since` is inclusive, `until` exclusive; `limit`: events a page."""

    node: Literal["hotpath", "context", "episodic", "worker"] | None
    op: str | None
    status: Literal["ok", "error", "skipped"] | None
    user_id: str | None
    thread_id: str | None
    since: Moment | None
    until: Moment | None
    limit: int | None


def describe_key() -> Call[KeyDescription]:
    """Describe the key of this client: its tenant, its scopes, its agents and what it may see."""
    return Call("GET", "/key", model_reader(KeyDescription))


def user_page(
    *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[UserOverview]]:
    """Return one page of users, by name. `prefix`: the first characters; `limit`: users a page, 1 to 200."""
    params = query_params(prefix=prefix, limit=limit, cursor=cursor)
    return Call("GET", "/users", model_reader(Page[UserOverview]), params)


def thread_page(
    *, user_id: str | None = None, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[ThreadOverview]]:
    """Return one page of threads with active memories, by name. With `user_id`, the counts are those of the user."""
    params = query_params(user_id=user_id, prefix=prefix, limit=limit, cursor=cursor)
    return Call("GET", "/threads", model_reader(Page[ThreadOverview]), params)


def agent_page(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[AgentOverview]]:
    """Return one page of the agents that have an allowlist, by name."""
    return Call("GET", "/agents", model_reader(Page[AgentOverview]), query_params(limit=limit, cursor=cursor))


def category_page(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[CategoryOverview]]:
    """Return one page of the configured categories that the key may see, by name."""
    return Call("GET", "/categories", model_reader(Page[CategoryOverview]), query_params(limit=limit, cursor=cursor))


def event_page(*, cursor: str | None = None, **fields: Unpack[EventFields]) -> Call[Page[Event]]:
    """Return one page of operational events, newest first. `EventFields` explains the filters."""
    return Call("GET", "/events", model_reader(Page[Event]), query_params(cursor=cursor, **fields))


def relations(user_id: str, *, min_strength: float | None = None, limit: int | None = None) -> Call[Relations]:
    """Return the strongest relations between active memories of a user, 150 by default, at most 500."""
    params = query_params(user_id=user_id, min_strength=min_strength, limit=limit)
    return Call("GET", "/relations", model_reader(Relations), params)
