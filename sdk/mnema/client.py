"""The clients. Every method is a call of `mnema.calls`, sent by a synchronous or an asynchronous sender."""

import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_args

from mnema import calls, citations, consent
from mnema.bulk import split_batches
from mnema.errors import BrokenOff
from mnema.models import BulkResult, Page
from mnema.requests import NewMemory
from mnema.transport import AsyncSender, Call, Connection, Retry, Sender

P = ParamSpec("P")
T = TypeVar("T")


def build_connection(
    base_url: str | None = None, api_key: str | None = None, *, timeout_s: float = 30.0, retry: Retry | None = None
) -> Connection:
    """Return a connection; MNEMA_URL and MNEMA_API_KEY supply what is not given. Raise ValueError if one is missing."""
    url, key = base_url or os.environ.get("MNEMA_URL"), api_key or os.environ.get("MNEMA_API_KEY")
    if not url or not key:
        raise ValueError("give base_url and api_key, or set MNEMA_URL and MNEMA_API_KEY")
    return Connection(url, key, timeout_s, retry or Retry())


def _copy_signature(method: Any, build: Callable[..., Any], owner: str, returns: Any) -> Any:
    """Give `method` the name, docstring and arguments of `build`, with `self` in front; return it."""
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [first, *signature.parameters.values()]
    method.__signature__ = signature.replace(parameters=parameters, return_annotation=returns)
    method.__annotations__ = {**build.__annotations__, "return": returns}
    method.__module__, method.__qualname__ = __name__, f"{owner}.{build.__name__}"
    return method


def _answer_type(build: Callable[..., Any]) -> Any:
    """Return the type of the result of the call that `build` makes."""
    return get_args(build.__annotations__["return"])[0]


def _iterator_type(iterator: Any, build: Callable[..., Any]) -> Any:
    """Return the type of an iterator of the items of the pages."""
    return iterator[get_args(_answer_type(build).model_fields["items"].annotation)[0]]


