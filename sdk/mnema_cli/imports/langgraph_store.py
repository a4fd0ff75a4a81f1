"""LangGraph's stores, read live: each item is a memory, or an item of Mnema's store.

The store is an object of the caller's code (`package.module:name`), or a PostgresStore at an address. LangGraph is not
a dependency; the caller has it installed.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from mnema_cli.imports.records import CONTINUE, Bad, Choices, Found, LeftOut, Note, SourceFailed, Write, hash_text

PAGE = 10_000
"""Maximum items of one search. Pages may overlap, so a namespace with fewer items is read in one search."""
NAMESPACES = 100
"""Maximum namespaces on a page of the list of namespaces."""
TEXT_FIELDS = ("text", "content", "memory", "data", "fact", "content.content")
"""The paths at which an item's text is looked for, unless the caller names one."""
PLACEHOLDERS = {"{user}": "user_id", "{thread}": "thread_id", "{agent}": "agent_id", "{category}": "category"}
POSTGRES = ("postgresql", "postgres")


Answer = TypeVar("Answer")


class Item(Protocol):
    """An item of a LangGraph store."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: Any


class Store(Protocol):
    """The part of LangGraph's BaseStore that an import needs."""

    def search(
        self, namespace_prefix: tuple[str, ...], /, *, limit: int, offset: int, refresh_ttl: bool
    ) -> Sequence[Item]:
        """Return a page of the items below a namespace, newest first."""

    def list_namespaces(self, *, limit: int, offset: int) -> Sequence[tuple[str, ...]]:
        """Return a page of the namespaces."""


@dataclass(frozen=True, slots=True)
class StoreChoices:
    """The choices for a store.

    `namespace`: labels of the namespaces to import: a word, `*`, `{user}`, `{thread}`, `{agent}`, `{category}`, and a
    last `**` for any rest. None imports all. `text_field`: a path such as `content.text`. `as_items`: write items of
    Mnema's store.
    """

    namespace: str | None = None
    text_field: str | None = None
    as_items: bool = False


def open_store(source: str, stack: ExitStack) -> Store:
    """Return the store; the stack closes it. Raise SourceFailed."""
    address = urlsplit(source)
    if address.scheme in POSTGRES:
        if address.password:
            raise SourceFailed("put an address with a password into MNEMA_IMPORT_DSN, and name the source `postgres`")
        return _open_postgres(source, stack)
    if source == "postgres":
        if not (dsn := os.environ.get("MNEMA_IMPORT_DSN")):
            raise SourceFailed("set MNEMA_IMPORT_DSN to the address of the database of the PostgresStore")
        return _open_postgres(dsn, stack)
    return _check_store(_load_object(source, stack), source)


def _open_postgres(dsn: str, stack: ExitStack) -> Store:
    try:
        module = importlib.import_module("langgraph.store.postgres")
    except ImportError as error:
        raise SourceFailed(f"{error}; pip install langgraph-checkpoint-postgres 'psycopg[binary]'") from None
    try:
        return _check_store(stack.enter_context(module.PostgresStore.from_conn_string(dsn)), "postgres")
    except OSError as error:
        raise SourceFailed(f"the database is not reachable: {type(error).__name__}") from None
    except Exception as error:  # psycopg's errors are no OSError, and their texts may hold parts of the address
        raise SourceFailed(f"the database cannot be used: {type(error).__name__}") from None


def _load_object(source: str, stack: ExitStack) -> Any:
    """Return the object of `package.module:name`. A function is called, a context manager is entered."""
    module, colon, name = source.partition(":")
    if not colon or not name:
        raise SourceFailed(f"{source!r} is neither `package.module:name` nor postgresql://…")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        found = found() if callable(found) and not hasattr(found, "search") else found
        return stack.enter_context(found) if hasattr(found, "__enter__") else found
    except Exception as error:
        raise SourceFailed(f"{source} cannot be loaded: {type(error).__name__}: {error}") from None


def _check_store(found: Any, source: str) -> Store:
    for method in ("search", "list_namespaces"):
        if not callable(getattr(found, method, None)):
            raise SourceFailed(f"{source} is a {type(found).__name__}, not a store with the method {method}")
    store: Store = found
    return store


