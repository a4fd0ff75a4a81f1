"""Calls that name a project, a chat and a message: for programs with a project for each tenant.

`project_id` is the name or the id of the API key's tenant, `chat_id` a thread, `message_id` a turn. `user_id`: the
user, if the project has several.
"""

from uuid import UUID

from mnema_wire.health import Health
from mnema_wire.projects import (
    ChatMessage,
    IndexedMessage,
    NewProjectFact,
    ProjectFact,
    ProjectFacts,
    ProjectFactsQuery,
    StoredProjectFact,
)

from mnema_client.calls import JSON, idempotency_headers, json_body, model_reader
from mnema_client.facts import FactKind
from mnema_client.requests import Moment
from mnema_client.transport import Call


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
    content = json_body(
        NewProjectFact,
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
    return Call("POST", "/facts/store", model_reader(StoredProjectFact), content=content, headers=headers)


def get_facts(
    project_id: UUID | str, chat_id: str | None = None, topic_key: str | None = None, *, user_id: str | None = None
) -> Call[list[ProjectFact]]:
    """Return the facts of a project by topic and rank; of one chat or one topic if they are given."""
    read = model_reader(ProjectFacts)
    content = json_body(
        ProjectFactsQuery, project_id=str(project_id), chat_id=chat_id, topic_key=topic_key, user_id=user_id
    )
    return Call("POST", "/facts/get", lambda response: read(response).facts, content=content, headers=JSON)


def get_fact_by_rank(
    project_id: UUID | str, chat_id: str | None, topic_key: str, rank: int, *, user_id: str | None = None
) -> Call[ProjectFact | None]:
    """Return the fact at a rank of a topic, or None."""
    read = model_reader(ProjectFacts)
    content = json_body(
        ProjectFactsQuery, project_id=str(project_id), chat_id=chat_id, topic_key=topic_key, rank=rank, user_id=user_id
    )
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
    body = json_body(
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
    return Call("POST", "/index-chat-message", model_reader(IndexedMessage), content=body, headers=headers)


def health_once() -> Call[Health]:
    """Tell whether the server process is alive, without a retry."""
    return Call("GET", "/health", model_reader(Health), once=True)
