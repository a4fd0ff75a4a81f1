"""Conversions between the bodies of /memory and the domain."""

from typing import Any

from mnema_wire import memory as wire

from app.config.loader import WritePolicy
from app.domain.memory.memory import Memory, MemoryType, NewMemory, Origin
from app.usecases.memory.correct import Correction

_PLAIN = set(wire.NewMemory.model_fields) - {"type", "tags", "importance", "source", "category"}


def to_new_memory(body: wire.NewMemory, defaults: WritePolicy, client: str | None = None) -> NewMemory:
    """Return the domain object; `defaults` fill a missing category and importance.

    `client`: the program that writes for a person, which is an origin of its own.
    """
    values = body.model_dump(include=_PLAIN)
    return NewMemory(
        **values,
        category=body.category or defaults.categories.for_type(body.type),
        type=MemoryType(body.type),
        tags=tuple(dict.fromkeys(body.tags)),
        importance=body.importance or defaults.default_importance,
        source=body.source.model_dump(exclude_none=True) if body.source else None,
        origin=Origin(client or Origin.api),
    )


def named_changes(body: wire.Changes) -> dict[str, Any]:
    """Return the fields that the body names, with their values."""
    return body.model_dump(include=body.model_fields_set)


def to_correction(body: wire.Correction) -> Correction:
    """Return the domain object."""
    return Correction(body.user_id, body.id, body.text, body.was, body.valid_from)


def memory_body(memory: Memory) -> wire.Memory:
    """Return the body for a domain object."""
    return wire.Memory.model_validate(memory)
