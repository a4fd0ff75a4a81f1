"""Conversions between the bodies of chat clients and the domain."""

from typing import Any

from mnema_wire import chat as wire

from app.domain.chat.memories import ChatMemories, RetrievalOptions
from app.domain.memory.memory import Memory, MemoryType, NewMemory


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
