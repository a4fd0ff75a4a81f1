"""The bases of all bodies: requests, and answers with and without stored contents."""

import functools
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from mnema_wire.near_names import MAX_NAME_CHARS, nearest_hint

T = TypeVar("T")


def is_absent(value: object) -> bool:
    """Return True for None: the field is then absent from the answer."""
    return value is None


MOST_UNKNOWN = 20
"""Unknown fields of a body that are reported by name; more are one problem."""
MAX_REPORTED = 3
"""Unknown fields that are reported for each object. The search for the nearest name takes time."""


class Request(BaseModel):
    """The base of request bodies. It refuses unknown fields, so that a typo never selects a default."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, given: Any) -> Any:
        """Refuse unknown fields, each with the nearest known name.

        Many unknown fields are one problem: a report on each of a hundred thousand would take a second.
        """
        if not isinstance(given, dict):
            return given
        known = _known_fields(cls)
        unknown = [name for name in given if name not in known]
        if len(unknown) > MOST_UNKNOWN:
            raise ValueError(f"the body has {len(given)} fields; only {len(known)} exist")
        if unknown:
            problems = [_unknown_field(name, known) for name in unknown[:MAX_REPORTED]]
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return given


@functools.cache
def _known_fields(model: type[Request]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def _unknown_field(name: Any, known: frozenset[str]) -> InitErrorDetails:
    shown = str(name)[:MAX_NAME_CHARS]
    hint = nearest_hint(shown, known) or f"these fields exist: {', '.join(sorted(known))}"
    # the text comes as a value, because a name may hold braces, which the template would read as its own
    return InitErrorDetails(
        type=PydanticCustomError("unknown_field", "{text}", {"text": f"unknown field; {hint}"}),
        loc=(shown,),
        input=None,
    )


class Change(Request):
    """The base of bodies that change what is stored. An absent field keeps its value.

    The JSON Schema has no defaults, because a generated client would send them.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema without the defaults of the fields."""
        written = handler(schema)
        for field in handler.resolve_ref_schema(written).get("properties", {}).values():
            field.pop("default", None)
        return written


class Answered(BaseModel):
    """The base of answers. A field that the reader does not know is ignored: an older client reads a newer server."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class Page(Answered, Generic[T]):
    """A page of a list. Pass `next_cursor` as `cursor` for the next page; it is null on the last one."""

    items: list[T]
    next_cursor: str | None = None


class Stored(Answered):
    """The base of answers that have stored contents. `told`: the fields for every key, such as ids and times."""

    told: ClassVar[frozenset[str]] = frozenset({"id"})
    withheld: bool | None = Field(
        default=None,
        exclude_if=is_absent,
        description="true for a key without scope `query`: texts and names are empty",
    )


def words(*known: str) -> WithJsonSchema:
    """Return the JSON Schema of an answer's word. The model has `str`, so that an older client reads a new word."""
    allowed = {"enum": list(known)} if len(known) > 1 else {"const": known[0]}
    return WithJsonSchema({**allowed, "type": "string"})
