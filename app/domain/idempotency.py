"""Idempotency keys: a write that is sent twice is done once."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's idempotency key. The same key and body get the first result again. `body_hash` is a SHA-256."""

    route: str
    key: str
    body_hash: bytes


OptionalKey: TypeAlias = IdempotencyKey | None
"""The idempotency key of a write; None if the caller sent none."""
