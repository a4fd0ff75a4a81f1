"""Regular work in the background of an open application."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

log = structlog.get_logger(__name__)


@asynccontextmanager
async def run_periodically(work: Callable[[], Awaitable[None]], interval_s: float, failure: str) -> AsyncIterator[None]:
    """Run `work` every `interval_s` seconds inside the block, and once more at its end.

    An exception is logged as the event `failure` and ends nothing, except in the last run, which raises it.
    """
    stopping = asyncio.Event()

    async def repeat_work() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await stopping.wait()
            try:
                await work()
            except Exception:  # the next run may succeed
                log.exception(failure)

    task = asyncio.create_task(repeat_work())
    try:
        yield
    finally:
        stopping.set()
        await task
        await work()
