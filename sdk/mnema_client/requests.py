"""Request bodies of Mnema, with the field names of the HTTP API, as models and as keywords of the methods.

Identifiers are the caller's own: 1 to 200 printable characters. A keyword that is None is not sent.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal, Required, TypedDict
from uuid import UUID

from mnema_wire.fields import StateName, TypeName
from mnema_wire.memory import Source
from mnema_wire.recall import Filters
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from mnema_client.errors import CannotBeSent

MemoryType = TypeName
MemoryState = StateName
JobState = Literal["queued", "running", "done", "dead"]
Moment = datetime | date | str
"""A date is UTC midnight, a time without zone is UTC; a string is ISO 8601."""


def encode_json(body: Any) -> bytes:
    """Return the body as JSON. Raise CannotBeSent for a value that JSON does not have."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=to_jsonable_python).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise CannotBeSent(f"the body cannot be written as JSON: {error}") from error


def metadata_pairs(metadata: Mapping[str, Any]) -> list[str]:
    """Return the pairs as the filters of a list take them, `key:value`. Raise CannotBeSent for a key with a colon."""
    if any(":" in key or not key for key in metadata):
        raise CannotBeSent("a filter cannot name a key of metadata that is empty or has a colon")
    return [f"{key}:{param_text(value)}" for key, value in metadata.items()]


def param_text(value: Any) -> str:
    """Return a value as the text of a query string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def encode_body(body: BaseModel) -> bytes:
    """Return the set fields as JSON; the server's defaults apply to the others. Raise CannotBeSent."""
    return encode_json(body.model_dump(exclude_unset=True, by_alias=True))


class MemoryFields(TypedDict, total=False):
    """Keywords of `remember` besides the text; `NewMemory` explains each."""

    user_id: Required[str]
    category: str | None
    type: MemoryType | None
    thread_id: str | None
    seq: int | None
    agent_id: str | None
    run_id: str | None
    actor_id: str | None
    role: str | None
    steps_text: str | None
    importance: int | None
    pinned: bool | None
    tags: Sequence[str] | None
    source: Source | Mapping[str, str] | None
    metadata: Mapping[str, Any] | None
    created_at: Moment | None
    expires_at: Moment | None
    valid_from: Moment | None
    valid_to: Moment | None
    language: str | None


class TurnFields(TypedDict, total=False):
    """Keywords of `add_turn` besides the content; `NewTurn` explains each."""

    user_id: Required[str]
    thread_id: Required[str]
    role: Required[str]
    actor_id: str | None
    agent_id: str | None
    seq: int | None
    created_at: Moment | None
    metadata: Mapping[str, Any] | None
    learn: Literal["model", "rules"] | None


class ChangeFields(TypedDict, total=False):
    """Keywords of `edit`."""

    text: str | None
    steps_text: str | None
    category: str | None
    importance: int | None
    pinned: bool | None
    tags: Sequence[str] | None
    metadata: Mapping[str, Any] | None
    expires_at: Moment | Literal["never"] | None
    valid_from: Moment | Literal["open"] | None
    valid_to: Moment | Literal["open"] | None
    language: str | None


class QuestionFields(TypedDict, total=False):
    """Keywords of `query` besides the question; `Question` explains each."""

    user_id: str | None
    agent: str | None
    categories: Sequence[str] | None
    filters: Filters | Mapping[str, Any] | None
    where: Mapping[str, Any] | None
    top_k: int | None
    returns: Literal["bullets", "full"] | None
    budget_tokens: int | None
    threshold: float | None
    min_relevance: float | None
    thread_id: str | None
    before_seq: int | None
    exclude_ids: Sequence[UUID | str] | None
    since_rev: int | None
    explain: bool | None
    neighbours: int | None
    dates: bool | None
    profile: str | None
    as_of: Moment | None
    valid_at: Moment | None
    timezone: str | None


class ListFields(TypedDict, total=False):
    """Keywords of `list`; all must match. `state` is active by default; `limit`: memories a page, 1 to 200.

    `q`: words of the text: all of them, "a phrase", or, -without. `category`, `type`: one, or any of several.
    `metadata`: pairs that the memory has. `where`: further conditions, also as JSON text. `sort`: created_at by
    default; `order`: desc by default.
    """

    user_id: str | None
    q: str | None
    category: str | Sequence[str] | None
    type: MemoryType | Sequence[MemoryType] | None
    state: MemoryState | None
    thread_id: str | None
    agent_id: str | None
    run_id: str | None
    actor_id: str | None
    role: str | None
    language: str | None
    tag: str | None
    pinned: bool | None
    importance_min: int | None
    importance_max: int | None
    updated_after: Moment | None
    updated_before: Moment | None
    expires_after: Moment | None
    expires_before: Moment | None
    created_after: Moment | None
    created_before: Moment | None
    metadata: Mapping[str, str | float | bool] | None
    where: Mapping[str, Any] | str | None
    sort: Literal["created_at", "updated_at", "importance"] | None
    order: Literal["desc", "asc"] | None
    as_of: Moment | None
    valid_at: Moment | None
    limit: int | None
