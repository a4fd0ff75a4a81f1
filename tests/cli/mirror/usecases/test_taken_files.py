"""Saves of an editor at the very moment at which the mirror replaces or deletes a file, and runs killed in between."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mnema_cli.mirror.adapters import taken as taking
from mnema_cli.mirror.adapters.files import PosixMirrorFiles
from mnema_cli.mirror.rules.entries import MirrorFile, hash_text, parse_file, render_file
from mnema_cli.mirror.rules.problems import StateChanged

PATH = "entries/a.md"
OLD = hash_text("one")


class Killed(BaseException):
    """The end of the process."""


@pytest.fixture
def files(tmp_path: Path) -> Iterator[PosixMirrorFiles]:
    with PosixMirrorFiles(str(tmp_path)) as files:
        files.create_file(PATH, MirrorFile("one", "id-a"))
        yield files


def texts(root: Path) -> dict[str, str]:
    return {path.name: parse_file(path.read_bytes()).text for path in (root / "entries").iterdir()}


def replace(files: PosixMirrorFiles) -> None:
    files.replace_file(PATH, OLD, MirrorFile("two", "id-a"))


def delete(files: PosixMirrorFiles) -> None:
    files.delete_file(PATH, OLD)


def around(monkeypatch: pytest.MonkeyPatch, name: str, count: int, step: Callable[[], None], *, after: bool) -> None:
    """Do a step before or after a call of the operating system: that with this number."""
    real, calls = getattr(os, name), [0]

    def call(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == count and not after:
            step()
        result = real(*given, **named)
        if calls[0] == count and after:
            step()
        return result

    monkeypatch.setattr(taking, "os", Patched(name, call))


class Patched:
    """The module `os` with one function replaced."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        setattr(self, name, call)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def save(path: Path) -> None:
    """Save as most editors do: a new file takes the place of the old one."""
    other = path.with_name("saved.tmp")
    other.write_bytes(render_file(MirrorFile("mine", "id-a")))
    other.rename(path)


@pytest.mark.parametrize("act", [replace, delete])
def test_a_save_before_the_file_is_taken_stays(
    files: PosixMirrorFiles, tmp_path: Path, act: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    around(monkeypatch, "rename", 1, lambda: save(tmp_path / PATH), after=False)
    with pytest.raises(StateChanged, match="changed in the meantime"):
        act(files)
    assert texts(tmp_path) == {"a.md": "mine"}


def test_a_save_while_the_file_is_taken_stays(
    files: PosixMirrorFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around(monkeypatch, "rename", 1, lambda: save(tmp_path / PATH), after=True)
    with pytest.raises(StateChanged, match="changed in the meantime"):
        replace(files)
    assert texts(tmp_path) == {"a.md": "mine"}


def test_two_saves_around_the_taking_both_stay(
    files: PosixMirrorFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / PATH
    path_of_taken: Callable[[], Path] = lambda: next((tmp_path / "entries").glob(".mnema-*.replaced"))  # noqa: E731

    def save_twice() -> None:
        path_of_taken().write_bytes(render_file(MirrorFile("in place", "id-a")))
        save(path)

    around(monkeypatch, "rename", 1, save_twice, after=True)
    with pytest.raises(StateChanged, match="changed in the meantime"):
        replace(files)
    assert texts(tmp_path) == {"a.md": "mine", "id-a.conflict.md": "in place"}


@pytest.mark.parametrize(("act", "left"), [(replace, {"a.md": "two"}), (delete, {})])
def test_a_program_that_still_writes_into_the_old_file_gets_a_conflict_file(
    files: PosixMirrorFiles, tmp_path: Path, act: Any, left: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, reads = taking.TakenFile.read_bytes, [0]
    with (tmp_path / PATH).open("r+b") as old:

        def read(file: Any) -> bytes | None:
            reads[0] += 1
            if reads[0] == 2:
                old.truncate()
                old.write(render_file(MirrorFile("mine", "id-a")))
                old.flush()
            return real(file)

        monkeypatch.setattr(taking.TakenFile, "read_bytes", read)
        act(files)
    assert texts(tmp_path) == left | {"id-a.conflict.md": "mine"}


def test_own_lines_that_were_added_meanwhile_stay(files: PosixMirrorFiles, tmp_path: Path) -> None:
    (tmp_path / PATH).write_bytes(render_file(MirrorFile("one", "id-a", other_lines=("mood: calm",))))
    with pytest.raises(StateChanged, match="changed in the meantime"):
        replace(files)
    assert "mood: calm" in (tmp_path / PATH).read_text()


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("act", "name", "count"),
    [
        (replace, "rename", 1),
        (replace, "link", 1),
        (replace, "unlink", 2),
        (delete, "rename", 1),
        (delete, "unlink", 1),
    ],
)
def test_a_run_killed_in_the_middle_loses_nothing(
    files: PosixMirrorFiles,
    tmp_path: Path,
    act: Any,
    name: str,
    count: int,
    after: bool,
    is_saved: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kill() -> None:
        if is_saved:
            save(tmp_path / PATH)
        raise Killed

    with monkeypatch.context() as patched:
        around(patched, name, count, kill, after=after)
        patched.setattr(taking.TakenFile, "put_back", lambda _file: None)
        with pytest.raises(Killed):
            act(files)
    files.scan_files({})
    left = texts(tmp_path)
    if is_saved:
        assert left == {"a.md": "mine"}
    elif act is delete:
        assert left in ({}, {"a.md": "one"})
    else:
        assert left in ({"a.md": "one"}, {"a.md": "two"})


def test_a_taken_file_that_somebody_edited_goes_back_or_beside_the_new_one(
    files: PosixMirrorFiles, tmp_path: Path
) -> None:
    folder = tmp_path / "entries"
    for name in ("a.md", "b.md"):
        taken = folder / f".mnema-00000000-{OLD[:16]}-{name}.deleted"
        taken.write_bytes(render_file(MirrorFile("edited", "id-a")))
    files.scan_files({})
    assert texts(tmp_path) == {"a.md": "one", "b.md": "edited", "id-a.conflict.md": "edited"}
