"""First runs that end early: what a person does to the files after them counts as an edit or a deletion."""

from pathlib import Path

import pytest
from mnema_cli.mirror.adapters.files import PosixMirrorFiles
from mnema_cli.mirror.rules.actions import NAMES
from mnema_cli.mirror.usecases.steps import Mirror
from mnema_cli.mirror.usecases.sync import SyncReport, ignore_steps, sync_mirror

from tests.cli.mirror.usecases.edited_world import Fuse, World
from tests.cli.mirror.usecases.memory_store import MemoryStore


class Stopped(Exception):
    """The end that a signal asks for."""


def sync(root: Path, store: MemoryStore, stop_after: int = 0) -> SyncReport:
    def stop(done: int, _total: int) -> None:
        if done == stop_after:
            raise Stopped

    with PosixMirrorFiles(str(root)) as files:
        return sync_mirror(Mirror(files, store, "tenant/user"), stop if stop_after else ignore_steps)


def test_after_a_stopped_first_run_edits_and_deletions_count(tmp_path: Path) -> None:
    store = MemoryStore()
    for text in ("one", "two", "three"):
        store.add(text)
    with pytest.raises(Stopped):
        sync(tmp_path, store, 2)
    first, second = sorted(tmp_path.glob("entries/**/*.md"))
    first.write_text(first.read_text().replace("one", "uno"))
    second.unlink()
    done = [NAMES[type(outcome.action)] for outcome in sync(tmp_path, store).outcomes]
    assert done == ["update_entry", "soft_delete_entry", "write_file"]
    assert sorted(entry.text for entry in store.entries.values()) == ["three", "uno"]


def test_after_a_killed_first_run_an_edit_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.store.add("one")
    world.sync(Fuse(2, after=True))  # the snapshot with the intents, then the file
    [path] = world.files()
    path.write_text(path.read_text().replace("one", "uno"))
    report = world.sync(Fuse(None))
    assert report is not None
    assert [NAMES[type(outcome.action)] for outcome in report.outcomes] == ["update_entry"]
    assert [entry.text for entry in world.store.entries.values()] == ["uno"]
