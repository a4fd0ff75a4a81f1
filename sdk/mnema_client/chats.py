"""Conversations of chat clients: what a chat would remember, texts to remember, and conversations as a whole.

The chat itself needs no method here: any OpenAI client sends it to the server's `/v1/chat/completions`.
"""

from typing import TypedDict, Unpack

from mnema_wire.chat import ChatMemories, ChatQuestion, Conversation, DeletedConversation, NewChatText
from mnema_wire.memory import Turn

from mnema_client.calls import JSON, get_call, idempotency_headers, json_body, model_reader, path_segment, query_params
from mnema_client.transport import Call


class ChatSearchFields(TypedDict, total=False):
    """Keywords of `chat_search` besides the message; `ChatQuestion` explains each."""

    memory_id: str | None
    user: str | None
    memory_top_k: int | None
    memory_recency_weight: float | None
    memory_score_threshold: float | None


def chat_search(query: str, **fields: Unpack[ChatSearchFields]) -> Call[ChatMemories]:
    """Return what a chat would put before this message. No model answers, nothing is stored."""
    content = json_body(ChatQuestion, query=query, **fields)
    return Call("POST", "/v1/memory/search", model_reader(ChatMemories), content=content, headers=JSON)


def chat_add(
    text: str, *, memory_id: str | None = None, user: str | None = None, idempotency_key: str | None = None
) -> Call[Turn]:
    """Remember a text as a message of the user, without a chat. Its facts are stored with it."""
    content = json_body(NewChatText, text=text, memory_id=memory_id, user=user)
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/v1/memory/add", model_reader(Turn), content=content, headers=headers)


def conversation(
    memory_id: str, *, user: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Conversation]:
    """Return a page of a conversation: its entries by time, and its summary."""
    return get_call(f"/conversations/{path_segment(memory_id)}", Conversation, user=user, limit=limit, cursor=cursor)


def delete_conversation(memory_id: str, *, user: str | None = None, purge: bool = False) -> Call[DeletedConversation]:
    """Delete a conversation with its memories, summary and facts; `purge` (scope admin): for good, with turn memory."""
    params = query_params(user=user, purge="true" if purge else None)
    return Call("DELETE", f"/conversations/{path_segment(memory_id)}", model_reader(DeletedConversation), params)
