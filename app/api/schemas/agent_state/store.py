"""Bodies of /store/batch."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import orjson
from mnema_wire.bases import Request
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier, Json, Whole
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.domain.agent_state import store_items as store

_NO_NUL = {"pattern": r"^[^\x00]*$"}
Label = Annotated[
    str,
    Field(min_length=1, max_length=store.MAX_LABEL, json_schema_extra={"pattern": r"^[^\x00\x01]*$"}),
    AfterValidator(check_storable),
]
Path = Annotated[list[Label], Field(max_length=store.MAX_LABELS)]
Key = Annotated[
    str, Field(min_length=1, max_length=store.MAX_KEY, json_schema_extra=_NO_NUL), AfterValidator(check_storable)
]
Most = Annotated[int, Field(ge=0, le=store.MAX_ANSWERED, strict=True), Whole]
Offset = Annotated[int, Field(ge=0, le=store.MAX_OFFSET, strict=True), Whole]
Query = Annotated[str, Field(min_length=1, max_length=8000, json_schema_extra=_NO_NUL), AfterValidator(check_storable)]
IndexPath = Annotated[str, Field(max_length=200, json_schema_extra=_NO_NUL), AfterValidator(check_storable)]
Flag = Annotated[bool, Field(strict=True)]


class GetIn(Request):
    """The request for one item."""

    namespace: Path
    key: Key
    refresh_ttl: Flag = Field(default=True, description="restart the time to live of the item")

    def to_domain(self) -> store.GetItem:
        """Return the domain object."""
        return store.GetItem(tuple(self.namespace), self.key, self.refresh_ttl)


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

    def to_domain(self) -> store.SearchItems:
        """Return the domain object."""
        return store.SearchItems(tuple(self.prefix), self.filter, self.limit, self.offset, self.query, self.refresh_ttl)


class ConditionIn(Request):
    """A prefix or a suffix that namespaces must have. The label `*` matches any label."""

    where: Literal["prefix", "suffix"]
    path: Path


class NamespaceListIn(Request):
    """A request for namespaces that meet every condition.

    They are cut to `max_depth` labels, sorted, and without duplicates.
    """

    conditions: Annotated[list[ConditionIn], Field(max_length=20)] = Field(default_factory=list)
    max_depth: Annotated[int, Field(ge=0, le=store.MAX_LABELS, strict=True), Whole] | None = None
    limit: Most = 100
    offset: Offset = 0

    def to_domain(self) -> store.ListNamespaces:
        """Return the domain object."""
        conditions = tuple(store.Condition(c.where, tuple(c.path)) for c in self.conditions)
        return store.ListNamespaces(conditions, self.max_depth, self.limit, self.offset)


class PutIn(Request):
    """A value to store, of at most 256 KiB. `null` deletes the item."""

    namespace: Path = Field(min_length=1)
    key: Key
    value: dict[str, Any] | None
    index: Annotated[list[IndexPath], Field(max_length=store.MAX_PATHS)] = Field(
        default_factory=list,
        description="paths of texts that searches find by meaning: `title`, `parts[*].text`, `$` for the whole value",
    )
    ttl_minutes: Annotated[float, Field(gt=0, le=store.MAX_TTL_MINUTES, allow_inf_nan=False)] | None = Field(
        default=None, description="the item expires this many minutes after its last read or write"
    )
    user_id: Identifier | None = Field(default=None, description="the user with whom the item is exported and erased")

    def to_domain(self) -> store.PutItem:
        """Return the domain object."""
        ttl = None if self.ttl_minutes is None else timedelta(minutes=self.ttl_minutes)
        return store.PutItem(tuple(self.namespace), self.key, self.value, tuple(self.index), ttl, self.user_id)


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
    gets: Annotated[list[GetIn], Field(max_length=store.MAX_OPERATIONS)] = Field(default_factory=list)
    searches: Annotated[list[SearchIn], Field(max_length=store.MAX_OPERATIONS)] = Field(default_factory=list)
    lists: Annotated[list[NamespaceListIn], Field(max_length=store.MAX_OPERATIONS)] = Field(default_factory=list)
    puts: Annotated[list[PutIn], Field(max_length=store.MAX_OPERATIONS)] = Field(default_factory=list)

    @property
    def has_reads(self) -> bool:
        """True if the batch reads anything."""
        return bool(self.gets or self.searches or self.lists)

    def to_domain(self) -> store.Batch:
        """Return the domain object."""
        return store.Batch(
            gets=tuple(get.to_domain() for get in self.gets),
            searches=tuple(search.to_domain() for search in self.searches),
            lists=tuple(request.to_domain() for request in self.lists),
            puts=tuple(put.to_domain() for put in self.puts),
        )


class StoreItemOut(BaseModel):
    """A stored value."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class FoundItemOut(StoreItemOut):
    """An item that a search found."""

    score: float | None = Field(description="cosine similarity to the query; null without a query or indexed texts")


class BatchOut(BaseModel):
    """One answer for each get, search and list, in their order. A missing item is null."""

    gets: list[StoreItemOut | None]
    searches: list[list[FoundItemOut]]
    lists: list[list[list[str]]]


def render_batch(answer: store.BatchAnswer) -> bytes:
    """Return the JSON of a BatchOut. Stored values are copied into it as they are."""
    fields = {
        "gets": [None if item is None else _item_fields(item) for item in answer.gets],
        "searches": [
            [_item_fields(found.item) | {"score": found.score} for found in search] for search in answer.searches
        ],
        "lists": answer.lists,
    }
    return orjson.dumps(fields, option=orjson.OPT_UTC_Z)


def _item_fields(item: store.StoreItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": orjson.Fragment(item.value),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
