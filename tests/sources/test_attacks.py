"""Attacks by whoever writes into a source's folder: nothing outside is read, and every scan ends."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from app.domain.errors import InvalidInput, MnemaError, RootNotAllowed, RootUnavailable, TooManyFiles
from app.domain.sources.folder import FileContent, FolderScan, SourceRoot
from app.domain.sources.rejection import Rejection, RejectionReason
from app.providers.source_folders import PosixSourceFolders
from tests.conftest import roomy_memory
from tests.effort import DEEP as DEEP_PROFILE
from tests.sources.conftest import TENANT
from tests.sources.hostile_folder import GOOD, REASONS, make_hostile_folder

RACE_S = 20 if DEEP_PROFILE else 4


async def scan(folders: PosixSourceFolders, root: SourceRoot, most: int = 1_000) -> FolderScan:
    return await folders.scan_folder(root, (), (), most)


@pytest.mark.long
async def test_a_folder_full_of_attacks_is_scanned(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path, outside: Path
) -> None:
    make_hostile_folder(docs, outside)
    found = await scan(folders, root)
    by_path = {file.path: file for file in found.files}
    deep = by_path.keys() - GOOD - REASONS.keys()
    assert by_path.keys() >= GOOD | REASONS.keys()
    assert [by_path[path].problem.reason for path in deep if by_path[path].problem] == [RejectionReason.UNUSABLE_NAME]
    for path in REASONS:
        problem, expected = by_path[path].problem, REASONS[path]
        assert (problem is not None and problem.reason == expected) or expected not in ("not_a_file", "unusable_name")
    for path in ("pipe.txt", "device.txt", "socket.txt", "link.md", "linked", "linked/secret.md"):
        result = await folders.read_file(root, path, 1 << 20)
        assert isinstance(result, Rejection), path
    sparse = await folders.read_file(root, "sparse.txt", 1 << 20)
    assert isinstance(sparse, Rejection)
    assert sparse.reason is RejectionReason.TOO_LARGE


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../outside/secret.md", "a/../../outside/secret.md", "/etc/passwd", "//etc/passwd", "a\\..\\b", "a\0b"),
        *("./a", "", "a/", "\ud800", "\n", "é" * 2_000, "/".join("a" * 200), ".", "link/secret.md", "link"),
    ],
)
async def test_no_path_reads_anything_outside(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path, outside: Path, path: str
) -> None:
    (docs / "link").symlink_to(outside)
    result = await folders.read_file(root, path, 1_000)
    assert isinstance(result, Rejection)
    with pytest.raises(MnemaError):
        await folders.list_folder(root, path or "..", "", 10)


async def test_a_link_is_no_root(docs: Path, outside: Path) -> None:
    folders, allowed = PosixSourceFolders([str(docs.parent)]), docs.parent
    (docs / "b").mkdir()
    (allowed / "out").symlink_to(outside)
    (allowed / "in").symlink_to(docs)
    (allowed / "proc").symlink_to("/proc/self")
    for path in ("out", "in", "in/b", "proc", "proc/root", "proc/cwd"):
        with pytest.raises(RootUnavailable, match="links are not followed"):
            await folders.check_root(SourceRoot(TENANT, f"{allowed}/{path}"))


async def test_an_endless_file_is_not_read_to_its_end(docs: Path) -> None:
    """The operator allowed /proc, or mounted something like it: sizes say 0, and links lead everywhere."""
    folders, root = PosixSourceFolders(["/proc/self"]), SourceRoot(TENANT, "/proc/self")
    result = await folders.read_file(root, "mountinfo", 10)
    assert isinstance(result, Rejection)
    assert result.reason is RejectionReason.TOO_LARGE
    for path in ("root/etc/passwd", "cwd", "exe", "fd/0"):
        assert isinstance(await folders.read_file(root, path, 1_000), Rejection)
    found = await folders.scan_folder(root, ("fd/*", "root/**", "cwd/**"), (), 1_000)
    assert all(file.problem for file in found.files)


async def test_a_hard_link_is_a_file_like_any_other(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path, outside: Path
) -> None:
    """Nothing tells it apart. Whoever can make it may read the file (protected_hardlinks), or owns it."""
    os.link(outside / "secret.md", docs / "hard.md")
    result = await folders.read_file(root, "hard.md", 100)
    assert isinstance(result, FileContent)


class Swapper(threading.Thread):
    """A thread that swaps a folder and a link to the outside as fast as it can."""

    def __init__(self, place: Path, outside: Path) -> None:
        super().__init__()
        self.swaps = 0
        self._place = place
        self._stopping = threading.Event()
        self._link = place.with_name("spare-link")
        self._folder = place.with_name("spare-folder")
        self._link.symlink_to(outside)

    def run(self) -> None:
        while not self._stopping.is_set():
            os.rename(self._place, self._folder)
            os.rename(self._link, self._place)
            time.sleep(0)
            os.rename(self._place, self._link)
            os.rename(self._folder, self._place)
            self.swaps += 1

    def __enter__(self) -> "Swapper":
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self.join()


@pytest.mark.long
async def test_a_link_swapped_in_leads_nowhere(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path, outside: Path
) -> None:
    (outside / "deeper").mkdir()
    (outside / "deeper/secret.md").write_text("SECRET")
    (docs / "a/deeper").mkdir(parents=True)
    for path in ("a/secret.md", "a/deeper/secret.md"):
        (docs / path).write_text("public")
    outcomes = {"read": 0, "refused": 0}
    with Swapper(docs / "a", outside) as swapper:
        until = time.monotonic() + RACE_S
        while time.monotonic() < until or swapper.swaps < 2_000:
            for path in ("a/secret.md", "a/deeper/secret.md"):
                result = await folders.read_file(root, path, 100)
                if isinstance(result, FileContent):
                    assert result.content == b"public"
                outcomes["read" if isinstance(result, FileContent) else "refused"] += 1
            found = await scan(folders, root)
            assert {file.size for file in found.files if file.problem is None} <= {6}
            names = {file.path.rpartition("/")[2] for file in found.files}
            assert names <= {"secret.md", "a", "spare-link"}
    assert min(outcomes.values()) > 0, outcomes


@pytest.mark.long
async def test_a_root_swapped_for_a_link_leads_nowhere(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path, outside: Path
) -> None:
    (docs / "secret.md").write_text("public")
    outcomes = {"read": 0, "refused": 0}
    with Swapper(docs, outside) as swapper:
        until = time.monotonic() + RACE_S
        while time.monotonic() < until or swapper.swaps < 2_000:
            try:
                result = await folders.read_file(root, "secret.md", 100)
                found = await scan(folders, root)
            except RootUnavailable:
                outcomes["refused"] += 1
                continue
            assert not isinstance(result, FileContent) or result.content == b"public"
            assert {file.size for file in found.files} <= {6}
            outcomes["read"] += 1
    assert min(outcomes.values()) > 0, outcomes


@pytest.mark.long
async def test_a_folder_that_vanishes_during_a_scan_is_not_taken_for_an_empty_one(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path
) -> None:
    """Whatever moment it vanishes at, a scan that ends without an error has all files."""
    for number in range(300):
        (docs / f"{number % 30}").mkdir(exist_ok=True)
        (docs / f"{number % 30}/{number}.md").write_text("x")
    away, stopping = docs.with_name("away"), threading.Event()

    def move_away_and_back() -> None:
        while not stopping.is_set():
            os.rename(docs, away)
            time.sleep(0.001)
            os.rename(away, docs)
            time.sleep(0.02)

    mover, outcomes = threading.Thread(target=move_away_and_back), {"whole": 0, "refused": 0}
    mover.start()
    try:
        until = time.monotonic() + RACE_S
        while time.monotonic() < until:
            try:
                assert len((await scan(folders, root)).files) == 300
                outcomes["whole"] += 1
            except RootUnavailable:
                outcomes["refused"] += 1
    finally:
        stopping.set()
        mover.join()
    assert min(outcomes.values()) > 0, outcomes


UNPRIVILEGED = """
import asyncio, os, sys
from uuid import UUID
from app.domain.sources.folder import SourceRoot
from app.providers.source_folders import PosixSourceFolders
os.setgroups([]); os.setgid(65534); os.setuid(65534)
async def look():
    root = SourceRoot(UUID(int=1), sys.argv[1])
    folders = PosixSourceFolders([sys.argv[1]])
    found = await folders.scan_folder(root, (), (), 100)
    print([file.path for file in found.files], list(found.skipped_folders))
    print((await folders.read_file(root, "closed.md", 100)).reason)
