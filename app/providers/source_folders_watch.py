"""The watch over the folders of sources, by `watchfiles`.

Each folder is watched on its own, because the library's recursive watch would follow links out of a root. Folders that
are left out of sources are not watched either.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import structlog
from watchfiles import Change, watch

from app.domain.sources.folder import SourceRoot
from app.domain.sources.paths import leaves_out
from app.providers.source_folders_plan import FolderPlan, WatchPlanner, owners_of

TICK_S: Final = 1.0
CHECK_S: Final = 5.0
"""Interval at which roots are looked for that are missing or were replaced, as a mount may be."""
RETRY_S: Final = 300.0
"""Time after which a root is watched again for which the system had no watches, or that the library cannot watch."""
DEBOUNCE_MS: Final = 1_000
STEP_MS: Final = 100
WATCHES: Final = Path("/proc/sys/fs/inotify/max_user_watches")
USUAL_WATCHES: Final = 8_192
Changes: TypeAlias = set[tuple[Change, str]]

log = structlog.get_logger(__name__)


class _Notifier:
    """A thread that passes on the changes inside some folders. The first thing it passes on says that it watches."""

    def __init__(self, folders: Sequence[str], passed: "asyncio.Queue[tuple[_Notifier, Changes | Exception]]") -> None:
        self._folders = folders
        self._passed = passed
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch_folders, name="folder-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopping.set()

    def _watch_folders(self) -> None:
        try:
            for changes in watch(
                *self._folders,
                watch_filter=None,
                debounce=DEBOUNCE_MS,
                step=STEP_MS,
                stop_event=self._stopping,
                rust_timeout=int(TICK_S * 1_000),
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=False,
                ignore_permission_denied=True,
            ):
                self._pass_on(changes)
        except Exception as error:  # the library's own errors have no public type
            self._pass_on(error)

    def _pass_on(self, changes: Changes | Exception) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._passed.put_nowait, (self, changes))


class FolderWatch:
    """A watch over the folders below some roots, which may change, vanish and return.

    A new notifier replaces the old one once it watches, so that no change is missed between the two.
    """

    def __init__(self, planner: WatchPlanner) -> None:
        self._planner = planner
        self._most = self._limit = _read_limit()
        self._retry_at = 0.0
        self._barred: dict[SourceRoot, float] = {}
        self._plans: dict[SourceRoot, FolderPlan] = {}
        self._owners: dict[str, set[SourceRoot]] = {}
        self._unwatched: frozenset[SourceRoot] = frozenset()
        self._passed: asyncio.Queue[tuple[_Notifier, Changes | Exception]] = asyncio.Queue()
        self._current: _Notifier | None = None
        self._former: list[_Notifier] = []
        self._waiting: set[SourceRoot] = set()
        self._dirty: set[SourceRoot] = set()

    async def watch_roots(self, roots: Callable[[], Collection[SourceRoot]]) -> AsyncGenerator[set[SourceRoot], None]:
        """Yield the roots below which something changed, or that are new or there again, at least every TICK_S."""
        loop = asyncio.get_running_loop()
        checked = -CHECK_S
        known = frozenset[SourceRoot]()
        try:
            while True:
                wanted = frozenset(roots())
                if self._dirty or wanted != known or loop.time() - checked >= CHECK_S:
                    await self._plan_anew(wanted, loop.time())
                    checked = loop.time()
                    known = wanted
                yield await self._next_roots(loop.time())
        finally:
            for notifier in (*self._former, self._current):
                if notifier is not None:
                    notifier.stop()

    async def _plan_anew(self, wanted: frozenset[SourceRoot], now: float) -> None:
        """Look for the folders below the roots, and watch them anew if they are not those that are watched."""
        dirty, self._dirty = self._dirty, set()
        if self._most < self._limit and now >= self._retry_at:
            self._most = self._limit
            dirty |= self._unwatched
        kept = {root: plan for root, plan in self._plans.items() if root not in dirty}
        self._barred = {root: until for root, until in self._barred.items() if until > now}
        plans = await self._planner.plan_roots(wanted - self._barred.keys(), kept, self._most)
        renewed = {root for root, plan in plans.items() if root in dirty or plan != self._plans.get(root)}
        self._waiting = (self._waiting | renewed) & plans.keys()
        self._plans = plans
        watched, unwatched = owners_of(plans, self._most)
        if new := unwatched - self._unwatched:
            log.warning("folders_not_watched", roots=len(new), most=self._most)
        self._unwatched = unwatched
        if renewed or watched.keys() != self._owners.keys():  # a new folder may have the path of another
            self._start_notifier(watched)
        self._owners = watched

    def _start_notifier(self, owners: Iterable[str]) -> None:
        if self._current is not None:
            self._former.append(self._current)
        folders = sorted(owners)
        self._current = _Notifier(folders, self._passed) if folders else None
        if self._current is None:
            self._stop_former()

    async def _next_roots(self, now: float) -> set[SourceRoot]:
        """Wait for changes and return the roots that they are in, with those that waited for the watch to begin."""
        changed: set[SourceRoot] = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_S):
                notifier, changes = await self._passed.get()
            if isinstance(changes, Exception):
                if notifier is self._current:
                    changed = self._take_failure(changes, now)
            else:
                changed = await self._take_changes(changes)
                if notifier is self._current:
                    self._stop_former()
        if not self._former:
            changed |= self._waiting
            self._waiting = set()
        return changed

    async def _take_changes(self, changes: Changes) -> set[SourceRoot]:
        """Return the roots that changes are in. Have a root planned anew that has another folder now."""
        changed: set[SourceRoot] = set()
        seen = [(change, path) for change, path in changes if not leaves_out(os.path.basename(path))]
        for change, path in seen:
            roots = self._owners.get(os.path.dirname(path), set())
            if change is Change.deleted and path in self._owners:
                self._dirty |= roots | self._owners[path]
            changed |= roots
        added = [path for change, path in seen if change is Change.added]
        for path in await self._planner.find_folders(added):
            self._dirty |= self._owners.get(os.path.dirname(path), set())
        return changed

    def _take_failure(self, error: Exception, now: float) -> set[SourceRoot]:
        """Have all roots planned anew, and return those that are not watched for a while.

        The library fails at a name that is not UTF-8, and names its path: only the root of that path is left out. If
        the system has no more watches, fewer folders are watched.
        """
        self._current = None
        self._stop_former()
        self._dirty = set(self._plans)
        if isinstance(error, FileNotFoundError):  # a folder vanished before it was watched
            return set()
        barred = self._find_roots(str(error)) if isinstance(error, RuntimeError) else set()
        log.warning("folder_watch_failed", error=type(error).__name__, folders=len(self._owners), roots=len(barred))
        self._barred |= dict.fromkeys(barred, now + RETRY_S)
        if not barred:
            self._most, self._retry_at = len(self._owners) // 2, now + RETRY_S
        return barred

    def _find_roots(self, message: str) -> set[SourceRoot]:
        """Return the roots of the folder that a message quotes as the beginning of a path."""
        folders = [folder for folder in self._owners if f'"{folder}/' in message]
        return self._owners[max(folders, key=len)] if folders else set()

    def _stop_former(self) -> None:
        for notifier in self._former:
            notifier.stop()
        self._former = []


def _read_limit() -> int:
    """Return how many folders may be watched: half of what the system allows to a user."""
    try:
        return int(WATCHES.read_text()) // 2
    except (OSError, ValueError):
        return USUAL_WATCHES
