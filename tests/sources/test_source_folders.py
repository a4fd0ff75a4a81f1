"""Folders of sources on a real file system: what is found, read and listed."""

import asyncio
import os
import resource
import threading
import time
from pathlib import Path
from uuid import UUID

import pytest

from app.domain.errors import InvalidInput, NotFound, RootNotAllowed, RootUnavailable, TooManyFiles
from app.domain.sources.folder import EntryKind, FileContent, SourceRoot
from app.domain.sources.rejection import Rejection, RejectionReason
from app.providers.source_folders import PosixSourceFolders
from tests.sources.conftest import TENANT


async def scan(
    folders: PosixSourceFolders, root: SourceRoot, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
) -> dict[str, Rejection | None]:
    found = await folders.scan_folder(root, include, exclude, 1_000)
    assert not found.skipped_folders
    assert [file.path for file in found.files] == sorted(file.path for file in found.files)
    return {file.path: file.problem for file in found.files}


async def read(folders: PosixSourceFolders, root: SourceRoot, path: str, most: int = 1_000) -> bytes | RejectionReason:
    result = await folders.read_file(root, path, most)
    return result.content if isinstance(result, FileContent) else result.reason


def make_files(docs: Path, *paths: str) -> None:
    for path in paths:
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_text(path)


async def test_a_tree_is_found_and_read(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    make_files(docs, "a.md", "b/c.txt", "b/d/Ünïcode 📄\u202f.md", "z")
    assert list(await scan(folders, root)) == ["a.md", "b/c.txt", "b/d/Ünïcode 📄\u202f.md", "z"]
    for path in await scan(folders, root):
        assert await read(folders, root, path) == path.encode()


async def test_hidden_files_caches_and_copies_are_left_out(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path
) -> None:
    left_out = [".env", ".git/config", "a/node_modules/x.js", "__pycache__/x.py", "a/b.md~", "~$letter.docx"]
    make_files(docs, "a/b.md", *left_out)
    assert list(await scan(folders, root)) == ["a/b.md"]
    assert [entry.name for entry in await folders.list_folder(root, "", "", 9)] == ["a"]
    for path in left_out:
        assert await read(folders, root, path) is RejectionReason.UNREADABLE


async def test_patterns(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    make_files(docs, "a.md", "a.txt", "drafts/b.md", "docs/c.md", "docs/old/d.md", "docs/old/e.rst")
    assert list(await scan(folders, root, ("*.md",))) == ["a.md", "docs/c.md", "docs/old/d.md", "drafts/b.md"]
    assert list(await scan(folders, root, ("docs/",), ("*.rst",))) == ["docs/c.md", "docs/old/d.md"]
    assert list(await scan(folders, root, ("*.md", "*.rst"), ("docs/old", "/a*"))) == ["docs/c.md", "drafts/b.md"]
    assert list(await scan(folders, root, ("docs/**/e.*",))) == ["docs/old/e.rst"]
    with pytest.raises(InvalidInput, match="exclude"):
        await scan(folders, root, (), ("../*",))


async def test_only_allowed_folders_are_opened(docs: Path, outside: Path) -> None:
    allowed = docs.parent
    folders = PosixSourceFolders([f"{allowed}/{{tenant}}", f"{allowed}/docs/shared/"])
    make_files(docs, "shared/a.md")
    (allowed / str(TENANT) / "own").mkdir(parents=True)
    assert await folders.check_root(SourceRoot(TENANT, f"{allowed}//{TENANT}/own/")) == f"{allowed}/{TENANT}/own"
    assert await folders.check_root(SourceRoot(TENANT, f"{docs}/shared")) == f"{docs}/shared"
    (allowed / str(TENANT) / ".ssh").mkdir()
    no_tenant = UUID(int=2), f"{allowed}/{TENANT}/own"
    for tenant, path in (no_tenant, *((TENANT, p) for p in (outside, docs, allowed, "/", f"{allowed}/{TENANT}/.ssh"))):
        with pytest.raises(RootNotAllowed):
            await folders.check_root(SourceRoot(tenant, str(path)))
    with pytest.raises(RootNotAllowed) as missing:
        await folders.check_root(SourceRoot(TENANT, f"{outside}/missing"))
    with pytest.raises(RootNotAllowed) as present:
        await folders.check_root(SourceRoot(TENANT, str(outside)))
    assert missing.value.detail == present.value.detail
    with pytest.raises(RootNotAllowed, match="source_roots"):
        await PosixSourceFolders([]).scan_folder(SourceRoot(TENANT, str(docs)), (), (), 9)


@pytest.mark.parametrize("path", ["", "docs", "/a/../b", "/a/./b", "/a\0b", "/a\nb", "/a\\b", "/a\ud800", "/" * 5_000])
async def test_bad_roots(folders: PosixSourceFolders, path: str) -> None:
    with pytest.raises(InvalidInput):
        await folders.check_root(SourceRoot(TENANT, path))


async def test_missing_roots_and_files(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    make_files(docs, "a.md")
    gone = SourceRoot(TENANT, f"{docs}/gone")
    for call in (
        folders.check_root(gone),
        folders.scan_folder(gone, (), (), 9),
        folders.read_file(gone, "a.md", 9),
        folders.list_folder(gone, "", "", 9),
        folders.check_root(SourceRoot(TENANT, f"{docs}/a.md")),
    ):
        with pytest.raises(RootUnavailable):
            await call
    assert await read(folders, root, "b.md") is RejectionReason.UNREADABLE
    with pytest.raises(NotFound):
        await folders.list_folder(root, "b", "", 9)
    with pytest.raises(NotFound):
        await folders.list_folder(root, "a.md", "", 9)


async def test_the_number_of_files_is_bounded(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    make_files(docs, *(f"{number}.md" for number in range(5)), "x.txt")
    assert len((await folders.scan_folder(root, ("*.md",), (), 5)).files) == 5
    with pytest.raises(TooManyFiles, match="4"):
        await folders.scan_folder(root, ("*.md",), (), 4)
    for number in range(1_030):
        (docs / f"folder{number}").mkdir()
    with pytest.raises(TooManyFiles):  # folders alone must not keep a scan busy for ever
        await folders.scan_folder(root, (), (), 1)


async def test_a_file_may_have_a_bounded_size(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    (docs / "a.md").write_bytes(b"12345")
    assert await read(folders, root, "a.md", 5) == b"12345"
    assert await read(folders, root, "a.md", 4) is RejectionReason.TOO_LARGE
    with (docs / "sparse.txt").open("wb") as file:
        file.truncate(2 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
    assert await read(folders, root, "sparse.txt", 1 << 25) is RejectionReason.TOO_LARGE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_inblock - before < 100


@pytest.mark.long
async def test_stamps(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    path = docs / "a.md"
    path.write_text("one")
    [young] = (await folders.scan_folder(root, (), (), 9)).files
    assert young.stamp == ""
    await asyncio.sleep(2.6)
    [old] = (await folders.scan_folder(root, (), (), 9)).files
    content = await folders.read_file(root, "a.md", 9)
    assert isinstance(content, FileContent)
    assert content.stamp == old.stamp != ""
    os.utime(path, ns=(10**30 // 10**12, 9 * 10**18))
    [touched] = (await folders.scan_folder(root, (), (), 9)).files
    assert touched.stamp == ""  # its date is what somebody set, its last change is now
    assert touched.modified_at.year == 2255


async def test_a_file_that_changes_while_it_is_read(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    path = docs / "log.txt"
    path.write_bytes(b"x")
    stop = threading.Event()

    def append_always() -> None:
        with path.open("ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"x" * 10_000)
                if file.tell() > 20_000_000:
                    file.truncate(1)
                    file.seek(0)

    writer = threading.Thread(target=append_always)
    writer.start()
    results = set()
    try:
        until = time.monotonic() + 30
        while RejectionReason.CHANGED_MEANWHILE not in results and time.monotonic() < until:
            result = await read(folders, root, "log.txt", 1 << 25)
            results.add(result if isinstance(result, RejectionReason) else None)
    finally:
        stop.set()
        writer.join()
    assert RejectionReason.CHANGED_MEANWHILE in results
    assert results <= {RejectionReason.CHANGED_MEANWHILE, None}
    assert await read(folders, root, "log.txt", 1 << 25) == path.read_bytes()


async def test_entries_are_listed_page_by_page(folders: PosixSourceFolders, root: SourceRoot, docs: Path) -> None:
    make_files(docs, "a.md", "b/c.md", "d.md")
    (docs / "e").symlink_to("a.md")
    os.mkfifo(docs / "f")
    (docs / "g\n").write_text("")
    pages, after = [], ""
    while page := await folders.list_folder(root, "", after, 2):
        pages.append([(entry.name, entry.kind, entry.size) for entry in page])
        after = page[-1].name
    assert pages == [
        [("a.md", EntryKind.FILE, 4), ("b", EntryKind.FOLDER, None)],
        [("d.md", EntryKind.FILE, 4), ("e", EntryKind.LINK, 4)],
        [("f", EntryKind.OTHER, 0), ("g\\n", EntryKind.FILE, 0)],
    ]
    [entry] = await folders.list_folder(root, "b", "", 9)
    assert (entry.name, entry.problem) == ("c.md", None)
    for path in ("..", "/", "b/", "b/../..", "b//c", ".git", "a\0b", "b\\c"):
        with pytest.raises(InvalidInput):
            await folders.list_folder(root, path, "", 9)


@pytest.mark.long
async def test_the_event_loop_goes_on_while_a_folder_is_scanned(
    folders: PosixSourceFolders, root: SourceRoot, docs: Path
) -> None:
    for folder in range(20):
        (docs / str(folder)).mkdir()
        for number in range(500):
            (docs / f"{folder}/{number}.md").touch()
    beats = 0
    scanning = asyncio.create_task(folders.scan_folder(root, ("*.md", "docs/**"), ("*.txt",), 100_000))
    while not scanning.done():
        await asyncio.sleep(0.001)
        beats += 1
    assert len((await scanning).files) == 10_000
    assert beats > 3
