"""Calls that name a project, a chat and a message: for programs with a project for each tenant.

`project_id` is the name or the id of the API key's tenant, `chat_id` a thread, `message_id` a turn. `user_id`: the
user, if the project has several.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from mnema_client import models
from mnema_client.answered import Answered
from mnema_client.calls import JSON, build_body, idempotency_headers, model_reader
from mnema_client.fact_models import MemoryActions
from mnema_client.facts import FactKind
from mnema_client.requests import Moment, Sent
from mnema_client.transport import Call


class ProjectFactIn(Sent):
    """A fact to store."""

    project_id: str
    topic_key: str
    kind: FactKind
    value: str
    source_message_id: str
    chat_id: str | None = None
    rank: int | None = None
    user_id: str | None = None
    created_at: Moment | None = None


class ProjectFactsQuery(Sent):
    """The facts to read: of a project, and of a chat, a topic and a rank if they are given."""

    project_id: str
    chat_id: str | None = None
    topic_key: str | None = None
    rank: int | None = None
    user_id: str | None = None


class ChatMessage(Sent):
    """A message of a chat."""

    project_id: str
    chat_id: str
    message_id: str
    role: str
    content: str
    timestamp: Moment | None = None
    message_index: int | None = None
    user_id: str | None = None


class StoredProjectFact(Answered):
    """The result of `store_fact`. `action_type`: store, update, or None if nothing changed.

    `fact_id` is None if a newer list of the topic has no such rank.
    """

    fact_id: UUID | None = None
    action_type: str | None = None
    memory_actions: MemoryActions
    model_label: str


class ProjectFact(Answered):
    """A fact of a project."""

    id: UUID
    project_id: str
    chat_id: str | None = None
    topic_key: str
    kind: str
    rank: int | None = None
    value: str
    source_message_id: str | None = None
    created_at: datetime


class ProjectFacts(Answered):
    """Facts by topic and rank."""

    facts: list[ProjectFact]


class IndexedMessage(Answered):
    """A stored message. `id`: its memory's, None if it was not stored (`reason`); `memory_actions`: of its facts."""

    id: UUID | None = None
    chat_id: str
    message_id: str
    revision: int | None = None
    reason: str | None = None
    memory_actions: MemoryActions | None = None
    model_label: str


def store_fact(
    project_id: UUID | str,
    topic_key: str,
    kind: FactKind,
    value: str,
    source_message_id: str,
    chat_id: str | None = None,
    rank: int | None = None,
    *,
    user_id: str | None = None,
    created_at: Moment | None = None,
    idempotency_key: str | None = None,
) -> Call[StoredProjectFact]:
    """Store a fact of a project. Kind ranked needs a `rank`, kind single has none.

    `created_at`: the time of the message; an older one never overwrites a newer one.
    """
    body = build_body(
        ProjectFactIn,
        project_id=str(project_id),
        topic_key=topic_key,
        kind=kind,
        value=value,
        source_message_id=source_message_id,
        chat_id=chat_id,
        rank=rank,
        user_id=user_id,
        created_at=created_at,
    )
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/facts/store", model_reader(StoredProjectFact), content=body.body(), headers=headers)


def get_facts(
    project_id: UUID | str, chat_id: str | None = None, topic_key: str | None = None, *, user_id: str | None = None
) -> Call[list[ProjectFact]]:
    """Return the facts of a project by topic and rank; of one chat or one topic if they are given."""
    read = model_reader(ProjectFacts)
    content = _query_body(project_id=str(project_id), chat_id=chat_id, topic_key=topic_key, user_id=user_id)
    return Call("POST", "/facts/get", lambda response: read(response).facts, content=content, headers=JSON)


def get_fact_by_rank(
    project_id: UUID | str, chat_id: str | None, topic_key: str, rank: int, *, user_id: str | None = None
) -> Call[ProjectFact | None]:
    """Return the fact at a rank of a topic, or None."""
    read = model_reader(ProjectFacts)
    content = _query_body(project_id=str(project_id), chat_id=chat_id, topic_key=topic_key, rank=rank, user_id=user_id)
    return Call(
        "POST", "/facts/get", lambda response: next(iter(read(response).facts), None), content=content, headers=JSON
    )


def index_chat_message(
    project_id: UUID | str,
    chat_id: str,
    message_id: str,
    role: str,
    content: str,
    timestamp: Moment | None = None,
    message_index: int | None = None,
    *,
    user_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[IndexedMessage]:
    """Store a message of a chat, and the facts that a user's message states. It can be found at once."""
    body = build_body(
        ChatMessage,
        project_id=str(project_id),
        chat_id=chat_id,
        message_id=message_id,
        role=role,
        content=content,
        timestamp=timestamp,
        message_index=message_index,
        user_id=user_id,
    )
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/index-chat-message", model_reader(IndexedMessage), content=body.body(), headers=headers)


def health_once() -> Call[models.Health]:
    """Tell whether the server process is alive, without a retry."""
    return Call("GET", "/health", model_reader(models.Health), once=True)


def _query_body(**fields: Any) -> bytes:
    return build_body(ProjectFactsQuery, **fields).body()
