"""Store items: values that agents keep by namespace and key. Operations follow LangGraph's `BaseStore`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal, TypeAlias
from uuid import UUID

from mnema_wire.store_limits import MAX_OPERATIONS

from app.domain.errors import InvalidInput
from app.domain.ids import check_json, check_storable

Namespace: TypeAlias = tuple[str, ...]
LABEL_END = "\x01"
"""The character that no label may hold, because it ends each label in storage."""
MAX_PLACE_BYTES = 2000
"""Maximum bytes of a namespace and key together, because the size of an index entry is limited."""
MAX_VALUE_BYTES = 262_144
MAX_VALUE_DEPTH = 64
MAX_ANSWERED_IN_ALL = 10_000
"""Maximum items and namespaces in the answer of a batch. Encoding them as JSON blocks the event loop."""
MAX_ANSWER_BYTES = 16 << 20
MAX_TEXTS = 1000
MAX_TEXT = 32_000
"""Characters of a text that are embedded. The rest is ignored, as embedding models do."""
_SIGN = re.compile(r"[.\[{]")
OPERATORS = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})


@dataclass(frozen=True, slots=True)
class GetItem:
    """A read of one item. `refresh_ttl` restarts its time to live."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


@dataclass(frozen=True, slots=True)
class SearchItems:
    """A search for items below a prefix that match a filter.

    With a `query` the most similar items come first, else the last changed ones.
    """

    prefix: Namespace
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on namespaces: they start (`prefix`) or end (`suffix`) with `path`, where `*` is any label."""

    where: Literal["prefix", "suffix"]
    path: Namespace


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """A list of the distinct namespaces that meet every condition, cut to `max_depth` labels and sorted."""

    conditions: tuple[Condition, ...] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PutItem:
    """A write of one item. `value` None deletes it. `index` has the paths of the texts to embed."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: tuple[str, ...] = ()
    ttl: timedelta | None = None
    user_id: str | None = None

    @property
    def value_bytes(self) -> int:
        """The size of the value as JSON, in bytes."""
        return len(json.dumps(self.value, ensure_ascii=False).encode())


@dataclass(frozen=True, slots=True)
class Batch:
    """The operations of one transaction. All reads run before the puts. The last put of a place counts."""

    gets: tuple[GetItem, ...] = ()
    searches: tuple[SearchItems, ...] = ()
    lists: tuple[ListNamespaces, ...] = ()
    puts: tuple[PutItem, ...] = ()

    @property
    def operation_count(self) -> int:
        """The number of operations."""
        return len(self.gets) + len(self.searches) + len(self.lists) + len(self.puts)


class AnswerCapacity:
    """The room that is left in the answer of a batch, in items and bytes."""

    def __init__(self) -> None:
        self._count = MAX_ANSWERED_IN_ALL
        self._bytes = MAX_ANSWER_BYTES

    def take_room(self, sizes: Iterable[int]) -> None:
        """Take room for items of these sizes in bytes. Raise InvalidInput if there is not enough."""
        for size in sizes:
            self._count -= 1
            self._bytes -= size
        if self._count < 0:
            raise InvalidInput(f"the answer would have more than {MAX_ANSWERED_IN_ALL} items; ask for fewer")
        if self._bytes < 0:
            raise InvalidInput(f"the answer would have more than {MAX_ANSWER_BYTES} bytes; ask for fewer items")


