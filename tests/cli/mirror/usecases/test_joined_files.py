"""New files whose text joins an entry that has a file: their own lines are carried over, and the report says so."""

from pathlib import Path

import pytest
from mnema_cli.mirror.adapters.files import PosixMirrorFiles
from mnema_cli.mirror.report import Totals, print_totals
from mnema_cli.mirror.usecases.steps import Mirror
from mnema_cli.mirror.usecases.sync import SyncReport, sync_mirror

from tests.cli.mirror.usecases.memory_store import MemoryStore


def sync(root: Path, store: MemoryStore) -> SyncReport:
    with PosixMirrorFiles(str(root)) as files:
        return sync_mirror(Mirror(files, store, "tenant/user"))


def test_own_lines_of_a_joined_file_stay_and_both_paths_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore(joins=True)
    store.add("one")
    sync(tmp_path, store)
    [path] = tmp_path.glob("entries/**/*.md")
    for line in ("mood: calm", "place: home", "mood: wild"):
        path.with_name("new.md").write_text(f"---\n{line}\n---\n\none\n")
        report = sync(tmp_path, store)
        [outcome] = report.outcomes
        assert outcome.joined == path.relative_to(tmp_path).as_posix()
        assert not path.with_name("new.md").exists()
    assert "mood: calm\nplace: home\n---" in path.read_text()
    [conflict] = tmp_path.glob("entries/**/*.conflict.md")
    assert "mood: wild" in conflict.read_text()
    totals = Totals()
    totals.add_report(report)
    print_totals(totals)
    printed = " ".join(capsys.readouterr().out.split())
    assert "server 0 created" in printed
    assert f"new.md -> {outcome.joined}" in printed.replace("\n", "")
    assert len(store.entries) == 1
