"""Stored contents in an answer, and what of them a key sees that may write and not read.

Such a key sends what it knows; an answer must not tell it more: an empty change would read every memory.
"""

from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

from mnema_wire.bases import Stored
from pydantic import BaseModel

Answer = TypeVar("Answer")
Body = TypeVar("Body", bound=Stored)


def withhold_contents(answer: Answer) -> Answer:
    """Return an answer without stored contents, wherever they are in it."""
    if isinstance(answer, Stored):
        return _withhold(answer)
    if isinstance(answer, list):
        return [withhold_contents(item) for item in answer]  # type: ignore[return-value]  # a list again
    if isinstance(answer, BaseModel):
        parts = {name: withhold_contents(getattr(answer, name)) for name in type(answer).model_fields}
        return answer.model_copy(update=parts)
    return answer


def _withhold(body: Body) -> Body:
    """Return a copy in which all fields but `told` are empty."""
    empty = {
        name: _empty_value(field.annotation) for name, field in type(body).model_fields.items() if name not in body.told
    }
    return body.model_copy(update=empty | {"withheld": True})


def _empty_value(annotation: Any) -> Any:
    """Return the empty value of a field's type."""
    if NoneType in get_args(annotation):
        return None
    return (get_origin(annotation) or annotation)()
