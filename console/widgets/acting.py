"""A change of something that the page shows."""

from collections.abc import Awaitable, Callable

from mnema_client import Conflict, NotFound, VersionConflict

from console.context import PageContext


async def change_and_reload(
    page: PageContext, work: Awaitable[object], done: str, reload: Callable[[], Awaitable[object]]
) -> None:
    """Await a call of the API that changes something, then load again.

    Load again also if the API refuses because the page is not up to date. `work` returns something other than None.
    """
    outdated = False

    async def watch() -> object:
        nonlocal outdated
        try:
            return await work
        except (Conflict, NotFound, VersionConflict):
            outdated = True
            raise

    if await page.attempt(watch(), done) is not None or outdated:
        await reload()
