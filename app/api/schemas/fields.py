"""Field types shared by the schemas."""

from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from app.domain.errors import InvalidInput
from app.domain.ids import MAX_LENGTH, check_identifier, check_json, check_moment, check_storable


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
        raise ValueError("an IANA time zone, like Europe/Lisbon") from None
    return value


def _parse_moment(value: Any) -> Any:
    """A date without time is UTC midnight; a time without zone is UTC. Numbers are not dates."""
    if value is None or isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("an ISO 8601 date or time as a string")  # noqa: TRY004 - pydantic reports ValueError
    try:
        if len(value) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(value), time(), UTC)
        moment = datetime.fromisoformat(value)
        # in UTC: of zones, ISO 8601 allows 24 hours and PostgreSQL takes 16
        return check_moment(moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, InvalidInput):
        raise ValueError("an ISO 8601 date or time, in the years 1 to 9999") from None  # without repeating it


def _whole_number(value: Any) -> Any:
    """3.0 is an integer to JSON Schema; "3" and true are not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def storable_text(value: str) -> str:
    """`value` unchanged if it can be stored as text."""
    try:
        return check_storable(value)
    except InvalidInput as error:
        raise ValueError(error.detail) from error


_TEXT = r"[^\x00-\x20\x7f-\xa0]+"
# what of the rule a pattern can say to every reader: no control characters, no outer blanks
_IDENTIFIER = {"pattern": f"^{_TEXT}( +{_TEXT})*$"}
Quote = Annotated[
    str, Field(max_length=2000, json_schema_extra={"pattern": r"^[^\x00]*$"}), AfterValidator(storable_text)
]
Zone = Annotated[str, Field(pattern=r"^[A-Za-z0-9_+/-]{1,64}$"), AfterValidator(_valid_zone)]
Identifier = Annotated[
    str,
    AfterValidator(_valid_identifier),
    Field(
        min_length=1, max_length=MAX_LENGTH, description="the caller's own identifier", json_schema_extra=_IDENTIFIER
    ),
]
Json = Annotated[dict[str, Any], AfterValidator(_valid_json)]
Moment = Annotated[
    datetime,
    BeforeValidator(_parse_moment),
    WithJsonSchema({"type": "string", "anyOf": [{"format": "date"}, {"format": "date-time"}]}),
]
# said, not checked here: after normalisation there must be something left, which has a refusal of its own
NOT_EMPTY = {"minLength": 1, "pattern": r"\S"}
Text = Annotated[
    str, Field(description="its type sets the limit: 280 characters if semantic", json_schema_extra=NOT_EMPTY)
]
Tags = Annotated[list[Identifier], Field(max_length=50)]
Whole = BeforeValidator(_whole_number)
Importance = Annotated[int, Field(ge=1, le=5, strict=True), Whole]
Sequence = Annotated[int, Field(ge=0, le=2**62, strict=True), Whole]
Limit = Annotated[int, Field(ge=1, le=200)]
TypeName = Literal["semantic", "episodic", "procedural", "insight", "turn", "summary", "chunk"]
StateName = Literal["active", "superseded", "soft_deleted"]


def is_absent(value: object) -> bool:
    """Whether a field is left out of an answer."""
    return value is None


MOST_UNKNOWN = 20


class Request(BaseModel):
    """A request body: unknown fields are refused, so that a typo never passes for a default."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_unknown(cls, given: Any) -> Any:
        """Refuse many unknown fields as one problem: to report each of a hundred thousand would take a second."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + MOST_UNKNOWN:
            raise ValueError(f"{len(given)} fields; there are {len(cls.model_fields)}")
        return given
