"""The clients: every method is a call of `mnema.calls`, sent by one of two senders."""

import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_args

from mnema import calls, consent
from mnema.bulk import batches
from mnema.errors import BrokenOff
from mnema.models import BulkResult, Page
from mnema.requests import NewMemory
from mnema.transport import AsyncSender, Call, Connection, Retry, Sender

P = ParamSpec("P")
T = TypeVar("T")


def connection(
    base_url: str | None = None, api_key: str | None = None, *, timeout_s: float = 30.0, retry: Retry | None = None
) -> Connection:
    """Where and as whom: what is not given is read from MNEMA_URL and MNEMA_API_KEY. Raises ValueError."""
    url, key = base_url or os.environ.get("MNEMA_URL"), api_key or os.environ.get("MNEMA_API_KEY")
    if not url or not key:
        raise ValueError("give base_url and api_key, or set MNEMA_URL and MNEMA_API_KEY")
    return Connection(url, key, timeout_s, retry or Retry())


def _documented(method: Any, build: Callable[..., Any], owner: str, returns: Any) -> Any:
    """`method` with the name, the text and the arguments of `build`, and `self` before them."""
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [first, *signature.parameters.values()]
    method.__signature__ = signature.replace(parameters=parameters, return_annotation=returns)
    method.__annotations__ = {**build.__annotations__, "return": returns}
    method.__module__, method.__qualname__ = __name__, f"{owner}.{build.__name__}"
    return method


def _answered(build: Callable[..., Any]) -> Any:
    """What the call that `build` makes is read as."""
    return get_args(build.__annotations__["return"])[0]


def _each(iterator: Any, build: Callable[..., Any]) -> Any:
    """An iterator of what the pages hold."""
    return iterator[get_args(_answered(build).model_fields["items"].annotation)[0]]


