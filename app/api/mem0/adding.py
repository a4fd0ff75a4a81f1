"""mem0's `add`: each message becomes a memory or a turn, through the same use-cases as any write."""

from collections.abc import Callable
from typing import Final

from app.api.mem0.identities import DEFAULT_THREAD
from app.api.mem0.schemas import Mem0AddIn, Mem0MessageIn, Mem0ResultOut, expiry_of
from app.bootstrap import Application
from app.domain.errors import TextTooLong
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal

MakeKey = Callable[[str], IdempotencyKey | None]
"""Return the idempotency key of a part of the request, None if the request has none."""
_EVENTS: Final = {"created": "ADD", "updated": "UPDATE", "merged": "UPDATE", "unchanged": "NONE", "skipped": "NONE"}


async def add_messages(
    app: Application, principal: Principal, body: Mem0AddIn, make_key: MakeKey
) -> list[Mem0ResultOut]:
    """Remember the messages of `body`, in order. All are checked before the first is written.

    Raise InvalidInput without an id, and what the use-cases of memories and turns raise.
    """
    as_turns = body.infer and app.parts.chat.is_available
    drafts = [_draft(app, principal, body, message, as_turns) for message in _remembered(body, as_turns)]
    results = []
    for number, draft in enumerate(drafts):
        remember = _store_turn if draft.type is MemoryType.turn else _write_memory
        results.append(await remember(app, principal, draft, make_key(f"{number}")))
    return results


def _remembered(body: Mem0AddIn, as_turns: bool) -> list[Mem0MessageIn]:
    """Return the messages to remember: never the system's.

    With `infer` but without a chat model, only the user's messages are remembered if the request names a user.
    """
    users_only = body.infer and not as_turns and body.identities().user_id is not None
    return [m for m in body.messages if m.role != "system" and (m.role == "user" or not users_only)]


def _draft(app: Application, principal: Principal, body: Mem0AddIn, message: Mem0MessageIn, as_turn: bool) -> NewMemory:
    """Return the checked memory for a message; a text too long for a memory is a turn."""
    if as_turn:
        return _checked(app, principal, body, message, MemoryType.turn)
    try:
        return _checked(app, principal, body, message, MemoryType.semantic)
    except TextTooLong:
        return _checked(app, principal, body, message, MemoryType.turn)


def _checked(
    app: Application, principal: Principal, body: Mem0AddIn, message: Mem0MessageIn, kind: MemoryType
) -> NewMemory:
    policies = app.parts.policies.of(principal)
    ids = body.identities()
    is_turn = kind is MemoryType.turn
    draft = NewMemory(
        user_id=ids.owner,
        category=body.category or (policies.turn_category if is_turn else policies.facts.category),
        text=message.content,
        type=kind,
        thread_id=ids.run_id or (DEFAULT_THREAD if is_turn else None),
        agent_id=ids.agent_id,
        actor_id=message.name,
        role=message.role,
        importance=policies.write.default_importance,
        tags=ids.tags,
        metadata=body.metadata,
        created_at=body.created_at,
        expires_at=expiry_of(body.expiration_date),
    )
    return app.memory.write.check_draft(principal, draft)


async def _write_memory(
    app: Application, principal: Principal, draft: NewMemory, key: IdempotencyKey | None
) -> Mem0ResultOut:
    written = await app.memory.write.write_memory(principal, draft, key=key)
    text = draft.text
    if written.id is not None and written.action != "created":
        text = (await app.memory.read.get_memory(principal, written.id)).text
    return Mem0ResultOut(id=written.id, memory=text, event=_EVENTS[written.action])


async def _store_turn(
    app: Application, principal: Principal, draft: NewMemory, key: IdempotencyKey | None
) -> Mem0ResultOut:
    stored = await app.memory.turns.store_turn(principal, draft, key=key)
    return Mem0ResultOut(id=stored.id, memory=draft.text, event="NONE" if stored.id is None else "ADD")
