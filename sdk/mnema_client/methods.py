"""The base of the clients, and their methods, made from the calls of `mnema_client.calls` and its neighbours."""

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic, ParamSpec, Self, TypeVar, get_args, overload

from mnema_wire.bases import Page
from pydantic import BaseModel

from mnema_client.model_events import EventCall, Restart, TextDelta
from mnema_client.transport import AsyncSender, Call, Connection, Sender

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Now = TypeVar("Now")
Later = TypeVar("Later")


class SyncClient:
    """A client that waits for each result."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._sender = Sender(connection)

    def send(self, call: Call[T]) -> T:
        """Send any call and return its result. Raise MnemaError."""
        return self._sender.send(call)

    def stream_events(self, events: EventCall[M]) -> Iterator[TextDelta | Restart | M]:
        """Send a call whose response is a stream of events; yield them, the result last. Raise MnemaError."""
        last = None
        for document in self._sender.stream_documents(events.call):
            if (event := events.read_event(document)) is not None:
                yield (last := event)
        events.check_end(last)

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.connection.base_url!r})"


class AsyncClient:
    """A client whose results are awaited."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._sender = AsyncSender(connection)

    async def send(self, call: Call[T]) -> T:
        """Send any call and return its result. Raise MnemaError."""
        return await self._sender.send(call)

    async def stream_events(self, events: EventCall[M]) -> AsyncIterator[TextDelta | Restart | M]:
        """Send a call whose response is a stream of events; yield them, the result last. Raise MnemaError."""
        last = None
        async for document in self._sender.stream_documents(events.call):
            if (event := events.read_event(document)) is not None:
                yield (last := event)
        events.check_end(last)

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.connection.base_url!r})"


class SharedMethod(ABC, Generic[P, Now, Later]):
    """A method of both kinds of client, with the name, docstring and arguments of the function that builds its call.

    A synchronous client returns `Now`, an asynchronous one `Later`.
    """

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build
        self._made: dict[type, Any] = {}

    @overload
    def __get__(self, client: SyncClient, owner: type) -> Callable[P, Now]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Later]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        made = self._made.get(owner)
        if made is None:
            made = self._made[owner] = self._make_method(owner)
        return made if client is None else made.__get__(client)

    def _make_method(self, owner: type) -> Any:
        build = self._build
        method, returns = self._write_method(
            get_args(build.__annotations__["return"])[0], issubclass(owner, AsyncClient)
        )
        functools.update_wrapper(method, build)
        signature = inspect.signature(build)
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        parameters = [first, *signature.parameters.values()]
        method.__signature__ = signature.replace(parameters=parameters, return_annotation=returns)
        method.__annotations__ = {**build.__annotations__, "return": returns}
        method.__module__ = owner.__module__
        method.__qualname__ = f"{owner.__qualname__}.{build.__name__}"
        return method

    @abstractmethod
    def _write_method(self, answer: Any, awaited: bool) -> tuple[Any, Any]:
        """Return the method for one kind of client and what it returns. `answer`: the type of the call's result."""


class Method(SharedMethod[P, T, Coroutine[Any, Any, T]]):
    """A method that sends the call and returns its result."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        super().__init__(build)

    def _write_method(self, answer: Any, awaited: bool) -> tuple[Any, Any]:
        build = self._build

        def send_call(self: SyncClient, /, *args: Any, **kwargs: Any) -> Any:
            return self.send(build(*args, **kwargs))

        async def await_call(self: AsyncClient, /, *args: Any, **kwargs: Any) -> Any:
            return await self.send(build(*args, **kwargs))

        return await_call if awaited else send_call, answer


class PagesMethod(SharedMethod[P, Iterator[T], AsyncIterator[T]]):
    """A method that yields the items of all pages."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        super().__init__(build)

    def _write_method(self, answer: Any, awaited: bool) -> tuple[Any, Any]:
        build = self._build

        def iterate_items(self: SyncClient, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
            page = self.send(build(*args, **kwargs))
            yield from page.items
            while page.next_cursor is not None:
                kwargs["cursor"] = page.next_cursor
                page = self.send(build(*args, **kwargs))
                yield from page.items

        async def await_items(self: AsyncClient, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            page = await self.send(build(*args, **kwargs))
            for item in page.items:
                yield item
            while page.next_cursor is not None:
                kwargs["cursor"] = page.next_cursor
                page = await self.send(build(*args, **kwargs))
                for item in page.items:
                    yield item

        item: Any = get_args(answer.model_fields["items"].annotation)[0]
        return (await_items, AsyncIterator[item]) if awaited else (iterate_items, Iterator[item])


class EventsMethod(SharedMethod[P, Iterator[TextDelta | Restart | M], AsyncIterator[TextDelta | Restart | M]]):
    """A method that yields the events of the call, the result last."""

    def __init__(self, build: Callable[P, EventCall[M]]) -> None:
        super().__init__(build)

    def _write_method(self, answer: Any, awaited: bool) -> tuple[Any, Any]:
        build = self._build

        def iterate_events(self: SyncClient | AsyncClient, /, *args: Any, **kwargs: Any) -> Any:
            return self.stream_events(build(*args, **kwargs))

        event: Any = TextDelta | Restart | answer
        return iterate_events, AsyncIterator[event] if awaited else Iterator[event]
