"""Field types shared by the schemas."""

import contextlib
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from app.domain.errors import InvalidInput
from app.domain.ids import MAX_LENGTH, check_identifier, check_json, check_moment, check_storable
from app.domain.near_names import MAX_NAME_CHARS, nearest_hint


def _valid_identifier(value: str) -> str:
    try:
        return check_identifier(value)
    except InvalidInput as error:
        raise ValueError(error.detail) from error


def _valid_json(value: Any) -> Any:
    try:
        return check_json(value)
    except InvalidInput as error:
        raise ValueError(error.detail) from error


def _valid_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError("not an IANA time zone such as Europe/Lisbon") from None
    return value


def _parse_moment(value: Any) -> Any:
    """Return a datetime in UTC for an ISO 8601 text. Raise ValueError for a number or any other type.

    A date without a time is midnight UTC. A time without a zone is UTC.
    """
    if value is None or isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("expected an ISO 8601 date or time as a string")  # noqa: TRY004 - pydantic reports ValueError
    try:
        if len(value) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(value), time(), UTC)
        moment = datetime.fromisoformat(value)
        # PostgreSQL takes zone offsets of up to 16 hours, ISO 8601 allows 24: convert to UTC here
        return check_moment(moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, InvalidInput):
        # the message does not repeat the value
        raise ValueError("expected an ISO 8601 date or time in the years 1 to 9999") from None


def _parse_day(value: Any) -> Any:
    """Return a date for a text such as 2026-01-31. Raise ValueError for anything else."""
    if value is None or isinstance(value, date):
        return value
    if isinstance(value, str) and len(value) == len("2026-01-31"):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(value)
    raise ValueError("expected an ISO 8601 date")


def _whole_number(value: Any) -> Any:
    """Return 3 for 3.0, which JSON Schema counts as an integer. Return any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def storable_text(value: str) -> str:
    """Return `value` unchanged. Raise ValueError if PostgreSQL cannot store it as text."""
    try:
        return check_storable(value)
    except InvalidInput as error:
        raise ValueError(error.detail) from error


_TEXT = r"[^\x00-\x20\x7f-\xa0]+"
# the part of the rule that a JSON Schema pattern can express: no control characters, no outer blanks
_IDENTIFIER = {"pattern": f"^{_TEXT}( +{_TEXT})*$"}
Quote = Annotated[
    str, Field(max_length=2000, json_schema_extra={"pattern": r"^[^\x00]*$"}), AfterValidator(storable_text)
]
FirstCharacters = Annotated[
    str,
    Field(min_length=1, max_length=MAX_LENGTH, json_schema_extra={"pattern": r"^[^\x00]*$"}),
    AfterValidator(storable_text),
]
Words = Annotated[
    str,
    Field(min_length=1, max_length=500, json_schema_extra={"pattern": r"^[^\x00]*$"}),
    AfterValidator(storable_text),
]
MetadataPair = Annotated[
    str,
    Field(max_length=500, pattern=r"^[^:\x00]+:[^\x00]*$", json_schema_extra={"examples": ["source:import"]}),
    AfterValidator(storable_text),
]
Zone = Annotated[str, Field(pattern=r"^[A-Za-z0-9_+/-]{1,64}$"), AfterValidator(_valid_zone)]
AN_IDENTIFIER = "an identifier of the caller"
"""The description of an identifier where the document has no word for the field's name."""
Identifier = Annotated[
    str,
    AfterValidator(_valid_identifier),
    Field(min_length=1, max_length=MAX_LENGTH, description=AN_IDENTIFIER, json_schema_extra=_IDENTIFIER),
]
Json = Annotated[dict[str, Any], AfterValidator(_valid_json)]
Moment = Annotated[
    datetime,
    BeforeValidator(_parse_moment),
    WithJsonSchema({"type": "string", "anyOf": [{"format": "date"}, {"format": "date-time"}]}),
]
Day = Annotated[date, BeforeValidator(_parse_day), WithJsonSchema({"type": "string", "format": "date"})]
# documented here but checked later: the text must not be empty after normalisation (error code `empty_text`)
NOT_EMPTY = {"minLength": 1, "pattern": r"\S"}
Text = Annotated[
    str, Field(description="the type sets the limit: 280 characters for semantic", json_schema_extra=NOT_EMPTY)
]
Tags = Annotated[list[Identifier], Field(max_length=50)]
Whole = BeforeValidator(_whole_number)
Importance = Annotated[int, Field(ge=1, le=5, strict=True), Whole]
Sequence = Annotated[int, Field(ge=0, le=2**62, strict=True), Whole]
NameCursor = Annotated[str, Field(max_length=4000)]
"""A cursor that holds a name of the caller: each of its 200 characters may take 16."""
Limit = Annotated[int, Field(ge=1, le=200)]
TypeName = Literal["semantic", "episodic", "procedural", "insight", "turn", "summary", "chunk"]
StateName = Literal["active", "superseded", "soft_deleted"]


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
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = [name for name in given if name not in known]
        if len(unknown) > MOST_UNKNOWN:
            raise ValueError(f"the body has {len(given)} fields; only {len(known)} exist")
        if unknown:
            problems = [_unknown_field(name, known) for name in unknown[:MAX_REPORTED]]
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return given


def _unknown_field(name: Any, known: set[str]) -> InitErrorDetails:
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