def _sync_method(build: Callable[P, Call[T]]) -> "Callable[Concatenate[Mnema, P], T]":
    def send_call(self: "Mnema", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    documented: Callable[Concatenate[Mnema, P], T] = _copy_signature(send_call, build, "Mnema", _answer_type(build))
    return documented


def _sync_pages(build: Callable[P, Call[Page[T]]]) -> "Callable[Concatenate[Mnema, P], Iterator[T]]":
    def iterate_items(self: "Mnema", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        page = self.send(build(*args, **kwargs))
        yield from page.items
        while page.next_cursor is not None:
            kwargs["cursor"] = page.next_cursor
            page = self.send(build(*args, **kwargs))
            yield from page.items

    documented: Callable[Concatenate[Mnema, P], Iterator[T]] = _copy_signature(
        iterate_items, build, "Mnema", _iterator_type(Iterator, build)
    )
    return documented


def _async_method(build: Callable[P, Call[T]]) -> "Callable[Concatenate[AsyncMnema, P], Coroutine[Any, Any, T]]":
    async def send_call(self: "AsyncMnema", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    documented: Callable[Concatenate[AsyncMnema, P], Coroutine[Any, Any, T]] = _copy_signature(
        send_call, build, "AsyncMnema", _answer_type(build)
    )
    return documented


def _async_pages(build: Callable[P, Call[Page[T]]]) -> "Callable[Concatenate[AsyncMnema, P], AsyncIterator[T]]":
    async def iterate_items(self: "AsyncMnema", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        page = await self.send(build(*args, **kwargs))
        for item in page.items:
            yield item
        while page.next_cursor is not None:
            kwargs["cursor"] = page.next_cursor
            page = await self.send(build(*args, **kwargs))
            for item in page.items:
                yield item

    documented: Callable[Concatenate[AsyncMnema, P], AsyncIterator[T]] = _copy_signature(
        iterate_items, build, "AsyncMnema", _iterator_type(AsyncIterator, build)
    )
    return documented


class Mnema:
    """The synchronous client. Threads may share one; `with Mnema(...) as memory:` closes it.

    `base_url`, `api_key`: by default MNEMA_URL and MNEMA_API_KEY. `timeout_s`: the limit for connecting, and for each
    wait for data. Transient failures (no connection, 429, 502, 503, 504) are retried as `retry` says. Writes carry an
    Idempotency-Key, so a retry writes once. `erase` has none, and is retried only if the server certainly did nothing.
    Every method raises MnemaError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        self.connection = build_connection(base_url, api_key, timeout_s=timeout_s, retry=retry)
        self._sender = Sender(self.connection)

    remember = _sync_method(calls.remember)
    add_turn = _sync_method(calls.add_turn)
    query = _sync_method(calls.query)
    search = _sync_method(citations.search)
    get = _sync_method(calls.get)
    page = _sync_method(calls.page)
    list = _sync_pages(calls.page)
    edit = _sync_method(calls.edit)
    delete = _sync_method(calls.delete)
    purge = _sync_method(calls.purge)
    restore = _sync_method(calls.restore)
    pin = _sync_method(calls.pin)
    history = _sync_pages(calls.history)
    delta = _sync_method(calls.delta)
    thread_turns = _sync_pages(citations.thread_turns)
    erase = _sync_method(calls.erase)
    propose = _sync_method(consent.propose)
    proposals = _sync_pages(consent.proposals)
    approve = _sync_method(consent.approve)
    reject = _sync_method(consent.reject)
    ask_consent = _sync_method(consent.ask_consent)
    context = _sync_method(consent.context)
    withdraw = _sync_method(consent.withdraw)
    event_counts = _sync_method(calls.event_counts)
    jobs = _sync_pages(calls.jobs)
    job = _sync_method(calls.job)
    job_counts = _sync_method(calls.job_counts)
    health = _sync_method(calls.health)
    ready = _sync_method(calls.ready)

    def remember_many(
        self, memories: Iterable[NewMemory | Mapping[str, Any]], *, trim: bool = False
    ) -> Iterator[BulkResult]:
        """Write any number of memories, a thousand a request. Yield one result each, in order, as they come.

        An invalid memory gives a result with an `error` and does not affect the others. Nothing is sent until you read
        the results. After BrokenOff, memories without a result may be stored or not: give each an `idempotency_key` if
        you need to send them again.
        """
        for batch in split_batches(memories, trim=trim):
            broken: BrokenOff | None = None
            while batch.begin_attempt(broken):
                try:
                    for document in self._sender.stream_documents(batch.call):
                        if result := batch.read_result(document):
                            yield result
                except BrokenOff as error:
                    broken = error

    def export(self, user_id: str) -> Iterator[dict[str, Any]]:
        """Yield all records of a user as they come; each has its `kind`. BrokenOff: the export is incomplete."""
        return self._sender.stream_documents(calls.export(user_id))

    def send(self, call: Call[T]) -> T:
        """Send any call and return its result. Raise MnemaError."""
        return self._sender.send(call)

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Mnema({self.connection.base_url!r})"


class AsyncMnema:
    """The client for asyncio: `async with AsyncMnema(...) as memory:`. Its iterators are asynchronous."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        self.connection = build_connection(base_url, api_key, timeout_s=timeout_s, retry=retry)
        self._sender = AsyncSender(self.connection)

    remember = _async_method(calls.remember)
    add_turn = _async_method(calls.add_turn)
    query = _async_method(calls.query)
    search = _async_method(citations.search)
    get = _async_method(calls.get)
    page = _async_method(calls.page)
    list = _async_pages(calls.page)
    edit = _async_method(calls.edit)
    delete = _async_method(calls.delete)
    purge = _async_method(calls.purge)
    restore = _async_method(calls.restore)
    pin = _async_method(calls.pin)
    history = _async_pages(calls.history)
    delta = _async_method(calls.delta)
    thread_turns = _async_pages(citations.thread_turns)
    erase = _async_method(calls.erase)
    propose = _async_method(consent.propose)
    proposals = _async_pages(consent.proposals)
    approve = _async_method(consent.approve)
    reject = _async_method(consent.reject)
    ask_consent = _async_method(consent.ask_consent)
    context = _async_method(consent.context)
    withdraw = _async_method(consent.withdraw)
    event_counts = _async_method(calls.event_counts)
    jobs = _async_pages(calls.jobs)
    job = _async_method(calls.job)
    job_counts = _async_method(calls.job_counts)
    health = _async_method(calls.health)
    ready = _async_method(calls.ready)

    async def remember_many(
        self, memories: Iterable[NewMemory | Mapping[str, Any]], *, trim: bool = False
    ) -> AsyncIterator[BulkResult]:
        """Write any number of memories, a thousand a request, as `Mnema.remember_many` does."""
        for batch in split_batches(memories, trim=trim):
            broken: BrokenOff | None = None
            while batch.begin_attempt(broken):
                try:
                    async for document in self._sender.stream_documents(batch.call):
                        if result := batch.read_result(document):
                            yield result
                except BrokenOff as error:
                    broken = error

    def export(self, user_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield all records of a user as they come; each has its `kind`. BrokenOff: the export is incomplete."""
        return self._sender.stream_documents(calls.export(user_id))

    async def send(self, call: Call[T]) -> T:
        """Send any call and return its result. Raise MnemaError."""
        return await self._sender.send(call)

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncMnema({self.connection.base_url!r})"