def read_store(store: Store, choices: Choices, options: StoreChoices) -> Iterator[Found]:
    """Yield the items of a store by namespace, oldest first in each. Raise SourceFailed."""
    make = _item_maker(choices) if options.as_items else _memory_maker(choices, options.text_field)
    for namespace in _read_namespaces(store):
        named = match_namespace(options.namespace, namespace)
        place = "/".join(namespace)
        if named is None:
            yield LeftOut("namespaces that --namespace does not name")
            continue
        for item in _read_items(store, namespace, place):
            yield item if isinstance(item, Bad) else make(item, dict(named), f"{place} {item.key}")
    yield Note("times to live are not imported: a store does not tell them")


def _read_namespaces(store: Store) -> Iterator[tuple[str, ...]]:
    offset = 0
    while True:
        page = _ask_store("its namespaces", partial(store.list_namespaces, limit=NAMESPACES, offset=offset))
        yield from page
        if len(page) < NAMESPACES:
            return
        offset += NAMESPACES


def _read_items(store: Store, namespace: tuple[str, ...], place: str) -> Iterator[Item | Bad]:
    """Yield the items of a namespace, without those below it.

    A store may order equal times differently from page to page. Then it repeats some items and leaves out as many.
    """
    seen: set[str] = set()
    offset = 0
    repeated = 0
    while True:
        ask = partial(store.search, namespace, limit=PAGE, offset=offset, refresh_ttl=False)
        page = _ask_store(f"the namespace {place}", ask)
        for item in sorted((item for item in page if tuple(item.namespace) == namespace), key=lambda i: i.created_at):
            repeated += item.key in seen
            if item.key not in seen:
                seen.add(item.key)
                yield item
        if len(page) < PAGE:
            break
        offset += PAGE
    if repeated:
        yield Bad(place, f"the store repeated {repeated} items, so it left out as many; run the import again")


def _ask_store(what: str, ask: Callable[[], Answer]) -> Answer:
    try:
        return ask()
    except Exception as error:  # any class: the store is the caller's
        raise SourceFailed(f"the store fails at {what}: {type(error).__name__}: {error}", advice=CONTINUE) from None


def match_namespace(pattern: str | None, namespace: Sequence[str]) -> dict[str, str] | None:
    """Return the fields that a namespace names, None if it does not fit the pattern."""
    if pattern is None:
        return {}
    labels = pattern.split("/")
    if labels[-1] == "**":
        labels = labels[:-1]
        namespace = namespace[: len(labels)]
    if len(labels) != len(namespace):
        return None
    pairs = list(zip(labels, namespace, strict=True))
    if any(label not in PLACEHOLDERS and label not in ("*", part) for label, part in pairs):
        return None
    return {PLACEHOLDERS[label]: part for label, part in pairs if label in PLACEHOLDERS}


def _identity(item: Item) -> str:
    return hash_text(list(item.namespace), item.key, _time(item))


def _time(item: Item) -> str | None:
    return item.created_at.isoformat() if item.created_at else None


def _item_maker(choices: Choices) -> Callable[[Item, dict[str, str], str], Found]:
    def make(item: Item, named: dict[str, str], place: str) -> Found:
        user = named.get("user_id") or choices.user
        put = {"namespace": list(item.namespace), "key": item.key, "value": item.value}
        body = {"puts": [put | ({"user_id": user} if user else {})]}
        return Write(place, _identity(item), body, path="/store/batch")

    return make


def _memory_maker(choices: Choices, text_field: str | None) -> Callable[[Item, dict[str, str], str], Found]:
    paths = (text_field,) if text_field else TEXT_FIELDS

    def make(item: Item, named: dict[str, str], place: str) -> Found:
        text = next((text for path in paths if isinstance(text := find_value(item.value, path), str)), None)
        if text is None:
            return LeftOut(f"items without a text in {', '.join(paths)}; see --text-field and --as items")
        category = (named.pop("category", None), item.value.get("category"))
        rest = {name: value for name, value in item.value.items() if value != text}
        metadata = {"namespace": "/".join(item.namespace), "value": rest}
        fields = named | {"id": item.key, "created_at": _time(item), "metadata": metadata}
        return choices.make_memory(place, _identity(item), text, names=category, **fields)

    return make


def find_value(value: Any, path: str) -> Any:
    """Return what stands at a path such as `content.text`, None if nothing does."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
