"""The report of a mirror: what a terminal may show."""

import pytest
from mnema_cli.mirror.report import print_plan
from mnema_cli.mirror.rules.actions import Refuse, SyncPlan
from mnema_cli.mirror.usecases.sync import SyncReport


def test_what_controls_a_terminal_is_escaped_and_an_empty_path_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    actions = (Refuse("a\x1b[31m.md", "the role `\x9b2J\u202e` is unknown"), Refuse("", "3 of 4 files are gone here"))
    print_plan(SyncPlan(actions, {}), SyncReport(conflicts=["b\x07\n.conflict.md"]))
    printed = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in printed)
    assert "a\\x1b[31m.md: the role `\\x9b2J\\u202e` is unknown" in printed
    assert "b\\x07\\n.conflict.md" in printed
    assert "refuse            3 of 4 files are gone here" in printed
