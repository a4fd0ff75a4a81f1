"""A plugin that limits the time of a test's setup, call and teardown, so that one that hangs fails and others go on.

The failure names the test and shows where it waited: an asynchronous test or fixture is cancelled at its limit, so its
traceback is the chain of what it awaited. A section of the report has the other tasks of the loop. What else hangs, as
at a lock, ends by an alarm a little later. Only work that never returns to Python is left to pytest's faulthandler.
"""

import asyncio
import functools
import inspect
import signal
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic  # by its name: a test may replace the clock in the module
from types import FrameType
from typing import Any, Final

import pytest

from tests.effort import DEEP

QUICK_S: Final = 300
LONG_S: Final = 1500 if DEEP else 600
GRACE_S: Final = 30
"""The most seconds that a cancelled test has to clean up until the alarm ends that too."""
WAITING: Final = ("cr_await", "gi_yieldfrom", "ag_await")
FRAMES: Final = ("cr_frame", "gi_frame", "ag_frame")
NOTHING_MORE: Final = object()


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker, and the limits unless a debugger runs, where a person takes the time."""
    config.addinivalue_line("markers", f"time_limit(seconds): for each of setup, call and teardown, not {QUICK_S} s")
    if not (config.getoption("usepdb") or config.getoption("trace")):
        config.pluginmanager.register(TimeLimits(), "time-limits")


def limit_of(item: pytest.Item) -> float:
    """Return the seconds that each phase of a test may take."""
    if (marker := item.get_closest_marker("time_limit")) is not None:
        seconds: float = marker.args[0]
        return seconds
    return LONG_S if item.get_closest_marker("long") is not None else QUICK_S


class TimeLimitReached(BaseException):
    """A test was still running at its time limit. No handler of errors catches it, nor does Hypothesis try again."""


class Phase:
    """The setup, call or teardown of a test."""

    def __init__(self, item: pytest.Item, name: str) -> None:
        self.item, self.name, self.limit = item, name, limit_of(item)
        self.deadline = monotonic() + self.limit

    def failure(self) -> TimeLimitReached:
        """Return the error of a phase that takes too long."""
        return TimeLimitReached(f"the {self.name} of {self.item.nodeid} took over {self.limit:g} s")

    @contextmanager
    def alarmed(self) -> Iterator[None]:
        """Raise the failure in the main thread a little after the limit, again and again until the phase ends."""

        def fail(_number: int, _frame: FrameType | None) -> None:
            __tracebackhide__ = True
            raise self.failure()

        grace = min(self.limit / 4, GRACE_S)
        before = signal.signal(signal.SIGALRM, fail)
        signal.setitimer(signal.ITIMER_REAL, self.limit + grace, grace)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """Cancel the work within at the limit, and raise the failure from the cancellation."""
        __tracebackhide__ = True
        loop = asyncio.get_running_loop()

        def end() -> None:
            self.item.add_report_section(self.name, "tasks", describe_tasks(loop))
            limit.reschedule(loop.time())

        try:
            async with asyncio.timeout(None) as limit:
                ending = loop.call_later(self.deadline - monotonic(), end)
                try:
                    yield
                finally:
                    ending.cancel()
        except TimeoutError as error:
            if limit.expired():
                raise self.failure() from error.__cause__  # the cancellation, whose traceback has the place
            raise


class TimeLimits:
    """The hooks of one process, which runs one phase at a time."""

    def __init__(self) -> None:
        self._phase: Phase | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Limit the fixtures' start."""
        __tracebackhide__ = True
        with self._entered(item, "setup"):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Limit the test itself."""
        __tracebackhide__ = True
        with self._entered(item, "call"), pytest.MonkeyPatch.context() as patch:
            if isinstance(item, pytest.Function):
                # Hypothesis calls the coroutine function for each example
                examined = getattr(item.obj, "is_hypothesis_test", False)
                holder, name = (item.obj.hypothesis, "inner_test") if examined else (item, "obj")
                if inspect.iscoroutinefunction(test := getattr(holder, name)):
                    patch.setattr(holder, name, self._limit_coroutines(test))
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Limit the fixtures' end."""
        __tracebackhide__ = True
        with self._entered(item, "teardown"):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[object]:
        """Limit both ends of an asynchronous fixture, before pytest-asyncio replaces its function in the same way."""
        __tracebackhide__ = True
        with pytest.MonkeyPatch.context() as patch:
            if inspect.isasyncgenfunction(fixturedef.func):
                patch.setattr(fixturedef, "func", self._limit_generators(fixturedef.func))
            elif inspect.iscoroutinefunction(fixturedef.func):
                patch.setattr(fixturedef, "func", self._limit_coroutines(fixturedef.func))
            return (yield)

    @contextmanager
    def _entered(self, item: pytest.Item, name: str) -> Iterator[None]:
        self._phase = Phase(item, name)
        with self._phase.alarmed():
            yield

    def _limit_coroutines(self, function: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        @functools.wraps(function)
        async def limited(*args: object, **kwargs: object) -> object:
            __tracebackhide__ = True
            assert self._phase is not None
            async with self._phase.limited():
                return await function(*args, **kwargs)

        return limited

    def _limit_generators(self, function: Callable[..., AsyncIterator[object]]) -> Callable[..., AsyncIterator[object]]:
        @functools.wraps(function)
        async def limited(*args: object, **kwargs: object) -> AsyncIterator[object]:
            __tracebackhide__ = True
            values = function(*args, **kwargs)
            assert self._phase is not None
            async with self._phase.limited():
                value = await anext(values)
            yield value
            async with self._phase.limited():  # of the test that ends the fixture
                value = await anext(values, NOTHING_MORE)
            if value is not NOTHING_MORE:
                yield value  # pytest-asyncio tells that a fixture yields once

        return limited


def describe_tasks(loop: asyncio.AbstractEventLoop) -> str:
    """Return where each task of a loop waits."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    return "\n".join(f"{task.get_name()}\n{_awaited_lines(task.get_coro())}" for task in tasks)


def _awaited_lines(awaitable: object) -> str:
    frames = []
    while awaitable is not None:
        frame = _first_attribute(awaitable, FRAMES)
        if isinstance(frame, FrameType):
            frames.append((frame, frame.f_lineno))
        awaitable = _first_attribute(awaitable, WAITING)
    return "".join(traceback.StackSummary.extract(iter(frames)).format())


def _first_attribute(owner: object, names: tuple[str, ...]) -> object:
    return next((getattr(owner, name) for name in names if hasattr(owner, name)), None)
