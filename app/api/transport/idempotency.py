"""The header `Idempotency-Key`: a write that is sent twice takes effect once."""

import hashlib
from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import Header
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from app.domain.errors import NulByte
from app.domain.idempotency import IdempotencyKey

IdempotencyHeader = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


def retry_key(route: str, key: str | None, *parts: str | UUID | BaseModel | Callable[[], str]) -> IdempotencyKey | None:
    """Return the key with a digest of the request's `parts`, None without a key.

    Two requests are the same if all their parts are equal. Callables among the parts are called only if there is a key.
    Raise NulByte for half a surrogate pair, which JSON can express but UTF-8 cannot.
    """
    if key is None:
        return None
    try:
        text = "\x00".join(_part_text(part) for part in parts)
    except PydanticSerializationError:
        raise NulByte() from None
    return IdempotencyKey(route, key, hashlib.sha256(text.encode()).digest())


def _part_text(part: str | UUID | BaseModel | Callable[[], str]) -> str:
    if isinstance(part, BaseModel):
        return part.model_dump_json()
    return part() if callable(part) else str(part)