@dataclass(frozen=True, slots=True)
class StoreItem:
    """A stored item. `value` is JSON text, because decoding many large values blocks the event loop for seconds."""

    id: UUID
    namespace: Namespace
    key: str
    value: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class FoundItem:
    """A result of a search. `score` is the cosine similarity to the query, None without a query."""

    item: StoreItem
    score: float | None


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The results of a batch: one for each get, search and list, in order."""

    gets: list[StoreItem | None]
    searches: list[list[FoundItem]]
    lists: list[list[Namespace]]


def check_batch(batch: Batch) -> Batch:
    """Return `batch` with only the last put of each place. Raise InvalidInput or NulByte if it breaks a limit."""
    if batch.operation_count > MAX_OPERATIONS:
        raise InvalidInput(f"at most {MAX_OPERATIONS} operations a batch")
    last = {(put.namespace, put.key): put for put in batch.puts}
    namespaces = [get.namespace for get in batch.gets] + [put.namespace for put in batch.puts]
    namespaces += [search.prefix for search in batch.searches]
    namespaces += [condition.path for listing in batch.lists for condition in listing.conditions]
    if any(LABEL_END in label for namespace in namespaces for label in namespace):
        raise InvalidInput("no label of a namespace holds U+0001")
    for search in batch.searches:
        _check_filter(search.filter or {})
    for put in last.values():
        _check_place(put.namespace, put.key)
        if put.value is not None:
            check_json(put.value, MAX_VALUE_BYTES, MAX_VALUE_DEPTH)
    return Batch(batch.gets, batch.searches, batch.lists, tuple(last.values()))


def _check_place(namespace: Namespace, key: str) -> None:
    size = sum(len(check_storable(part).encode()) for part in (*namespace, key))
    if size > MAX_PLACE_BYTES:
        raise InvalidInput(f"a namespace and a key have at most {MAX_PLACE_BYTES} bytes together")


def _check_filter(wanted: Any, *, top: bool = True) -> None:
    """Check that operators are valid and have no fields beside them. At the top, every name is a field."""
    if isinstance(wanted, list):
        for inner in wanted:
            _check_filter(inner, top=False)
    elif isinstance(wanted, dict):
        operators = set() if top else {name for name in wanted if name.startswith("$")}
        if operators and not wanted.keys() <= OPERATORS:
            raise InvalidInput(
                f"a filter may use the operators {', '.join(sorted(OPERATORS))}, without fields beside them"
            )
        for inner in () if operators else wanted.values():
            _check_filter(inner, top=False)


def indexed_texts(put: PutItem) -> list[str]:
    """Return the texts of a value at its indexed paths, at most MAX_TEXTS + 1, so that the caller sees an excess."""
    texts = (text[:MAX_TEXT] for path in dict.fromkeys(put.index) for text in texts_at(put.value, path) if text.strip())
    return list(islice(texts, MAX_TEXTS + 1))


def texts_at(value: Any, path: str) -> list[str]:
    """Return the texts at a path: `a.b`, `a[0]`, `a[-1]`, `a[*]`, `*`, `{a,b.c}`.

    The path `$` or an empty path gives the whole value as JSON.
    """
    if path in ("", "$"):
        return [_as_text(value)]
    return list(_texts_below(value, path_steps(path)))


def path_steps(path: str) -> list[str]:
    """Split a path at its dots and brackets: `a.b[0]` gives `a`, `b`, `[0]`."""
    steps = []
    start = 0
    while (sign := _SIGN.search(path, start)) is not None:
        closing = {"[": "]", "{": "}"}.get(sign[0])
        at = sign.start()
        end = at + 1 if closing is None else _find_closing(path, at, closing)
        steps += [path[start:at], "" if closing is None else path[at:end]]
        start = end
    return [step for step in (*steps, path[start:]) if step]


def _find_closing(path: str, at: int, closing: str) -> int:
    """Return the offset after the bracket that closes the one at `at`; the path's end if it is not closed."""
    depth = 0
    for end in range(at, len(path)):
        depth += (path[end] == path[at]) - (path[end] == closing)
        if depth == 0:
            return end + 1
    return len(path)


def _texts_below(value: Any, steps: list[str]) -> Iterator[str]:
    if not steps:
        if value is not None:
            yield _as_text(value) if isinstance(value, list | dict) else str(value)
        return
    step = steps[0]
    rest = steps[1:]
    if step.startswith("{") and step.endswith("}"):
        if isinstance(value, dict):
            for names in dict.fromkeys(tuple(path_steps(path.strip())) for path in step[1:-1].split(",")):
                yield from _text_at_names(value, names)
        return
    for inner in _step_values(value, step):
        yield from _texts_below(inner, rest)


def _step_values(value: Any, step: str) -> Iterator[Any]:
    if step.startswith("[") and step.endswith("]"):
        if isinstance(value, list):
            yield from value if step == "[*]" else _list_element(value, step[1:-1])
    elif step == "*":
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif isinstance(value, dict) and step in value:
        yield value[step]


def _list_element(value: list[Any], number: str) -> list[Any]:
    try:
        at = int(number)
    except ValueError:
        return []
    return [value[at]] if -len(value) <= at < len(value) else []


def _text_at_names(value: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield the text at nested plain names. The steps after a `{…}` choice in a path are ignored."""
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return
        value = value[name]
    if names:
        yield from _texts_below(value, [])


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
