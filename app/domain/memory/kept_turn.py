"""A turn of a chat that waits on the server's disk until the database stores it (`docs/chat.md`)."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.idempotency import IdempotencyKey, OptionalKey
from app.domain.memory.memory import MemoryType, NewMemory, Origin
from app.domain.principal import Principal


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """A turn with everything that is needed to store it later, exactly once.

    `memory_id`: the id that its memory gets, or has already if its first write succeeded unnoticed. `turn` has
    `created_at`, the time when it was said. `principal` has no lease: the key was live when the turn was said. It has
    no categories either: its agents may use others by then.
    """

    memory_id: UUID
    principal: Principal
    turn: NewMemory
    key: OptionalKey = None

    @classmethod
    def of(cls, memory_id: UUID, principal: Principal, turn: NewMemory, key: OptionalKey) -> "KeptTurn":
        """Return a turn of a request, without the parts of its principal that matter to the request alone."""
        speaker = Principal(
            tenant_id=principal.tenant_id,
            key_id=principal.key_id,
            agents=principal.agents,
            agent=principal.agent,
            client=principal.client,
        )
        return cls(memory_id, speaker, turn, key)

    def to_json(self) -> bytes:
        """Return the turn as JSON."""
        turn = self.turn
        speaker = self.principal
        key = self.key
        assert turn.created_at is not None
        values = {
            "memory_id": str(self.memory_id),
            "tenant_id": str(speaker.tenant_id),
            "key_id": str(speaker.key_id) if speaker.key_id else None,
            "agents": None if speaker.agents is None else sorted(speaker.agents),
            "agent": speaker.agent,
            "client": speaker.client,
            "user_id": turn.user_id,
            "thread_id": turn.thread_id,
            "role": turn.role,
            "category": turn.category,
            "text": turn.text,
            "importance": turn.importance,
            "metadata": turn.metadata,
            "said_at": turn.created_at.isoformat(),
            "key": [key.route, key.key, key.body_hash.hex()] if key else None,
        }
        return json.dumps(values).encode()

    @classmethod
    def from_json(cls, content: bytes) -> "KeptTurn":
        """Return the turn that `to_json` wrote. Raise ValueError, KeyError or TypeError for anything else."""
        values: dict[str, Any] = json.loads(content)
        speaker = Principal(
            tenant_id=UUID(values["tenant_id"]),
            key_id=UUID(values["key_id"]) if values["key_id"] else None,
            agents=None if values["agents"] is None else frozenset(values["agents"]),
            agent=values["agent"],
            client=values["client"],
        )
        turn = NewMemory(
            user_id=values["user_id"],
            thread_id=values["thread_id"],
            role=values["role"],
            category=values["category"],
            text=values["text"],
            type=MemoryType.turn,
            importance=values["importance"],
            metadata=values["metadata"],
            created_at=datetime.fromisoformat(values["said_at"]),
            origin=Origin.chat,
        )
        key = None
        if values["key"]:
            route, name, body_hash = values["key"]
            key = IdempotencyKey(route, name, bytes.fromhex(body_hash))
        return cls(UUID(values["memory_id"]), speaker, turn, key)
