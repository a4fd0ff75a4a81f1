"""The watch over folders: what is noticed, what is not, and what happens when the system refuses."""

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.domain.sources.folder import SourceRoot
from app.providers import source_folders_watch
from app.providers.source_folders import PosixSourceFolders
from tests.sources.conftest import TENANT

SOON_S = 120
NOBODY = SourceRoot(TENANT, "/")


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter intervals than those of a worker."""
    monkeypatch.setattr(source_folders_watch, "TICK_S", 0.2)
    monkeypatch.setattr(source_folders_watch, "CHECK_S", 0.2)
    monkeypatch.setattr(source_folders_watch, "DEBOUNCE_MS", 200)
    monkeypatch.setattr(source_folders_watch, "STEP_MS", 50)


class Watched:
    """The roots that a watch has yielded since they were last asked for."""

    def __init__(self) -> None:
        self.changed: set[SourceRoot] = set()
        self.ticks = 0

    async def see(self, root: SourceRoot) -> None:
        """Wait until the root is yielded, and forget it."""
        async with asyncio.timeout(SOON_S):
            while root not in self.changed:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await self.settle()

    async def settle(self) -> None:
        """Forget what is yielded until nothing is yielded for some seconds."""
        async with asyncio.timeout(SOON_S):
            self.changed.add(NOBODY)
            while self.changed:
                self.changed = set()
                await asyncio.sleep(1.0)

    async def see_nothing(self) -> None:
        """Check that three ticks yield nothing."""
        seen = self.ticks
        while self.ticks < seen + 4:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert self.changed == set()


@asynccontextmanager
async def watching(folders: PosixSourceFolders, roots: Callable[[], Collection[SourceRoot]]) -> AsyncIterator[Watched]:
    watched = Watched()

    async def collect() -> None:
        async with aclosing(folders.watch_folders(roots)) as changes:
            async for changed in changes:
                watched.changed |= changed
                watched.ticks += 1

    task = asyncio.create_task(collect())
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.long
async def test_changes_are_noticed(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    (docs / "a").mkdir()
    (docs / "a/b.md").write_text("one")
    async with watching(folders, lambda: [root]) as watched:
        await watched.see(root)  # it is new
        (docs / "a/b.md").write_text("two")
        await watched.see(root)
        os.replace(docs / "a/b.md", docs / "c.md")
        await watched.see(root)
        (docs / "new/deep").mkdir(parents=True)
        await watched.see(root)
        (docs / "new/deep/d.md").write_text("in a folder that is new")
        await watched.see(root)
        shutil.rmtree(docs / "new")
        await watched.see(root)
        await folders.scan_folder(root, (), (), 9)
        await folders.read_file(root, "c.md", 9)
        await watched.see_nothing()  # reading changes nothing, so no job causes the next one


async def test_what_is_left_out_is_not_watched(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path, outside: Path
) -> None:
    (docs / ".git").mkdir()
    (docs / "link").symlink_to(outside)
    async with watching(folders, lambda: [root]) as watched:
        await watched.see(root)
        (docs / ".git/HEAD").write_text("x")
        (docs / ".a.swp").write_text("x")
        (outside / "b.md").write_text("x")
        await watched.see_nothing()


@pytest.mark.long
async def test_a_name_that_the_library_cannot_take_stops_no_other_watch(
    folders: PosixSourceFolders, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_folders_watch, "RETRY_S", 8.0)
    bad, good = SourceRoot(TENANT, f"{docs}/bad"), SourceRoot(TENANT, f"{docs}/good")
    for name in ("bad/a", "good/a"):
        (docs / name).mkdir(parents=True)
    (docs / os.fsdecode(b"good/\xff\n")).mkdir()
    async with watching(folders, lambda: [bad, good]) as watched:
        await watched.see(good)
        (docs / os.fsdecode(b"bad/a/\xfe.md")).write_text("not UTF-8")
        await watched.see(bad)
        (docs / "good/a/b.md").write_text("another root")
        await watched.see(good)
        await watched.see(bad)  # it is watched again
        (docs / "bad/a/b.md").write_text("again")
        await watched.see(bad)


@pytest.mark.long
async def test_a_cancellation_beside_a_change_ends_the_watch(
    folders: PosixSourceFolders, root: SourceRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, passed = threading.Event(), threading.Event()

    def watch_once(*_folders: str, stop_event: threading.Event, **_options: object) -> Iterator[set[object]]:
        yield set()
        now.wait()
        yield set()
        passed.set()
        stop_event.wait()

    monkeypatch.setattr(source_folders_watch, "watch", watch_once)
    for steps in range(8):
        async with watching(folders, lambda: [root]) as watched:
            await watched.see(root)
            now.set()
            passed.wait()  # blocks the loop, so that the steps below are counted from the change
            for _ in range(steps):
                await asyncio.sleep(0)
        now.clear()
        passed.clear()


@pytest.mark.long
async def test_roots_come_and_go(folders: PosixSourceFolders, docs: Path) -> None:
    one, other, missing = (SourceRoot(TENANT, f"{docs}/{name}") for name in ("one", "other", "missing"))
    for name in ("one", "other"):
        (docs / name).mkdir()
    roots = [one, missing]
    async with watching(folders, lambda: roots) as watched:
        await watched.see(one)
        roots.append(other)
        await watched.see(other)
        (docs / "missing").mkdir()
        await watched.see(missing)
        shutil.rmtree(docs / "one")
        await watched.settle()
        (docs / "one").mkdir()
        await watched.see(one)
        (docs / "one/a.md").write_text("back")
        await watched.see(one)
        roots.remove(other)
        await watched.settle()
        (docs / "other/a.md").write_text("no longer a root")
        await watched.see_nothing()


@pytest.mark.long
async def test_a_replaced_root_is_noticed(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    async with watching(folders, lambda: [root]) as watched:
        await watched.see(root)
        os.rename(docs, docs.with_name("before"))
        os.mkdir(docs)
        await watched.see(root)
        (docs / "a.md").write_text("new")
        await watched.see(root)


@pytest.mark.long
async def test_roots_that_need_too_many_watches_are_left_out_once(
    folders: PosixSourceFolders, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_folders_watch, "_read_limit", lambda: 3)
    large, small = SourceRoot(TENANT, f"{docs}/large"), SourceRoot(TENANT, f"{docs}/small")
    for number in range(3):
        (docs / f"large/{number}").mkdir(parents=True)
    (docs / "small").mkdir()
    with capture_logs() as logs:
        async with watching(folders, lambda: [large, small]) as watched:
            await watched.see(small)
            (docs / "large/0/a.md").write_text("not noticed")
            await watched.see_nothing()
            (docs / "small/a.md").write_text("noticed")
            await watched.see(small)
    assert [line["event"] for line in logs] == ["folders_not_watched"]


@pytest.mark.long
async def test_a_system_without_watches(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_folders: str, **_options: object) -> None:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr(source_folders_watch, "watch", refuse)
    with capture_logs() as logs:
        async with watching(folders, lambda: [root]) as watched:
            await watched.see(root)
            (docs / "a.md").write_text("left to the next scan")
            await watched.see_nothing()
    assert [line["event"] for line in logs] == ["folder_watch_failed", "folders_not_watched"]
