"""Field types shared by the schemas."""

import contextlib
from datetime import date, datetime
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import to_jsonable_python

from mnema_wire.bases import words
from mnema_wire.checks import check_identifier, check_json, check_storable, parse_moment
from mnema_wire.language_codes import check_language
from mnema_wire.limits import MAX_IDENTIFIER, MAX_JSON_BYTES


def _valid_json(value: Any) -> Any:
    try:
        return check_json(value)
    except TypeError:
        # a Python program gives times and tuples, which no JSON text has
        return check_json(to_jsonable_python(value))


def _valid_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError("not an IANA time zone such as Europe/Lisbon") from None
    return value


def _parse_moment(value: Any) -> Any:
    """Return a datetime in UTC for an ISO 8601 text or a date. Raise ValueError for a number or any other type."""
    if value is None:
        return None
    if isinstance(value, str | date):
        return parse_moment(value)
    raise ValueError("expected an ISO 8601 date or time as a string")


def _parse_expiry(value: Any) -> Any:
    """Return what `_parse_moment` does, and None for `never`."""
    return None if value == "never" else _parse_moment(value)


def _parse_open(value: Any) -> Any:
    """Return what `_parse_moment` does, and None for `open`."""
    return None if value == "open" else _parse_moment(value)


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


_TEXT = r"[^\x00-\x20\x7f-\xa0]+"
# the part of the rule that a JSON Schema pattern can express: no control characters, no outer blanks
_IDENTIFIER = {"pattern": f"^{_TEXT}( +{_TEXT})*$"}
Quote = Annotated[
    str, Field(max_length=2000, json_schema_extra={"pattern": r"^[^\x00]*$"}), AfterValidator(check_storable)
]
FirstCharacters = Annotated[
    str,
    Field(min_length=1, max_length=MAX_IDENTIFIER, json_schema_extra={"pattern": r"^[^\x00]*$"}),
    AfterValidator(check_storable),
]
Words = Annotated[
    str,
    Field(min_length=1, max_length=500, json_schema_extra={"pattern": r"^[^\x00]*$"}),
    AfterValidator(check_storable),
]
MetadataPair = Annotated[
    str,
    Field(max_length=500, pattern=r"^[^:\x00]+:[^\x00]*$", json_schema_extra={"examples": ["source:import"]}),
    AfterValidator(check_storable),
]
Zone = Annotated[str, Field(pattern=r"^[A-Za-z0-9_+/-]{1,64}$"), AfterValidator(_valid_zone)]
AN_IDENTIFIER = "an identifier of the caller"
"""The description of an identifier where the document has no word for the field's name."""
Identifier = Annotated[
    str,
    AfterValidator(check_identifier),
    Field(min_length=1, max_length=MAX_IDENTIFIER, description=AN_IDENTIFIER, json_schema_extra=_IDENTIFIER),
]
Json = Annotated[dict[str, Any], AfterValidator(_valid_json)]
Where = Annotated[
    dict[str, Any],
    Field(min_length=1, description="conditions on the memories: `{field: {operator: value}}`, `and`, `or`, `not`"),
]
WhereText = Annotated[
    str,
    Field(min_length=1, max_length=MAX_JSON_BYTES, description="the conditions of `where` as JSON"),
]
Moment = Annotated[
    datetime,
    BeforeValidator(_parse_moment),
    WithJsonSchema({"type": "string", "anyOf": [{"format": "date"}, {"format": "date-time"}]}),
]
Expiry = Annotated[
    datetime | None,
    BeforeValidator(_parse_expiry),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date"},
                {"type": "string", "format": "date-time"},
                {"const": "never"},
                {"type": "null"},
            ]
        }
    ),
]
"""A moment, or `never`, which is None as in a body that says `null`."""
OpenMoment = Annotated[
    datetime | None,
    BeforeValidator(_parse_open),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date"},
                {"type": "string", "format": "date-time"},
                {"const": "open"},
                {"type": "null"},
            ]
        }
    ),
]
"""A moment, or `open`, which is None as in a body that says `null`."""
Language = Annotated[
    str,
    Field(
        pattern="^[a-z]{2,3}$",
        description="a code of ISO 639, such as de; und: undetermined",
        json_schema_extra={"examples": ["de"]},
    ),
    AfterValidator(check_language),
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
StateName = Literal["active", "superseded", "retracted", "expired", "soft_deleted"]
TypeWord = Annotated[str, words("semantic", "episodic", "procedural", "insight", "turn", "summary", "chunk")]
Origin = Literal["api", "mirror", "import", "turn", "chat", "capture", "facts", "reflection", "document"]
OriginWord = Annotated[str, words(*get_args(Origin))]
StateWord = Annotated[str, words("active", "superseded", "retracted", "expired", "soft_deleted")]
