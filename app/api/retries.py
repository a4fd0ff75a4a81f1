"""The header `Idempotency-Key`: a write may be sent twice, it is done once."""

import hashlib
from typing import Annotated
from uuid import UUID

from fastapi import Header
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from app.domain.errors import NulByte
from app.domain.idempotency import IdempotencyKey

Retry = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


def retry_key(route: str, key: str | None, *parts: str | UUID | BaseModel) -> IdempotencyKey | None:
    """The key with what it was sent with: two requests are the same when all parts are."""
    if key is None:
        return None
    said = [as_json(part) if isinstance(part, BaseModel) else str(part) for part in parts]
    return IdempotencyKey(route, key, hashlib.sha256("\x00".join(said).encode()).digest())


def as_json(body: BaseModel, *, exclude_unset: bool = False) -> str:
    """The body as it is compared with a retry's; raises NulByte for half a surrogate pair, which JSON can name."""
    try:
        return body.model_dump_json(exclude_unset=exclude_unset)
    except PydanticSerializationError:
        raise NulByte() from None
