"""The files of a mirror on a real file system: links, races, temporary files, a full disk, one writer, many files."""

import ctypes
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mnema_cli.mirror.adapters import folders, taken
from mnema_cli.mirror.adapters.files import PosixMirrorFiles
from mnema_cli.mirror.rules.entries import MirrorFile, hash_text, parse_file, render_file
from mnema_cli.mirror.rules.problems import FilesUnusable, StateChanged
from mnema_cli.mirror.rules.snapshot import load_snapshot
from mnema_cli.mirror.usecases.steps import Mirror
from mnema_cli.mirror.usecases.sync import SyncReport, make_plan, sync_mirror

from tests.cli.mirror.usecases.memory_store import MemoryStore

SECRET = render_file(MirrorFile("a secret", id="id-0"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside/facts").mkdir(parents=True)
    (tmp_path / "outside/facts/secret.md").write_bytes(SECRET)
    return tmp_path / "root"


def refusals(root: Path, store: MemoryStore) -> dict[str, str]:
    with PosixMirrorFiles(str(root)) as files:
        report = sync_mirror(Mirror(files, store, "owner"))
    return {outcome.action.path: outcome.problem for outcome in report.outcomes if outcome.problem}


def test_links_are_reported_and_never_followed(root: Path) -> None:
    store = MemoryStore()
    (root / "entries/chat/facts").mkdir(parents=True)
    (root / "entries/chat/facts/link.md").symlink_to("../../../../outside/facts/secret.md")
    (root / "entries/chat/turns").symlink_to(root.parent / "outside", target_is_directory=True)
    os.mkfifo(root / "entries/chat/facts/pipe.md")
    told = refusals(root, store)
    assert told == {
        "entries/chat/facts/link.md": "it is a link; links are not followed",
        "entries/chat/facts/pipe.md": "pipe.md is no regular file",
        "entries/chat/turns": "it is a link; links are not followed",
    }
    assert store.entries == {}


def test_a_link_at_the_folder_of_a_new_file_stops_the_write(root: Path) -> None:
    store = MemoryStore()
    store.add("a user's turn", role="user")
    (root / "entries/chat").mkdir(parents=True)
    (root / "entries/chat/turns").symlink_to(root.parent / "outside", target_is_directory=True)
    assert "links are not followed" in " ".join(refusals(root, store).values())
    assert [path.name for path in (root.parent / "outside").rglob("*.md")] == ["secret.md"]


@pytest.mark.parametrize("path", ["../outside/facts/secret.md", "/etc/passwd", "entries//x.md", "a/../../x.md", "a\0b"])
def test_a_path_that_leaves_the_root_is_refused(root: Path, path: str) -> None:
    with PosixMirrorFiles(str(root)) as files:
        for step in (
            lambda: files.read_file(path),
            lambda: files.create_file(path, MirrorFile("x")),
            lambda: files.replace_file(path, hash_text("a secret"), MirrorFile("x")),
            lambda: files.delete_file(path, hash_text("a secret")),
        ):
            with pytest.raises(StateChanged, match="no path inside the root"):
                step()
    assert (root.parent / "outside/facts/secret.md").read_bytes() == SECRET


def test_a_folder_replaced_by_a_link_between_scan_and_open(root: Path) -> None:
    folder = root / "entries/chat/facts"
    folder.mkdir(parents=True)
    (folder / "secret.md").write_bytes(render_file(MirrorFile("a secret", id="id-0")))
    with PosixMirrorFiles(str(root)) as files:
        assert [file.path for file in files.scan_files({}).files] == ["entries/chat/facts/secret.md"]
        folder.rename(root / "moved")
        folder.symlink_to(root.parent / "outside/facts", target_is_directory=True)
        path, text_hash = "entries/chat/facts/secret.md", hash_text("a secret")
        for step in (
            lambda: files.read_file(path),
            lambda: files.create_file("entries/chat/facts/new.md", MirrorFile("x")),
            lambda: files.replace_file(path, text_hash, MirrorFile("x")),
            lambda: files.delete_file(path, text_hash),
        ):
            with pytest.raises(StateChanged, match="links are not followed"):
                step()
    assert [path.name for path in (root.parent / "outside/facts").iterdir()] == ["secret.md"]


def test_nothing_outside_is_touched_while_a_folder_and_a_link_change_places(root: Path) -> None:
    """A thread exchanges the folder and a link all the time; each step finds the one or the other."""
    store, stop = MemoryStore(), threading.Event()
    folder, link = root / "entries/chat/facts", root / "link"
    folder.mkdir(parents=True)
    link.symlink_to(root.parent / "outside/facts", target_is_directory=True)
    (root.parent / "outside/facts/new.md").write_text("from outside")
    for number in range(20):
        store.add(f"text {number}")
    libc, here, exchange_both = ctypes.CDLL(None, use_errno=True), -100, 2

    def exchange() -> None:
        while not stop.is_set():
            assert not libc.renameat2(here, bytes(folder), here, bytes(link), exchange_both), ctypes.get_errno()

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for number in range(60):
            with PosixMirrorFiles(str(root)) as files:
                try:
                    sync_mirror(Mirror(files, store, "owner"))
                except FilesUnusable as error:
                    assert "keep moving" in str(error)  # noqa: PT017 - both ends are fine here
            for entry_id in sorted(store.entries)[:3]:
                store.edit(entry_id, f"{entry_id} {number}")
    finally:
        stop.set()
        thread.join()
    assert sorted(path.name for path in (root.parent / "outside/facts").iterdir()) == ["new.md", "secret.md"]
    assert (root.parent / "outside/facts/secret.md").read_bytes() == SECRET
    assert not any("outside" in entry.text for entry in store.entries.values())


def test_a_second_writer_is_refused(root: Path) -> None:
    with PosixMirrorFiles(str(root)), pytest.raises(FilesUnusable, match="another mirror uses this folder"):
        PosixMirrorFiles(str(root))
    PosixMirrorFiles(str(root)).close()


def test_files_that_are_only_read_stay_as_they_are_beside_a_writer(root: Path) -> None:
    store = MemoryStore()
    store.add("one")
    with PosixMirrorFiles(str(root)) as writer:
        sync_mirror(Mirror(writer, store, "owner"))
        (root / "entries/chat/facts/.mnema-1.tmp").write_text("half")
        before = {path: _written(path) for path in root.glob("**/*")}
        with PosixMirrorFiles(str(root), read_only=True) as reader:
            plan, _snapshot = make_plan(Mirror(reader, store, "owner"), SyncReport())
        assert plan.actions == ()
        assert {path: _written(path) for path in root.glob("**/*")} == before


def _written(path: Path) -> tuple[int, ...]:
    """Return what a write changes of a file or folder; a look at it changes the time of its last access."""
    found = path.stat()
    return found.st_ino, found.st_mode, found.st_nlink, found.st_size, found.st_mtime_ns


def test_a_missing_root_is_said(root: Path) -> None:
    with pytest.raises(FilesUnusable, match="No such file or directory"):
        PosixMirrorFiles(str(root / "none"))


def test_temporary_files_of_a_killed_run_are_removed_and_those_of_editors_stay(root: Path) -> None:
    folder = root / "entries/chat/facts"
    folder.mkdir(parents=True)
    for name in (".mnema-00ff.tmp", ".x.md.swp", "x.md~", "#x.md#", "4913"):
        (folder / name).write_text("half a te")
    assert refusals(root, MemoryStore()) == {}
    assert sorted(path.name for path in folder.iterdir()) == ["#x.md#", ".x.md.swp", "4913", "x.md~"]


def test_a_full_disk_ends_the_run_and_the_next_one_goes_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    for number in range(5):
        store.add(f"text {number}")
    room, whole = [3], os.fsync

    def full(descriptor: int) -> None:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(descriptor)

    monkeypatch.setattr(folders.os, "fsync", full)
    with pytest.raises(FilesUnusable, match="the disk is full"):
        refusals(root, store)
    monkeypatch.setattr(folders.os, "fsync", whole)
    assert refusals(root, store) == {}
    texts = {parse_file(path.read_bytes()).text for path in root.rglob("*.md")}
    assert texts == {entry.text for entry in store.entries.values()}
    assert list(root.rglob("*.tmp")) == []


def test_a_new_file_never_replaces_another(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    with PosixMirrorFiles(str(root)) as files:
        for path in ("entries/a.md", "entries/b.md"):
            files.create_file(path, MirrorFile("one"))
            with pytest.raises(StateChanged, match="exists already"):
                files.create_file(path, MirrorFile("two"))
            assert files.read_file(path).text == "one"
            monkeypatch.setattr(taken.os, "link", no_links)
    assert len(list((root / "entries").iterdir())) == 2


def test_a_file_that_changed_is_neither_replaced_nor_deleted(root: Path) -> None:
    with PosixMirrorFiles(str(root)) as files:
        files.create_file("entries/a.md", MirrorFile("one"))
        (root / "entries/a.md").write_text("edited\n")
        for step in (
            lambda: files.replace_file("entries/a.md", hash_text("one"), MirrorFile("two")),
            lambda: files.delete_file("entries/a.md", hash_text("one")),
        ):
            with pytest.raises(StateChanged, match="changed in the meantime"):
                step()
    assert [path.read_text() for path in (root / "entries").iterdir()] == ["edited\n"]


def test_files_that_cannot_be_entries_stay_and_are_named(root: Path) -> None:
    folder = root / "entries/chat/facts"
    folder.mkdir(parents=True)
    (folder / "big.md").write_bytes(b"a" * ((1 << 20) + 1))
    (folder / "latin.md").write_bytes(b"caf\xe9")
    (folder / "two\nlines.md").write_text("x")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md"))).write_text("x")
    (folder / "empty.md").touch()
    (root / "entries/loose.md").write_text("x")
    deep = root / "entries/chat" / "/".join("d" * 30)
    deep.mkdir(parents=True)
    told = refusals(root, MemoryStore())
    assert {path.rpartition("/")[2]: reason.partition(";")[0] for path, reason in told.items()} == {
        "big.md": "the file has more than 1048576 bytes",
        "latin.md": "byte 3 is not UTF-8",
        "two\nlines.md": "the name has a line break or another character that cannot be shown",
        "\\udcff.md": "the name has a line break or another character that cannot be shown",
        "empty.md": "the file has no text yet",
        "loose.md": "the file is in no conversation",
        "d": "folders are nested deeper than 16 levels",
    }


def test_the_mode_of_a_file_stays(root: Path) -> None:
    store = MemoryStore()
    store.add("one")
    refusals(root, store)
    (path,) = root.rglob("*.md")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    store.edit("id-0", "two")
    refusals(root, store)
    assert (path.stat().st_mode & 0o777, parse_file(path.read_bytes()).text) == (0o640, "two")


def test_an_unchanged_file_is_not_read_again_and_an_edited_one_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.add("one")
    refusals(root, store)
    (path,) = root.rglob("*.md")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    monkeypatch.setattr("mnema_cli.mirror.adapters.scan.UNSETTLED_NS", -(10**10))  # as if time had passed
    refusals(root, store)
    records = load_snapshot((root / "memory_index.json").read_bytes(), "owner").records
    with PosixMirrorFiles(str(root)) as files:
        assert [file.content for file in files.scan_files(records).files] == [None]
        path.write_bytes(path.read_bytes().replace(b"one", b"two"))
        os.utime(path, (1_700_000_000, 1_700_000_000))  # same size, same time of change, same inode
        assert [file.content and file.content.text for file in files.scan_files(records).files] == ["two"]


@pytest.mark.long
def test_ten_thousand_files(root: Path, record_property: Callable[[str, object], None]) -> None:
    store, figures = MemoryStore(), {}
    for number in range(10_000):
        store.add(f"The user has the number {number}.", f"chat {number % 50}", ("user", "memory")[number % 2])
    for name in ("written", "read", "not read again"):
        if name == "not read again":
            time.sleep(3)  # files that changed a moment ago are read again
            refusals(root, store)
        start = time.perf_counter()
        assert refusals(root, store) == {}
        figures[name] = round(time.perf_counter() - start, 2)
    assert len(list(root.rglob("*.md"))) == 10_000
    for name, seconds in figures.items():
        record_property(name, seconds)
    print(figures)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_root_that_is_gone_is_said(root: Path, is_replaced: bool) -> None:
    store = MemoryStore()
    store.add("one")
    with PosixMirrorFiles(str(root)) as files:
        sync_mirror(Mirror(files, store, "owner"))
        root.rename(root.with_name("moved"))
        if is_replaced:
            root.mkdir()
        with pytest.raises(FilesUnusable, match="the folder of the mirror is gone or was replaced"):
            sync_mirror(Mirror(files, store, "owner"))
    assert len(store.entries) == 1
