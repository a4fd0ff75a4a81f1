"""A watch over a mirror: when it runs, when it waits for the server, and what it never does twice."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mnema_cli.mirror.adapters.files import PosixMirrorFiles
from mnema_cli.mirror.rules.actions import NAMES, Refuse
from mnema_cli.mirror.rules.mass_deletion import MassDeletionPolicy
from mnema_cli.mirror.rules.problems import StoreAway
from mnema_cli.mirror.usecases.grace import GRACE_S
from mnema_cli.mirror.usecases.steps import Mirror
from mnema_cli.mirror.usecases.sync import SyncReport
from mnema_cli.mirror.usecases.watch import READ_ALL_S, SETTLE_S, MirrorWatch

from tests.cli.mirror.usecases.memory_store import MemoryStore


@dataclass
class WatchedMemoryStore(MemoryStore):
    """A store whose entries are listed as they were read last. `away` makes each request fail."""

    away: bool = False
    seen: dict[str, Any] = field(default_factory=dict)
    whole_readings: int = 0

    def list_entries(self) -> list[Any]:
        self.read_changes()
        return list(self.seen.values())

    def read_all(self) -> None:
        self.whole_readings += 1
        self.read_changes()

    def read_changes(self) -> bool:
        if self.away:
            raise StoreAway("it is away")
        before, self.seen = self.seen, dict(self.entries)
        return before != self.seen


@dataclass
class Stage:
    """A watch with a clock that the test moves. `told` is what the listener heard."""

    root: Path
    files: Any
    policy: MassDeletionPolicy = field(default_factory=MassDeletionPolicy)
    store: WatchedMemoryStore = field(default_factory=WatchedMemoryStore)
    now: float = 1000.0
    told: list[str] = field(default_factory=list)
    reports: list[SyncReport] = field(default_factory=list)

    def hear_report(self, report: SyncReport) -> None:
        self.reports.append(report)
        self.told.append("run")

    def hear_away(self, problem: str) -> None:
        self.told.append(f"away: {problem}")

    def hear_back(self) -> None:
        self.told.append("back")

    def follow(self, *ticks: Any) -> list[str]:
        """Run with these ticks. A number moves the clock, a function is called, and a bool is a tick."""

        def steps() -> Iterator[bool]:
            for tick in ticks:
                if callable(tick):
                    tick()
                elif isinstance(tick, bool):
                    yield tick
                else:
                    self.now += tick

        self.told.clear()
        mirror = Mirror(self.files, self.store, "tenant/user", self.policy)
        MirrorWatch(mirror, self.store, self, clock=lambda: self.now).keep_in_step(steps())
        return self.told

    def away(self) -> None:
        self.store.away = True

    def back(self) -> None:
        self.store.away = False


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with PosixMirrorFiles(str(tmp_path)) as files:
        yield Stage(tmp_path, files)


def test_it_runs_at_once_then_after_changes_and_once_more_when_files_have_settled(stage: Stage) -> None:
    stage.store.add("one")
    assert stage.follow(False, False, False) == ["run"]
    assert stage.follow(False, True, False) == ["run", "run"]
    assert stage.follow(False, lambda: stage.store.add("two"), False, False) == ["run", "run"]
    assert stage.follow(False, SETTLE_S, False, SETTLE_S, False) == ["run", "run"]


def test_it_reads_everything_now_and_then(stage: Stage) -> None:
    ticks = [READ_ALL_S, False, False] * 3
    stage.follow(False, *ticks)
    assert stage.store.whole_readings == 3


def test_it_waits_for_a_server_that_is_away_and_then_does_what_is_due(stage: Stage) -> None:
    stage.store.add("one")
    told = stage.follow(False, stage.away, True, False, 1.5, False, 2.5, False, stage.back, False, 5, False)
    assert told == ["run", "away: it is away", "back", "run"]


def test_a_server_that_goes_away_during_a_run_leaves_the_run_due(stage: Stage) -> None:
    stage.store.add("one")
    stage.follow(False)
    [path] = stage.root.glob("entries/**/*.md")
    real, calls = stage.store.update_entry, []

    def fail_once(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise StoreAway("gone in the middle")
        return real(*arguments)

    stage.store.update_entry = fail_once
    path.write_text(path.read_text().replace("one", "uno"))
    assert stage.follow(False, 2, False) == ["away: gone in the middle", "back", "run"]
    assert [entry.text for entry in stage.store.entries.values()] == ["uno"]


def test_a_skipped_step_makes_another_run_due(stage: Stage) -> None:
    entry = stage.store.add("one")
    stage.follow(False)
    real = stage.files.replace_file

    def change_first(path: str, text_hash: str, content: Any) -> None:
        file = stage.root / path
        if stage.told.count("run") == 0:
            file.write_text(file.read_text().rstrip() + "!\n")
        real(path, text_hash, content)

    stage.store.edit(entry.id, "two")
    stage.files = Skipping(stage.files, change_first)
    stage.reports.clear()
    stage.follow(False, False)
    assert [report.is_complete for report in stage.reports] == [False, True]
    texts = {path.read_text().rstrip().rsplit("\n", 1)[-1] for path in stage.root.glob("entries/**/*.md")}
    assert texts >= {"two", "one!"}


def test_files_that_keep_moving_only_delay_a_run(stage: Stage) -> None:
    stage.store.add("one")
    stage.store.add("two")
    stage.follow(False)
    [first, second] = sorted(stage.root.glob("entries/**/*.md"))
    first.unlink()
    real, scans = stage.files, []

    class Moving(Skipping):
        def scan_files(self, records: Any) -> Any:
            scans.append(records)
            if len(scans) < 8:
                second.rename(second.with_name(f"{len(scans)}.md"))
            found = real.scan_files(records)
            if len(scans) < 8:
                second.with_name(f"{len(scans)}.md").rename(second)
            return found

    stage.files = Moving(real, real.replace_file)
    assert stage.follow(False, False, False, False, GRACE_S, False)[0] == "run"
    assert len(scans) >= 8
    assert [entry.text for entry in stage.store.entries.values()] == ["two"]


class Skipping:
    """The files of a root, whose replacement does something else first."""

    def __init__(self, files: PosixMirrorFiles, replace_file: Any) -> None:
        self._files = files
        self.replace_file = replace_file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def test_only_the_first_run_may_delete_many(stage: Stage) -> None:
    stage.policy = MassDeletionPolicy(max_deletions=1, max_deleted_share=0.1, allow_mass_deletion=True)
    for number in range(4):
        stage.store.add(f"text {number}")
    stage.follow(False)
    shutil.rmtree(stage.root / "entries/chat")
    stage.follow(False, GRACE_S, False)
    assert stage.store.entries == {}
    for number in range(4):
        stage.store.add(f"text {number + 4}")
    stage.follow(False, lambda: shutil.rmtree(stage.root / "entries/chat"), True)
    assert len(stage.store.entries) == 4
    assert [type(outcome.action) for outcome in stage.reports[-1].outcomes] == [Refuse]


def test_a_save_with_a_gap_deletes_nothing_and_a_file_that_stays_away_is_deleted(stage: Stage) -> None:
    stage.store.add("one")
    stage.follow(False)
    [path] = stage.root.glob("entries/**/*.md")
    content = path.read_text()
    stage.follow(
        False, path.unlink, True, 2, True, lambda: path.write_text(content.replace("one", "uno")), True, GRACE_S, True
    )
    assert [name for name, _id in stage.store.calls] == ["update"]
    stage.follow(False, path.unlink, True, GRACE_S - 0.1, False)
    assert stage.store.deleted == {}
    stage.follow(False, GRACE_S, False)
    assert list(stage.store.deleted) == ["id-0"]


@pytest.mark.parametrize("text", ["one", "uno"])
def test_a_file_that_comes_back_restores_its_entry(stage: Stage, text: str) -> None:
    stage.store.add("one")
    stage.follow(False)
    [path] = stage.root.glob("entries/**/*.md")
    content = path.read_text()
    stage.follow(False, path.unlink, True, GRACE_S, False)
    path.write_text(content.replace("one", text))
    stage.follow(False)
    assert [(entry.id, entry.text) for entry in stage.store.entries.values()] == [("id-0", text)]
    assert [NAMES[type(outcome.action)] for outcome in stage.reports[-1].outcomes] == ["restore"]
    stage.follow(False)
    assert stage.reports[-1].outcomes == []


@pytest.mark.parametrize("name", ["copy.md", "20250101T090000Z__id-1.md", "summary.md"])
def test_a_file_of_another_name_restores_nothing(stage: Stage, name: str) -> None:
    stage.store.add("one")
    stage.follow(False)
    [path] = stage.root.glob("entries/**/*.md")
    content = path.read_text()
    stage.follow(False, path.unlink, True, GRACE_S, False)
    path.with_name(name).write_text(content)
    stage.follow(False)
    [outcome] = stage.reports[-1].outcomes
    assert outcome.problem.startswith("no entry of this user has the id id-0")
    assert (list(stage.store.entries), list(stage.store.deleted)) == ([], ["id-0"])
    assert path.with_name(name).read_text() == content


def test_only_an_id_of_the_user_is_restored(stage: Stage) -> None:
    path = stage.root / "entries/chat/facts/other.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nid: unknown\n---\n\ntext\n")
    stage.follow(False)
    [outcome] = stage.reports[-1].outcomes
    assert outcome.problem.startswith("no entry of this user has the id unknown")


def test_a_run_that_ends_early_reports_what_it_did(stage: Stage) -> None:
    stage.store.add("one")
    stage.store.add("two")

    def stop(_done: int, _total: int) -> None:
        raise KeyError("a signal came")

    mirror = Mirror(stage.files, stage.store, "tenant/user")
    with pytest.raises(KeyError):
        MirrorWatch(mirror, stage.store, stage, stop).keep_in_step([False])
    assert [NAMES[type(outcome.action)] for report in stage.reports for outcome in report.outcomes] == ["write_file"]
