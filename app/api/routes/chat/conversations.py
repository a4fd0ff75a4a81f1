"""Routes of chat clients besides the completions: the retrieval alone, a text to remember, and conversations."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from mnema_wire.chat import ChatMemories, ChatQuestion, Conversation, DeletedConversation, NewChatText
from mnema_wire.fields import Identifier, Limit
from mnema_wire.memory import Turn

from app.api import links
from app.api.deps import App, Chatter, require_scope
from app.api.errors import openapi_errors
from app.api.schemas.chat.conversations import chat_memories_body, entry_body, to_chat_turn, to_options
from app.api.schemas.memory.turns import turn_body
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.chat.conversation import default_user

router = APIRouter(tags=["chat"], route_class=StrictRoute)
_CONVERSATION = "/conversations/{conversation_id:last_conversation}"
User = Annotated[Identifier | None, Query(description="the remembered user; absent: the key's own")]


@router.post(
    "/v1/memory/search",
    response_model=ChatMemories,
    responses={200: {"links": links.CHAT_FOUND}, **openapi_errors(400, 401, 403, 413, 422, 503)},
)
async def search(app: App, principal: Chatter, body: ChatQuestion) -> ChatMemories:
    """Return the memories and the summary that a chat would put before this message. No model answers, nothing is
    stored.
    """
    user_id = body.user or default_user(principal)
    found = await app.chat.retrieve.retrieve_memories(principal, user_id, body.memory_id, body.query, to_options(body))
    return chat_memories_body(found)


@router.post(
    "/v1/memory/add",
    status_code=201,
    response_model=Turn,
    responses={201: {"links": links.CHAT_ADDED}, **openapi_errors(400, 401, 403, 409, 413, 422, 503)},
)
async def add(app: App, principal: Chatter, body: NewChatText, idempotency_key: IdempotencyHeader = None) -> Turn:
    """Remember a text as a message of the user, without a chat. Its facts are stored with it; background jobs draw
    memories and the summary from it later.

    Retry with the same `Idempotency-Key` and body to get the first answer again.
    """
    key = retry_key("POST /v1/memory/add", idempotency_key, body)
    policies = app.parts.policies.of(principal)
    draft = to_chat_turn(body, default_user(principal), policies.turn_category, policies.write.default_importance)
    return turn_body(await app.memory.turns.store_turn(principal, draft, key=key))


@router.get(
    _CONVERSATION,
    response_model=Conversation,
    responses={200: {"links": links.CONVERSATION}, **openapi_errors(401, 403, 422, 503)},
)
async def read_conversation(
    app: App,
    principal: Chatter,
    conversation_id: Annotated[Identifier, Path(description="the `memory_id` of its chats")],
    user: User = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> Conversation:
    """Return a conversation: its entries by time, and its summary."""
    user_id = user or default_user(principal)
    page = await app.chat.conversations.read_conversation(principal, user_id, conversation_id, cursor, limit)
    items = [entry_body(memory) for memory in page.items]
    return Conversation(
        memory_id=conversation_id, user=user_id, summary=page.summary, items=items, next_cursor=page.next_cursor
    )


@router.delete(
    _CONVERSATION, response_model=DeletedConversation, responses=openapi_errors(400, 401, 403, 413, 422, 503)
)
async def delete_conversation(
    app: App,
    principal: Chatter,
    conversation_id: Annotated[Identifier, Path(description="the `memory_id` of its chats")],
    user: User = None,
    purge: Annotated[bool, Query(description="delete everything for good; needs scope admin")] = False,
) -> DeletedConversation:
    """Delete a conversation: its turns, the memories drawn from them, its summary and its facts. A purge also deletes
    its artifacts in turn memory.

    Deleted memories can be restored one by one. Repeat a call that was broken off; it continues.
    """
    if purge:
        require_scope(principal, "admin")
    user_id = user or default_user(principal)
    done = await app.chat.conversations.delete_conversation(principal, user_id, conversation_id, purge=purge)
    return DeletedConversation(deleted=done.deleted, facts=done.facts, artifacts=done.artifacts)
