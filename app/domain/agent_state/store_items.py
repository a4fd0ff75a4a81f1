"""What agents keep under names of their own: values by namespace and key, each operation as LangGraph means it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal, TypeAlias
from uuid import UUID

from app.domain.errors import InvalidInput
from app.domain.ids import check_json, check_storable

Namespace: TypeAlias = tuple[str, ...]
MAX_LABELS = 20
LABEL_END = "\x01"
"""What no label may hold: it ends each of them where they are stored."""
MAX_LABEL = 200
MAX_KEY = 500
MAX_PLACE_BYTES = 2000
"""Of a namespace and a key together: they are looked up in an index, whose entries have a size."""
MAX_VALUE_BYTES = 262_144
MAX_VALUE_DEPTH = 64
MAX_OPERATIONS = 1000
MAX_ANSWERED = 1000
MAX_ANSWERED_IN_ALL = 10_000
"""Items and namespaces of a whole batch: whoever reads their JSON on the event loop keeps others waiting meanwhile."""
MAX_OFFSET = 1_000_000
MAX_ANSWER_BYTES = 16 << 20
MAX_PATHS = 20
MAX_TEXTS = 1000
MAX_TEXT = 32_000
"""Characters of a text that are embedded; what is beyond is left out, as models do."""
MAX_TTL_MINUTES = 10 * 365 * 24 * 60
_SIGN = re.compile(r"[.\[{]")
OPERATORS = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})


@dataclass(frozen=True, slots=True)
class GetItem:
    """One item. `refresh_ttl`: its time to live begins anew."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


@dataclass(frozen=True, slots=True)
class SearchItems:
    """Items below a prefix that match a filter; with a `query` the nearest in meaning first, else the last changed."""

    prefix: Namespace
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


@dataclass(frozen=True, slots=True)
class Condition:
    """A namespace begins (`prefix`) or ends (`suffix`) with a path in which `*` is any label."""

    where: Literal["prefix", "suffix"]
    path: Namespace


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """Namespaces that meet every condition, cut to `max_depth` labels, each once, in order."""

    conditions: tuple[Condition, ...] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PutItem:
    """Store a value, or with None delete it. `index`: paths of its texts that are to be found by meaning."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: tuple[str, ...] = ()
    ttl: timedelta | None = None
    user_id: str | None = None

    @property
    def value_bytes(self) -> int:
        """Of the value as JSON, in bytes."""
        return len(json.dumps(self.value, ensure_ascii=False).encode())


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations of one transaction. Everything is read first; of several puts at one place the last counts."""

    gets: tuple[GetItem, ...] = ()
    searches: tuple[SearchItems, ...] = ()
    lists: tuple[ListNamespaces, ...] = ()
    puts: tuple[PutItem, ...] = ()

    @property
    def operation_count(self) -> int:
        """How many there are."""
        return len(self.gets) + len(self.searches) + len(self.lists) + len(self.puts)


class AnswerCapacity:
    """What the answer of a batch may still hold."""

    def __init__(self) -> None:
        self._count = MAX_ANSWERED_IN_ALL
        self._bytes = MAX_ANSWER_BYTES

    def take_room(self, sizes: Iterable[int]) -> None:
        """Take room for what has these sizes in bytes; raises InvalidInput when there is not enough."""
        for size in sizes:
            self._count -= 1
            self._bytes -= size
        if self._count < 0:
            raise InvalidInput(f"the answer would have more than {MAX_ANSWERED_IN_ALL} items; ask for fewer")
        if self._bytes < 0:
            raise InvalidInput(f"the answer would have more than {MAX_ANSWER_BYTES} bytes; ask for fewer items")


@dataclass(frozen=True, slots=True)
class StoreItem:
    """A stored value, as JSON text: reading many large ones would hold the event loop for seconds."""

    id: UUID
    namespace: Namespace
    key: str
    value: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item of a search; `score`: cosine similarity to the query, None without one."""

    item: StoreItem
    score: float | None


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """One answer for each get, search and list, in order."""

    gets: list[StoreItem | None]
    searches: list[list[FoundItem]]
    lists: list[list[Namespace]]


def check_batch(batch: Batch) -> Batch:
    """`batch` with the last put of each place only; raises InvalidInput or NulByte."""
    if batch.operation_count > MAX_OPERATIONS:
        raise InvalidInput(f"at most {MAX_OPERATIONS} operations a batch")
    last = {(put.namespace, put.key): put for put in batch.puts}
    named = [get.namespace for get in batch.gets] + [put.namespace for put in batch.puts]
    named += [search.prefix for search in batch.searches]
    named += [condition.path for wanted in batch.lists for condition in wanted.conditions]
    if any(LABEL_END in label for namespace in named for label in namespace):
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
    """Operators are known ones and stand by themselves; at the top every name is a field's."""
    if isinstance(wanted, list):
        for inner in wanted:
            _check_filter(inner, top=False)
    elif isinstance(wanted, dict):
        operators = set() if top else {name for name in wanted if name.startswith("$")}
        if operators and not wanted.keys() <= OPERATORS:
            raise InvalidInput(
                f"a filter knows the operators {', '.join(sorted(OPERATORS))}, and no fields beside them"
            )
        for inner in () if operators else wanted.values():
            _check_filter(inner, top=False)


def indexed_texts(put: PutItem) -> list[str]:
    """The texts of a value at its indexed paths; no more than can be embedded at once, and one."""
    found = (text[:MAX_TEXT] for path in dict.fromkeys(put.index) for text in texts_at(put.value, path) if text.strip())
    return list(islice(found, MAX_TEXTS + 1))


def texts_at(value: Any, path: str) -> list[str]:
    """The texts at a path: `a.b`, `a[0]`, `a[-1]`, `a[*]`, `*`, `{a,b.c}`; `$` or nothing: the whole as JSON."""
    if path in ("", "$"):
        return [_as_text(value)]
    return list(_texts_below(value, path_steps(path)))


def path_steps(path: str) -> list[str]:
    """A path cut at its dots and brackets: `a.b[0]` is `a`, `b`, `[0]`."""
    steps, start = [], 0
    while (found := _SIGN.search(path, start)) is not None:
        closing, at = {"[": "]", "{": "}"}.get(found[0]), found.start()
        end = at + 1 if closing is None else _find_closing(path, at, closing)
        steps += [path[start:at], "" if closing is None else path[at:end]]
        start = end
    return [step for step in (*steps, path[start:]) if step]


def _find_closing(path: str, at: int, closing: str) -> int:
    """Behind the bracket that closes the one at `at`, or the end."""
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
    step, rest = steps[0], steps[1:]
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
    """The text at plain names, one below the other; what follows such a choice in a path does not count."""
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return
        value = value[name]
    if names:
        yield from _texts_below(value, [])


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
