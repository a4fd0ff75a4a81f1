"""Bodies of /store/batch."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.api.schemas.fields import Identifier, Json, Request, Whole, storable_text
from app.domain.agent_state import store_items as store

_NO_NUL = {"pattern": r"^[^\x00]*$"}
Label = Annotated[
    str,
    Field(min_length=1, max_length=store.MAX_LABEL, json_schema_extra={"pattern": r"^[^\x00\x01]*$"}),
    AfterValidator(storable_text),
]
Path = Annotated[list[Label], Field(max_length=store.MAX_LABELS)]
Key = Annotated[
    str, Field(min_length=1, max_length=store.MAX_KEY, json_schema_extra=_NO_NUL), AfterValidator(storable_text)
]
Most = Annotated[int, Field(ge=0, le=store.MAX_ANSWERED, strict=True), Whole]
Offset = Annotated[int, Field(ge=0, le=store.MAX_OFFSET, strict=True), Whole]
Query = Annotated[str, Field(min_length=1, max_length=8000, json_schema_extra=_NO_NUL), AfterValidator(storable_text)]
IndexPath = Annotated[str, Field(max_length=200, json_schema_extra=_NO_NUL), AfterValidator(storable_text)]
Flag = Annotated[bool, Field(strict=True)]


class GetIn(Request):
    """One item."""

    namespace: Path
    key: Key
    refresh_ttl: Flag = Field(default=True, description="its time to live begins anew")

    def to_domain(self) -> store.GetItem:
        """As the use-case takes it."""
        return store.GetItem(tuple(self.namespace), self.key, self.refresh_ttl)


class SearchIn(Request):
    """Items below a prefix; with a `query` the nearest in meaning first, else the last changed."""

    prefix: Path = Field(default_factory=list)
    filter: Json | None = Field(
        default=None,
        description="fields and the values they must have, or `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte` of them",
    )
    limit: Most = 10
    offset: Offset = 0
    query: Query | None = None
    refresh_ttl: Flag = True

    def to_domain(self) -> store.SearchItems:
        """As the use-case takes it."""
        return store.SearchItems(tuple(self.prefix), self.filter, self.limit, self.offset, self.query, self.refresh_ttl)


class ConditionIn(Request):
    """How namespaces begin or end; `*` is any label."""

    where: Literal["prefix", "suffix"]
    path: Path


class ListIn(Request):
    """Namespaces that meet every condition, cut to `max_depth` labels, each once, in order."""

    conditions: Annotated[list[ConditionIn], Field(max_length=20)] = Field(default_factory=list)
    max_depth: Annotated[int, Field(ge=0, le=store.MAX_LABELS, strict=True), Whole] | None = None
    limit: Most = 100
    offset: Offset = 0

    def to_domain(self) -> store.ListNamespaces:
        """As the use-case takes it."""
        conditions = tuple(store.Condition(c.where, tuple(c.path)) for c in self.conditions)
        return store.ListNamespaces(conditions, self.max_depth, self.limit, self.offset)


class PutIn(Request):
    """Store a value of at most 256 KiB, or delete it with null."""

    namespace: Path = Field(min_length=1)
    key: Key
    value: dict[str, Any] | None
    index: Annotated[list[IndexPath], Field(max_length=store.MAX_PATHS)] = Field(
        default_factory=list,
        description="paths of texts to be found by meaning: `title`, `parts[*].text`, `$` for the whole",
    )
    ttl_minutes: Annotated[float, Field(gt=0, le=store.MAX_TTL_MINUTES, allow_inf_nan=False)] | None = Field(
        default=None, description="kept so long after it was last read or written"
    )
    user_id: Identifier | None = Field(default=None, description="whose it is: exported and erased with them")

    def to_domain(self) -> store.PutItem:
        """As the use-case takes it."""
        ttl = None if self.ttl_minutes is None else timedelta(minutes=self.ttl_minutes)
        return store.PutItem(tuple(self.namespace), self.key, self.value, tuple(self.index), ttl, self.user_id)


class BatchIn(Request):
    """At most 1,000 operations of one transaction. Everything is read before anything is written.

    Each operation counts as a request. The answer has at most 10,000 items and namespaces.
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
    lists: Annotated[list[ListIn], Field(max_length=store.MAX_OPERATIONS)] = Field(default_factory=list)
    puts: Annotated[list[PutIn], Field(max_length=store.MAX_OPERATIONS)] = Field(default_factory=list)

    @property
    def has_reads(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.gets or self.searches or self.lists)

    def to_domain(self) -> store.Batch:
        """As the use-case takes it."""
        return store.Batch(
            gets=tuple(get.to_domain() for get in self.gets),
            searches=tuple(search.to_domain() for search in self.searches),
            lists=tuple(one.to_domain() for one in self.lists),
            puts=tuple(put.to_domain() for put in self.puts),
        )


class StoreItemOut(BaseModel):
    """A stored value."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class FoundOut(StoreItemOut):
    """An item of a search."""

    score: float | None = Field(description="cosine similarity to the query; null without one or without texts")


class BatchOut(BaseModel):
    """One answer for each get, search and list, in order; an item that is not there is null."""

    gets: list[StoreItemOut | None]
    searches: list[list[FoundOut]]
    lists: list[list[list[str]]]


def render_batch(answer: store.BatchAnswer) -> bytes:
    """The JSON of a BatchOut; values go into it as they are."""
    shown = {
        "gets": [None if item is None else _item_fields(item) for item in answer.gets],
        "searches": [
            [_item_fields(found.item) | {"score": found.score} for found in search] for search in answer.searches
        ],
        "lists": answer.lists,
    }
    return orjson.dumps(shown, option=orjson.OPT_UTC_Z)


def _item_fields(item: store.StoreItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": orjson.Fragment(item.value),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
