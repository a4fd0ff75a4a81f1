"""Work of one thread beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

T = TypeVar("T")
LARGE = 64 << 10
_THREAD = ThreadPoolExecutor(1, "aside")


async def offload_if_large(size: int, work: Callable[..., T], *args: object) -> T:
    """Return `work(*args)`. If it reads more than LARGE bytes (`size`), it is done in a thread of which there is one.

    Decoders keep the interpreter's lock. Many threads of them would take it in turn and leave the event loop a share of
    many; beside one, it waits for one call at most.
    """
    if size <= LARGE:
        return work(*args)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(work, *args))
