"""Flows: generators that yield what is to be sent and get its answer, run by either client.

A flow is written once. `run_now` and `run_later` make a function of it for `Mnema` and for `AsyncMnema`.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from mnema_client.client import AsyncMnema, Mnema
from mnema_client.model_events import EventCall
from mnema_client.transport import Call
from mnema_client.turn_memory.scratchpad import Scratchpad, find_turn

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Together:
    """Calls that do not wait for each other. The answer is a list, in the order of the calls."""

    calls: tuple[Call[Any], ...]


@dataclass(frozen=True)
class Streamed:
    """A call whose answer is a stream of events. `listen` gets each one; the answer is the last one, the result."""

    events: EventCall[Any]
    listen: Callable[[Any], Awaitable[None] | None]


Step = Call[Any] | Together | Streamed
Flow = Generator[Step, Any, T]
TurnFlow = Callable[Concatenate[Scratchpad, P], Flow[T]]


class Now(Protocol[P, T_co]):
    """A function about a turn that returns its result."""

    def __call__(self, scratchpad: Scratchpad | EllipsisType = ..., *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Run the flow on the turn; `...` is the one that began in this context."""


class Later(Protocol[P, T_co]):
    """A function about a turn whose result is awaited."""

    def __call__(
        self, scratchpad: Scratchpad | EllipsisType = ..., *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T_co]:
        """Run the flow on the turn; `...` is the one that began in this context."""


def run_now(flow: TurnFlow[P, T]) -> Now[P, T]:
    """Return the function that runs a flow on a turn with `Mnema`."""

    @functools.wraps(flow)
    def run_turn(scratchpad: Scratchpad | EllipsisType = ..., *args: P.args, **kwargs: P.kwargs) -> T:
        turn = find_turn(scratchpad)
        return drive_now(turn.client, flow(turn, *args, **kwargs))

    _show_signature(run_turn, flow, "mnema_client.turn_memory.sync")
    return run_turn


def run_later(flow: TurnFlow[P, T]) -> Later[P, T]:
    """Return the function that runs a flow on a turn with `AsyncMnema`."""

    @functools.wraps(flow)
    async def run_turn(scratchpad: Scratchpad | EllipsisType = ..., *args: P.args, **kwargs: P.kwargs) -> T:
        turn = find_turn(scratchpad)
        return await drive_later(turn.client, flow(turn, *args, **kwargs))

    _show_signature(run_turn, flow, "mnema_client.turn_memory")
    return run_turn


def drive_now(client: Mnema | AsyncMnema, flow: Flow[T]) -> T:
    """Run a flow with a synchronous client; return its result."""
    if not isinstance(client, Mnema):
        raise TypeError("mnema_client.turn_memory.sync needs Mnema; with AsyncMnema use mnema_client.turn_memory")
    step = _Steps(flow)
    while step.advance():
        try:
            step.answer = _perform_now(client, step.request)
        except Exception as error:
            step.failure = error
    return step.result


async def drive_later(client: Mnema | AsyncMnema, flow: Flow[T]) -> T:
    """Run a flow with an asynchronous client; return its result."""
    if not isinstance(client, AsyncMnema):
        raise TypeError("mnema_client.turn_memory needs AsyncMnema; with Mnema use mnema_client.turn_memory.sync")
    step = _Steps(flow)
    while step.advance():
        try:
            step.answer = await _perform_later(client, step.request)
        except Exception as error:
            step.failure = error
    return step.result


class _Steps(Generic[T]):
    """The state of a flow: the step to perform, then its answer or its failure, and at last the result."""

    def __init__(self, flow: Flow[T]) -> None:
        self._flow = flow
        self.request: Step
        self.answer: Any = None
        self.failure: Exception | None = None
        self.result: T

    def advance(self) -> bool:
        """Run the flow to its next step. Return False at its end. Raise what it raises."""
        answer = self.answer
        failure = self.failure
        self.answer = self.failure = None
        try:
            self.request = self._flow.send(answer) if failure is None else self._flow.throw(failure)
        except StopIteration as end:
            self.result = end.value
            return False
        return True


def _perform_now(client: Mnema, step: Step) -> Any:
    if isinstance(step, Together):
        return [client.send(call) for call in step.calls]
    if isinstance(step, Call):
        return client.send(step)
    last = None
    for last in client.stream_events(step.events):
        if (outcome := step.listen(last)) is not None:
            if inspect.iscoroutine(outcome):
                outcome.close()
            raise TypeError(f"a listener of mnema_client.turn_memory.sync returns None, not {type(outcome).__name__}")
    return last


async def _perform_later(client: AsyncMnema, step: Step) -> Any:
    if isinstance(step, Together):
        answers = await asyncio.gather(*map(client.send, step.calls), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers
    if isinstance(step, Call):
        return await client.send(step)
    last = None
    async for last in client.stream_events(step.events):
        if inspect.isawaitable(outcome := step.listen(last)):
            await outcome
    return last


def _show_signature(function: Any, flow: Callable[..., Any], module: str) -> None:
    """Give the function the flow's parameters, with `...` as the first one's default, for help() and editors."""
    signature = inspect.signature(flow)
    first, *rest = signature.parameters.values()
    shown = first.replace(default=..., annotation=Scratchpad | EllipsisType)
    returns = flow.__annotations__["return"].__args__[-1]
    function.__signature__ = signature.replace(parameters=[shown, *rest], return_annotation=returns)
    function.__annotations__ = {**flow.__annotations__, first.name: shown.annotation, "return": returns}
    function.__module__ = module
