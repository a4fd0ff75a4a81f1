"""Methods of the clients, made from the calls of `mnema_client.calls` and its neighbours."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, get_args

from mnema_wire.bases import Page
from pydantic import BaseModel

from mnema_client.model_events import EventCall, Restart, TextDelta
from mnema_client.transport import Call

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
CLIENT_MODULE = "mnema_client.client"


class Sends(Protocol):
    """A client that sends a call and waits for its result."""

    def send(self, call: Call[T]) -> T:
        """Send the call; return its result."""


class SendsLater(Protocol):
    """A client whose results are awaited."""

    async def send(self, call: Call[T]) -> T:
        """Send the call; return its result."""


class Streams(Protocol):
    """A client that yields the events of a call."""

    def stream_events(self, events: EventCall[M]) -> Iterator[TextDelta | Restart | M]:
        """Send the call; yield its events."""


class StreamsLater(Protocol):
    """A client whose events are awaited."""

    def stream_events(self, events: EventCall[M]) -> AsyncIterator[TextDelta | Restart | M]:
        """Send the call; yield its events."""


def _copy_signature(method: Any, build: Callable[..., Any], owner: str, returns: Any) -> Any:
    """Give `method` the name, docstring and arguments of `build`, with `self` in front; return it."""
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [first, *signature.parameters.values()]
    method.__signature__ = signature.replace(parameters=parameters, return_annotation=returns)
    method.__annotations__ = {**build.__annotations__, "return": returns}
    method.__module__ = CLIENT_MODULE
    method.__qualname__ = f"{owner}.{build.__name__}"
    return method


def _answer_type(build: Callable[..., Any]) -> Any:
    """Return the type of the result of the call that `build` makes."""
    return get_args(build.__annotations__["return"])[0]


def _iterator_type(iterator: Any, build: Callable[..., Any]) -> Any:
    """Return the type of an iterator of the items of the pages."""
    return iterator[get_args(_answer_type(build).model_fields["items"].annotation)[0]]


def _events_type(iterator: Any, build: Callable[..., Any]) -> Any:
    """Return the type of an iterator of the events of a call."""
    return iterator[TextDelta | Restart | _answer_type(build)]


def sync_method(build: Callable[P, Call[T]]) -> Callable[Concatenate[Sends, P], T]:
    """Return a method of `Mnema` that sends the call and returns its result."""

    def send_call(self: Sends, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    documented: Callable[Concatenate[Sends, P], T] = _copy_signature(send_call, build, "Mnema", _answer_type(build))
    return documented


def sync_pages(build: Callable[P, Call[Page[T]]]) -> Callable[Concatenate[Sends, P], Iterator[T]]:
    """Return a method of `Mnema` that yields the items of all pages."""

    def iterate_items(self: Sends, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        page = self.send(build(*args, **kwargs))
        yield from page.items
        while page.next_cursor is not None:
            kwargs["cursor"] = page.next_cursor
            page = self.send(build(*args, **kwargs))
            yield from page.items

    documented: Callable[Concatenate[Sends, P], Iterator[T]] = _copy_signature(
        iterate_items, build, "Mnema", _iterator_type(Iterator, build)
    )
    return documented


def async_method(build: Callable[P, Call[T]]) -> Callable[Concatenate[SendsLater, P], Coroutine[Any, Any, T]]:
    """Return a method of `AsyncMnema` that sends the call and returns its result."""

    async def send_call(self: SendsLater, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    documented: Callable[Concatenate[SendsLater, P], Coroutine[Any, Any, T]] = _copy_signature(
        send_call, build, "AsyncMnema", _answer_type(build)
    )
    return documented


def async_pages(build: Callable[P, Call[Page[T]]]) -> Callable[Concatenate[SendsLater, P], AsyncIterator[T]]:
    """Return a method of `AsyncMnema` that yields the items of all pages."""

    async def iterate_items(self: SendsLater, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        page = await self.send(build(*args, **kwargs))
        for item in page.items:
            yield item
        while page.next_cursor is not None:
            kwargs["cursor"] = page.next_cursor
            page = await self.send(build(*args, **kwargs))
            for item in page.items:
                yield item

    documented: Callable[Concatenate[SendsLater, P], AsyncIterator[T]] = _copy_signature(
        iterate_items, build, "AsyncMnema", _iterator_type(AsyncIterator, build)
    )
    return documented


def sync_events(
    build: Callable[P, EventCall[M]],
) -> Callable[Concatenate[Streams, P], Iterator[TextDelta | Restart | M]]:
    """Return a method of `Mnema` that yields the events of the call, the result last."""

    def iterate_events(self: Streams, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[TextDelta | Restart | M]:
        return self.stream_events(build(*args, **kwargs))

    documented: Callable[Concatenate[Streams, P], Iterator[TextDelta | Restart | M]] = _copy_signature(
        iterate_events, build, "Mnema", _events_type(Iterator, build)
    )
    return documented


def async_events(
    build: Callable[P, EventCall[M]],
) -> Callable[Concatenate[StreamsLater, P], AsyncIterator[TextDelta | Restart | M]]:
    """Return a method of `AsyncMnema` that yields the events of the call, the result last."""

    def iterate_events(
        self: StreamsLater, /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[TextDelta | Restart | M]:
        return self.stream_events(build(*args, **kwargs))

    documented: Callable[Concatenate[StreamsLater, P], AsyncIterator[TextDelta | Restart | M]] = _copy_signature(
        iterate_events, build, "AsyncMnema", _events_type(AsyncIterator, build)
    )
    return documented
