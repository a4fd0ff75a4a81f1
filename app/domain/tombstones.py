"""Tombstones: keyed hashes that tell erased text from new text without keeping it."""

import hashlib
import hmac
from collections.abc import Iterable
from uuid import UUID

from app.domain.text_rules import text_key


def compute_tombstone(secret: bytes, tenant_id: UUID, user_id: str, kind: str, value: bytes) -> bytes:
    """HMAC-SHA-256, 32 bytes; equal for equal values of one user only."""
    message = b"\x00".join((tenant_id.bytes, user_id.encode(), kind.encode(), value))
    return hmac.new(secret, message, hashlib.sha256).digest()


def compute_tombstones(
    secret: bytes, tenant_id: UUID, user_id: str, texts: Iterable[str | None], turns: Iterable[str | None]
) -> list[bytes]:
    """One tombstone for each text, however it is spaced or capitalised, and for each turn id."""
    keys = {("text", text_key(text)) for text in texts if text} | {("turn", t.encode()) for t in turns if t}
    return sorted(compute_tombstone(secret, tenant_id, user_id, kind, value) for kind, value in keys)
