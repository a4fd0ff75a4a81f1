"""Retry keys: a write may be sent twice, it is done once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's retry key: the same key and body answer with the first result. `body_hash` is SHA-256."""

    route: str
    key: str
    body_hash: bytes
