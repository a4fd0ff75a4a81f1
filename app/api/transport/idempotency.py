"""The header `Idempotency-Key`: a write may be sent twice, it is done once."""

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
    """The key with what it was sent with: two requests are the same when all parts are.

    Nothing is made of the parts without a key. Raises NulByte for half a surrogate pair, which JSON can name.
    """
    if key is None:
        return None
    try:
        said = "\x00".join(_part_text(part) for part in parts)
    except PydanticSerializationError:
        raise NulByte() from None
    return IdempotencyKey(route, key, hashlib.sha256(said.encode()).digest())


def _part_text(part: str | UUID | BaseModel | Callable[[], str]) -> str:
    if isinstance(part, BaseModel):
        return part.model_dump_json()
    return part() if callable(part) else str(part)
