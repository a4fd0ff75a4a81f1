"""Conversations of chat clients: what a chat would remember, texts to remember, and conversations as a whole.

The chat itself needs no method here: any OpenAI client sends it to the server's `/v1/chat/completions`.
"""

from datetime import datetime
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.memory import Turn

from mnema_client.answered import Answered
from mnema_client.calls import JSON, build_body, idempotency_headers, model_reader, path_segment, query_params
from mnema_client.requests import Sent
from mnema_client.transport import Call


class ChatQuestion(Sent):
    """A message to find memories for. `user` None: the key's own user; `memory_top_k` 0: nothing is read."""

    query: str
    memory_id: str = "default"
    user: str | None = None
    memory_top_k: int | None = None
    memory_recency_weight: float | None = None
    memory_score_threshold: float | None = None


class NewChatText(Sent):
    """A text to remember as a message of the user."""

    text: str
    memory_id: str = "default"
    user: str | None = None


class FoundEntry(Answered):
    """A memory that may help to answer. `role` is that of a turn, else `memory`."""

    id: UUID
    role: str
    content: str
    created_at: datetime
    score: float


class ChatMemories(Answered):
    """The memories that go with a message, best first, and the conversation's summary, if it has one."""

    entries: list[FoundEntry]
    summary: str | None
    degraded: str | None = None


class Entry(Answered):
    """An entry of a conversation. The fields from `incomplete` on are those of an answer that the server forwarded."""

    id: UUID
    role: str
    type: str
    content: str
    created_at: datetime
    incomplete: bool | None = None
    model: str | None = None
    model_label: str | None = None
    answered_by: str | None = None
    memory_hits: list[str] | None = None


class Conversation(Page[Entry]):
    """A page of a conversation, oldest entry first, with its summary."""

    memory_id: str
    user: str
    summary: str | None


class DeletedConversation(Answered):
    """The number of memories, facts and artifacts of turn memory that were deleted."""

    deleted: int
    facts: int
    artifacts: int


def chat_search(
    query: str,
    *,
    memory_id: str | None = None,
    user: str | None = None,
    memory_top_k: int | None = None,
    memory_recency_weight: float | None = None,
    memory_score_threshold: float | None = None,
) -> Call[ChatMemories]:
    """Return what a chat would put before this message. No model answers, nothing is stored."""
    body = build_body(
        ChatQuestion,
        query=query,
        memory_id=memory_id,
        user=user,
        memory_top_k=memory_top_k,
        memory_recency_weight=memory_recency_weight,
        memory_score_threshold=memory_score_threshold,
    )
    return Call("POST", "/v1/memory/search", model_reader(ChatMemories), content=body.body(), headers=JSON)


def chat_add(
    text: str, *, memory_id: str | None = None, user: str | None = None, idempotency_key: str | None = None
) -> Call[Turn]:
    """Remember a text as a message of the user, without a chat. Its facts are stored with it."""
    body = build_body(NewChatText, text=text, memory_id=memory_id, user=user)
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/v1/memory/add", model_reader(Turn), content=body.body(), headers=headers)


def conversation(
    memory_id: str, *, user: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Conversation]:
    """Return a page of a conversation: its entries by time, and its summary."""
    params = query_params(user=user, limit=limit, cursor=cursor)
    return Call("GET", f"/conversations/{path_segment(memory_id)}", model_reader(Conversation), params)


def delete_conversation(memory_id: str, *, user: str | None = None, purge: bool = False) -> Call[DeletedConversation]:
    """Delete a conversation with its memories, summary and facts; `purge` (scope admin): for good, with turn memory."""
    params = query_params(user=user, purge="true" if purge else None)
    return Call("DELETE", f"/conversations/{path_segment(memory_id)}", model_reader(DeletedConversation), params)
