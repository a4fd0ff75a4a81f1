"""Bodies of /store/batch."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from mnema_wire import store_limits as limits
from mnema_wire.bases import Answered, Request
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier, Json, Whole

_NO_NUL = {"pattern": r"^[^\x00]*$"}
Label = Annotated[
    str,
    Field(min_length=1, max_length=limits.MAX_LABEL, json_schema_extra={"pattern": r"^[^\x00\x01]*$"}),
    AfterValidator(check_storable),
]
Path = Annotated[list[Label], Field(max_length=limits.MAX_LABELS)]
Key = Annotated[
    str, Field(min_length=1, max_length=limits.MAX_KEY, json_schema_extra=_NO_NUL), AfterValidator(check_storable)
]
Most = Annotated[int, Field(ge=0, le=limits.MAX_ANSWERED, strict=True), Whole]
Offset = Annotated[int, Field(ge=0, le=limits.MAX_OFFSET, strict=True), Whole]
Query = Annotated[str, Field(min_length=1, max_length=8000, json_schema_extra=_NO_NUL), AfterValidator(check_storable)]
IndexPath = Annotated[str, Field(max_length=200, json_schema_extra=_NO_NUL), AfterValidator(check_storable)]
Flag = Annotated[bool, Field(strict=True)]


class GetIn(Request):
    """The request for one item."""

    namespace: Path
    key: Key
    refresh_ttl: Flag = Field(default=True, description="restart the time to live of the item")


class SearchIn(Request):
    """A search for items below a prefix.

    With a `query`, the items nearest in meaning come first, else the last changed.
    """

    prefix: Path = Field(default_factory=list)
    filter: Json | None = Field(
        default=None,
        description="fields with their required values, or with `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`",
    )
    limit: Most = 10
    offset: Offset = 0
    query: Query | None = None
    refresh_ttl: Flag = True


class ConditionIn(Request):
    """A prefix or a suffix that namespaces must have. The label `*` matches any label."""

    where: Literal["prefix", "suffix"]
    path: Path


class NamespaceListIn(Request):
    """A request for namespaces that meet every condition.

    They are cut to `max_depth` labels, sorted, and without duplicates.
    """

    conditions: Annotated[list[ConditionIn], Field(max_length=20)] = Field(default_factory=list)
    max_depth: Annotated[int, Field(ge=0, le=limits.MAX_LABELS, strict=True), Whole] | None = None
    limit: Most = 100
    offset: Offset = 0


class PutIn(Request):
    """A value to store, of at most 256 KiB. `null` deletes the item."""

    namespace: Path = Field(min_length=1)
    key: Key
    value: dict[str, Any] | None
    index: Annotated[list[IndexPath], Field(max_length=limits.MAX_PATHS)] = Field(
        default_factory=list,
        description="paths of texts that searches find by meaning: `title`, `parts[*].text`, `$` for the whole value",
    )
    ttl_minutes: Annotated[float, Field(gt=0, le=limits.MAX_TTL_MINUTES, allow_inf_nan=False)] | None = Field(
        default=None, description="the item expires this many minutes after its last read or write"
    )
    user_id: Identifier | None = Field(default=None, description="the user with whom the item is exported and erased")


class BatchIn(Request):
    """At most 1,000 operations in one transaction. All reads come before the first write.

    Each operation counts as one request. The answer has at most 10,000 items and namespaces.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "puts": [
                        {
                            "namespace": ["maya", "notes"],
                            "key": "venue",
                            "value": {"text": "The venue has room for eighty."},
                            "index": ["text"],
                            "user_id": "maya",
                        }
                    ]
                }
            ]
        },
    )
    gets: Annotated[list[GetIn], Field(max_length=limits.MAX_OPERATIONS)] = Field(default_factory=list)
    searches: Annotated[list[SearchIn], Field(max_length=limits.MAX_OPERATIONS)] = Field(default_factory=list)
    lists: Annotated[list[NamespaceListIn], Field(max_length=limits.MAX_OPERATIONS)] = Field(default_factory=list)
    puts: Annotated[list[PutIn], Field(max_length=limits.MAX_OPERATIONS)] = Field(default_factory=list)


class StoreItemOut(Answered):
    """A stored value."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class FoundItemOut(StoreItemOut):
    """An item that a search found."""

    score: float | None = Field(description="cosine similarity to the query; null without a query or indexed texts")


class BatchOut(Answered):
    """One answer for each get, search and list, in their order. A missing item is null."""

    gets: list[StoreItemOut | None]
    searches: list[list[FoundItemOut]]
    lists: list[list[list[str]]]