asyncio.run(look())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_may_not_be_read_is_reported() -> None:
    with TemporaryDirectory() as name:  # above pytest's folder only root may pass
        docs = Path(name)
        docs.chmod(0o755)
        (docs / "shut").mkdir()
        (docs / "shut/a.md").write_text("x")
        (docs / "closed.md").write_text("x")
        (docs / "open.md").write_text("x")
        (docs / "shut").chmod(0)
        (docs / "closed.md").chmod(0)
        command = [sys.executable, "-c", UNPRIVILEGED, name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["['closed.md', 'open.md'] ['shut']", "unreadable"], done.stderr


@pytest.mark.long
async def test_many_files() -> None:
    with TemporaryDirectory(dir=roomy_memory()) as name:
        folders, root = PosixSourceFolders([name]), SourceRoot(TENANT, name)
        for folder in range(12):
            (Path(name) / str(folder)).mkdir()
            for number in range(1_000):
                (Path(name) / f"{folder}/{number}.md").touch()
        assert len((await scan(folders, root, 12_000)).files) == 12_000
        with pytest.raises(TooManyFiles):
            await scan(folders, root, 11_999)


async def test_hostile_roots_and_tenants(docs: Path) -> None:
    folders = PosixSourceFolders([f"{docs.parent}/{{tenant}}"])
    for path in (f"{docs.parent}/{{tenant}}", f"{docs.parent}/{{tenant}}/..", "{tenant}", f"{docs.parent}/*"):
        with pytest.raises((RootNotAllowed, InvalidInput)):
            await folders.check_root(SourceRoot(TENANT, path))