def _sends(build: Callable[P, Call[T]]) -> "Callable[Concatenate[Mnema, P], T]":
    def method(self: "Mnema", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    documented: Callable[Concatenate[Mnema, P], T] = _documented(method, build, "Mnema", _answered(build))
    return documented


def _pages(build: Callable[P, Call[Page[T]]]) -> "Callable[Concatenate[Mnema, P], Iterator[T]]":
    def method(self: "Mnema", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        page = self.send(build(*args, **kwargs))
        yield from page.items
        while page.next_cursor is not None:
            kwargs["cursor"] = page.next_cursor
            page = self.send(build(*args, **kwargs))
            yield from page.items

    documented: Callable[Concatenate[Mnema, P], Iterator[T]] = _documented(
        method, build, "Mnema", _each(Iterator, build)
    )
    return documented


def _awaits(build: Callable[P, Call[T]]) -> "Callable[Concatenate[AsyncMnema, P], Coroutine[Any, Any, T]]":
    async def method(self: "AsyncMnema", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    documented: Callable[Concatenate[AsyncMnema, P], Coroutine[Any, Any, T]] = _documented(
        method, build, "AsyncMnema", _answered(build)
    )
    return documented


def _awaits_pages(build: Callable[P, Call[Page[T]]]) -> "Callable[Concatenate[AsyncMnema, P], AsyncIterator[T]]":
    async def method(self: "AsyncMnema", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        page = await self.send(build(*args, **kwargs))
        for item in page.items:
            yield item
        while page.next_cursor is not None:
            kwargs["cursor"] = page.next_cursor
            page = await self.send(build(*args, **kwargs))
            for item in page.items:
                yield item

    documented: Callable[Concatenate[AsyncMnema, P], AsyncIterator[T]] = _documented(
        method, build, "AsyncMnema", _each(AsyncIterator, build)
    )
    return documented


class Mnema:
    """Mnema, for programs that wait. Threads may share one; `with Mnema(...) as memory:` closes it.

    `base_url`, `api_key`: MNEMA_URL and MNEMA_API_KEY unless given. `timeout_s`: for connecting and for each silence of
    the server. What fails for now (no connection, 429, 502, 503, 504) is sent again as `retry` says, writes with an
    Idempotency-Key so that they are done once; `erase`, which has none, only when it surely was not begun. Every method
    raises MnemaError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        self.connection = connection(base_url, api_key, timeout_s=timeout_s, retry=retry)
        self._sender = Sender(self.connection)

    remember = _sends(calls.remember)
    add_turn = _sends(calls.add_turn)
    query = _sends(calls.query)
    get = _sends(calls.get)
    page = _sends(calls.page)
    list = _pages(calls.page)
    edit = _sends(calls.edit)
    delete = _sends(calls.delete)
    purge = _sends(calls.purge)
    restore = _sends(calls.restore)
    pin = _sends(calls.pin)
    history = _pages(calls.history)
    delta = _sends(calls.delta)
    erase = _sends(calls.erase)
    propose = _sends(consent.propose)
    proposals = _pages(consent.proposals)
    approve = _sends(consent.approve)
    reject = _sends(consent.reject)
    ask_consent = _sends(consent.ask_consent)
    context = _sends(consent.context)
    withdraw = _sends(consent.withdraw)
    event_counts = _sends(calls.event_counts)
    jobs = _pages(calls.jobs)
    job = _sends(calls.job)
    job_counts = _sends(calls.job_counts)
    health = _sends(calls.health)
    ready = _sends(calls.ready)

    def remember_many(
        self, memories: Iterable[NewMemory | Mapping[str, Any]], *, trim: bool = False
    ) -> Iterator[BulkResult]:
        """Write any number of memories, a thousand a request; one result each, in order, as they come.

        A bad one is a result with an `error` and changes nothing for the others. Nothing is sent before the results are
        asked for. After BrokenOff those without a result may be stored or not: send them again with an
        `idempotency_key` each if that matters.
        """
        for batch in batches(memories, trim=trim):
            broken: BrokenOff | None = None
            while batch.unanswered(broken):
                try:
                    for document in self._sender.lines(batch.call):
                        if result := batch.read(document):
                            yield result
                except BrokenOff as error:
                    broken = error

    def export(self, user_id: str) -> Iterator[dict[str, Any]]:
        """Everything held of a user, record by record as it comes; each has its `kind`. BrokenOff: it is incomplete."""
        return self._sender.lines(calls.export(user_id))

    def send(self, call: Call[T]) -> T:
        """Send any call; raises MnemaError."""
        return self._sender.send(call)

    def close(self) -> None:
        """Put the connections away."""
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Mnema({self.connection.base_url!r})"


class AsyncMnema:
    """The same for programs on asyncio: `async with AsyncMnema(...) as memory:`; the iterators are asynchronous."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        self.connection = connection(base_url, api_key, timeout_s=timeout_s, retry=retry)
        self._sender = AsyncSender(self.connection)

    remember = _awaits(calls.remember)
    add_turn = _awaits(calls.add_turn)
    query = _awaits(calls.query)
    get = _awaits(calls.get)
    page = _awaits(calls.page)
    list = _awaits_pages(calls.page)
    edit = _awaits(calls.edit)
    delete = _awaits(calls.delete)
    purge = _awaits(calls.purge)
    restore = _awaits(calls.restore)
    pin = _awaits(calls.pin)
    history = _awaits_pages(calls.history)
    delta = _awaits(calls.delta)
    erase = _awaits(calls.erase)
    propose = _awaits(consent.propose)
    proposals = _awaits_pages(consent.proposals)
    approve = _awaits(consent.approve)
    reject = _awaits(consent.reject)
    ask_consent = _awaits(consent.ask_consent)
    context = _awaits(consent.context)
    withdraw = _awaits(consent.withdraw)
    event_counts = _awaits(calls.event_counts)
    jobs = _awaits_pages(calls.jobs)
    job = _awaits(calls.job)
    job_counts = _awaits(calls.job_counts)
    health = _awaits(calls.health)
    ready = _awaits(calls.ready)

    async def remember_many(
        self, memories: Iterable[NewMemory | Mapping[str, Any]], *, trim: bool = False
    ) -> AsyncIterator[BulkResult]:
        """Write any number of memories, a thousand a request; as `Mnema.remember_many`."""
        for batch in batches(memories, trim=trim):
            broken: BrokenOff | None = None
            while batch.unanswered(broken):
                try:
                    async for document in self._sender.lines(batch.call):
                        if result := batch.read(document):
                            yield result
                except BrokenOff as error:
                    broken = error

    def export(self, user_id: str) -> AsyncIterator[dict[str, Any]]:
        """Everything held of a user, record by record as it comes; each has its `kind`. BrokenOff: it is incomplete."""
        return self._sender.lines(calls.export(user_id))

    async def send(self, call: Call[T]) -> T:
        """Send any call; raises MnemaError."""
        return await self._sender.send(call)

    async def close(self) -> None:
        """Put the connections away."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncMnema({self.connection.base_url!r})"
