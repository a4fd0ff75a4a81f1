"""Tombstones: keyed hashes that recognise an erased text without storing it."""

import hmac
from collections.abc import Iterable
from uuid import UUID

from app.domain.equal_texts import fold_text
from app.domain.text_rules import comparable_text


def compute_tombstone(secret: bytes, tenant_id: UUID, user_id: str, kind: str, value: bytes) -> bytes:
    """Return the HMAC-SHA-256 (32 bytes) of a value. It is equal only for equal values of the same user and kind."""
    message = b"\x00".join((tenant_id.bytes, user_id.encode(), kind.encode(), value))
    return hmac.digest(secret, message, "sha256")


def user_tombstone(secret: bytes, tenant_id: UUID, user_id: str) -> bytes:
    """Return the tombstone of a user. Its row tells when the user was erased last."""
    return compute_tombstone(secret, tenant_id, user_id, "user", b"")


def compute_tombstones(
    secret: bytes, tenant_id: UUID, user_id: str, texts: Iterable[str | None], turns: Iterable[str | None]
) -> list[bytes]:
    """Return one sorted tombstone for each text and each turn id.

    Spacing, case and width of a text do not matter, nor do quotation marks, brackets and the punctuation around words.
    """
    keys = {("text", _erasure_key(text)) for text in texts if text} | {("turn", t.encode()) for t in turns if t}
    return sorted(compute_tombstone(secret, tenant_id, user_id, kind, value) for kind, value in keys)


def _erasure_key(text: str) -> bytes:
    """Return what an erased text shares with its new spellings. Texts with the same `text_key` have the same."""
    return comparable_text(fold_text(comparable_text(text))).encode()
