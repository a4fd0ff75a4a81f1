"""Lists of what a tenant holds and what happened, and the description of the caller's own key."""

from typing import Literal, TypedDict, Unpack

from mnema_wire.bases import Page
from mnema_wire.overview import (
    AgentOverview,
    CategoryOverview,
    Event,
    KeyDescription,
    Relations,
    ThreadOverview,
    UserOverview,
)

from mnema_client.calls import get_call
from mnema_client.requests import Moment
from mnema_client.transport import Call


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
    return get_call("/key", KeyDescription)


def user_page(
    *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[UserOverview]]:
    """Return one page of users, by name. `prefix`: the first characters; `limit`: users a page, 1 to 200."""
    return get_call("/users", Page[UserOverview], prefix=prefix, limit=limit, cursor=cursor)


def thread_page(
    *, user_id: str | None = None, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[ThreadOverview]]:
    """Return one page of threads with active memories, by name. With `user_id`, the counts are those of the user."""
    return get_call("/threads", Page[ThreadOverview], user_id=user_id, prefix=prefix, limit=limit, cursor=cursor)


def agent_page(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[AgentOverview]]:
    """Return one page of the agents that have an allowlist, by name."""
    return get_call("/agents", Page[AgentOverview], limit=limit, cursor=cursor)


def category_page(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[CategoryOverview]]:
    """Return one page of the configured categories that the key may see, by name."""
    return get_call("/categories", Page[CategoryOverview], limit=limit, cursor=cursor)


def event_page(*, cursor: str | None = None, **fields: Unpack[EventFields]) -> Call[Page[Event]]:
    """Return one page of operational events, newest first. `EventFields` explains the filters."""
    return get_call("/events", Page[Event], cursor=cursor, **fields)


def relations(user_id: str, *, min_strength: float | None = None, limit: int | None = None) -> Call[Relations]:
    """Return the strongest relations between active memories of a user, 150 by default, at most 500."""
    return get_call("/relations", Relations, user_id=user_id, min_strength=min_strength, limit=limit)
