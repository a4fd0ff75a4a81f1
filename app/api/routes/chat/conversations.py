"""Routes of chat clients besides the completions: the retrieval alone, a text to remember, and conversations."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from mnema_wire import chat as wire
from mnema_wire.fields import Identifier, Limit
from mnema_wire.memory import Turn

from app.api import links
from app.api.deps import App, Chatter, require_scope
from app.api.errors import body_errors, key_errors
from app.api.schemas.memory.turns import turn_body
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.chat.conversation import default_user
from app.domain.chat.memories import ChatMemories, RetrievalOptions
from app.domain.memory.memory import Memory, MemoryType, NewMemory, Origin

router = APIRouter(tags=["chat"], route_class=StrictRoute)
_CONVERSATION = "/conversations/{conversation_id:last_conversation}"
User = Annotated[Identifier | None, Query(description="the remembered user; absent: the key's own")]


def to_options(body: wire.ChatQuestion) -> RetrievalOptions:
    """Return the options of the retrieval."""
    return RetrievalOptions(body.memory_top_k, body.memory_recency_weight, body.memory_score_threshold)


def chat_memories_body(found: ChatMemories) -> wire.ChatMemories:
    """Return the body for the use-case's answer."""
    entries = [
        wire.FoundEntry(id=hit.id, role=hit.role, content=hit.content, created_at=hit.created_at, score=hit.score)
        for hit in found.hits
    ]
    return wire.ChatMemories(entries=entries, summary=found.summary, degraded=found.degraded)


def to_chat_turn(body: wire.NewChatText, default_user: str, category: str, importance: int) -> NewMemory:
    """Return the turn of the user, with this category and importance."""
    return NewMemory(
        user_id=body.user or default_user,
        category=category,
        text=body.text,
        type=MemoryType.turn,
        thread_id=body.memory_id,
        role="user",
        importance=importance,
        origin=Origin.turn,
    )


def entry_body(memory: Memory) -> wire.Entry:
    """Return the body for a memory of the conversation."""
    is_turn = memory.type is MemoryType.turn
    return wire.Entry(
        id=memory.id,
        role=(memory.role if is_turn else None) or "memory",
        type=memory.type.value,
        content=memory.text,
        created_at=memory.created_at,
        **(_answer_fields(memory.metadata) if is_turn else {}),
    )


def _answer_fields(metadata: Any) -> dict[str, Any]:
    """Return what the metadata tells about an answer. Other callers write metadata too: wrong types are left out."""
    texts = {name: metadata.get(name) for name in ("model", "model_label", "answered_by")}
    fields: dict[str, Any] = {name: value for name, value in texts.items() if isinstance(value, str)}
    if metadata.get("incomplete") is True:
        fields["incomplete"] = True
    hits = metadata.get("hits")
    if isinstance(hits, list) and all(isinstance(hit, str) for hit in hits):
        fields["memory_hits"] = hits
    return fields


@router.post("/v1/memory/search", responses={200: {"links": links.CHAT_FOUND}, **body_errors()})
async def search(app: App, principal: Chatter, body: wire.ChatQuestion) -> wire.ChatMemories:
    """Return the memories and the summary that a chat would put before this message. No model answers, nothing is
    stored.
    """
    user_id = body.user or default_user(principal)
    found = await app.chat.retrieve.retrieve_memories(principal, user_id, body.memory_id, body.query, to_options(body))
    return chat_memories_body(found)


@router.post("/v1/memory/add", status_code=201, responses={201: {"links": links.CHAT_ADDED}, **body_errors(409)})
async def add(app: App, principal: Chatter, body: wire.NewChatText, idempotency_key: IdempotencyHeader = None) -> Turn:
    """Remember a text as a message of the user, without a chat. Its facts are stored with it; background jobs draw
    memories and the summary from it later.

    Retry with the same `Idempotency-Key` and body to get the first answer again.
    """
    key = retry_key("POST /v1/memory/add", idempotency_key, body)
    policies = app.parts.policies.of(principal)
    draft = to_chat_turn(body, default_user(principal), policies.turn_category, policies.write.default_importance)
    return turn_body(await app.memory.turns.store_turn(principal, draft, key=key))


@router.get(_CONVERSATION, responses={200: {"links": links.CONVERSATION}, **key_errors()})
async def read_conversation(
    app: App,
    principal: Chatter,
    conversation_id: Annotated[Identifier, Path(description="the `memory_id` of its chats")],
    user: User = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> wire.Conversation:
    """Return a conversation: its entries by time, and its summary."""
    user_id = user or default_user(principal)
    page = await app.chat.conversations.read_conversation(principal, user_id, conversation_id, cursor, limit)
    items = [entry_body(memory) for memory in page.items]
    return wire.Conversation(
        memory_id=conversation_id, user=user_id, summary=page.summary, items=items, next_cursor=page.next_cursor
    )


@router.delete(_CONVERSATION, responses=body_errors())
async def delete_conversation(
    app: App,
    principal: Chatter,
    conversation_id: Annotated[Identifier, Path(description="the `memory_id` of its chats")],
    user: User = None,
    purge: Annotated[bool, Query(description="delete everything for good; needs scope admin")] = False,
) -> wire.DeletedConversation:
    """Delete a conversation: its turns, the memories drawn from them, its summary and its facts. A purge also deletes
    its artifacts in turn memory.

    Deleted memories can be restored one by one. Repeat a call that was broken off; it continues.
    """
    if purge:
        require_scope(principal, "admin")
    user_id = user or default_user(principal)
    done = await app.chat.conversations.delete_conversation(principal, user_id, conversation_id, purge=purge)
    return wire.DeletedConversation(deleted=done.deleted, facts=done.facts, artifacts=done.artifacts)
