"""The folders below some roots that are to be watched. Links are not followed."""

import os
import stat
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from app.domain.errors import MnemaError
from app.domain.sources.folder import SourceRoot
from app.domain.sources.paths import find_path_problem, leaves_out
from app.providers.descriptors import open_inner

T = TypeVar("T")
OpenRoot: TypeAlias = Callable[[SourceRoot], AbstractContextManager[tuple[str, int]]]


class RunInThread(Protocol):
    """A function that runs blocking work in a thread. The event is set when nobody waits for it any more."""

    def __call__(self, work: Callable[[threading.Event], T]) -> Awaitable[T]:
        """Return the result of `work`."""


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """The folders below a root. `identity` is the root's device and inode. `too_many`: more than can be watched."""

    identity: tuple[int, int]
    folders: tuple[str, ...]
    too_many: bool = False


class WatchPlanner:
    """The finder of the folders to watch. It works in threads."""

    def __init__(self, open_root: OpenRoot, run_in_thread: RunInThread) -> None:
        self._open_root = open_root
        self._run_in_thread = run_in_thread

    async def plan_roots(
        self, roots: Collection[SourceRoot], kept: Mapping[SourceRoot, FolderPlan], most: int
    ) -> dict[SourceRoot, FolderPlan]:
        """Return the plans of the roots that are there. A plan in `kept` stays if its root is the same folder."""

        def plan_all(stopped: threading.Event) -> dict[SourceRoot, FolderPlan]:
            plans = {}
            for root in roots:
                if not stopped.is_set():
                    with suppress(MnemaError, OSError):
                        plans[root] = self._plan_root(root, kept.get(root), most)
            return plans

        return await self._run_in_thread(plan_all)

    async def find_folders(self, paths: Sequence[str]) -> list[str]:
        """Return the paths that are folders and no links."""

        def check_paths(_stopped: threading.Event) -> list[str]:
            return [path for path in paths if _is_folder(path)]

        return await self._run_in_thread(check_paths) if paths else []

    def _plan_root(self, root: SourceRoot, kept: FolderPlan | None, most: int) -> FolderPlan:
        with self._open_root(root) as (path, descriptor):
            status = os.fstat(descriptor)
            identity = status.st_dev, status.st_ino
            if kept is not None and kept.identity == identity:
                return kept
            folders: list[str] = []
            for folder in _walk_folders(descriptor, path, ""):
                if len(folders) == most:
                    return FolderPlan(identity, (), too_many=True)
                folders.append(folder)
            return FolderPlan(identity, tuple(sorted(folders)))


def owners_of(
    plans: Mapping[SourceRoot, FolderPlan], most: int
) -> tuple[dict[str, set[SourceRoot]], frozenset[SourceRoot]]:
    """Return the roots of each folder to watch, of at most `most` folders, and the roots for which there is no room.

    Small roots come first.
    """
    owners: dict[str, set[SourceRoot]] = defaultdict(set)
    unwatched = set()
    for root, plan in sorted(plans.items(), key=lambda item: (len(item[1].folders), item[0].path)):
        if plan.too_many or len(owners.keys() | plan.folders) > most:
            unwatched.add(root)
            continue
        for folder in plan.folders:
            owners[folder].add(root)
    return dict(owners), frozenset(unwatched)


def _walk_folders(descriptor: int, root: str, below: str) -> Iterator[str]:
    """Yield the path of an open folder and of all folders below it that can be read and whose path can be used."""
    yield f"{root}/{below}" if below else root
    with os.scandir(descriptor) as entries:
        names = [entry.name for entry in entries if not leaves_out(entry.name) and entry.is_dir(follow_symlinks=False)]
    for name in names:
        path = f"{below}/{name}" if below else name
        if find_path_problem(path):  # so has every file in it
            continue
        with suppress(OSError):
            inner = open_inner(descriptor, name)
            try:
                yield from _walk_folders(inner, root, path)
            finally:
                os.close(inner)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
