"""Links in the folder of `mnema export-skills`: a strange repository may have them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from mnema_cli import skills
from typer.testing import CliRunner

from app.cli.main import app as command_line

MEMORY = {"id": "0199-00000001", "text": "Release the shop.", "steps_text": "1. Tag."}
NAME = skills.skill_name(MEMORY)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder beside the working folder, for a server with one procedure."""

    def one_procedure(*_: object, **__: object) -> Iterator[dict[str, Any]]:
        yield MEMORY

    monkeypatch.setattr(skills, "iterate_items", one_procedure)
    (tmp_path / "work" / ".claude").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "outside"


def export(*arguments: str) -> Result:
    env = {"MNEMA_URL": "http://127.0.0.1:9", "MNEMA_API_KEY": "mk_test", "MNEMA_USER": "maya"}
    return CliRunner().invoke(command_line, ["export-skills", *arguments], env=env)


def test_a_folder_that_a_link_takes_outside_needs_its_option(outside: Path) -> None:
    Path(".claude/skills").symlink_to(outside)
    refused = export()
    assert (refused.exit_code, "out of the working folder" in refused.stderr) == (1, True)
    assert list(outside.iterdir()) == []
    assert export("--to", ".claude/skills").exit_code == 0
    assert (outside / NAME / "SKILL.md").exists()


def test_a_link_within_the_working_folder_is_followed(outside: Path) -> None:
    Path("skills").mkdir()
    Path(".claude/skills").symlink_to(Path("skills").absolute())
    assert export().exit_code == 0
    assert Path("skills", NAME, "SKILL.md").exists()


def test_a_link_out_of_the_folder_of_skills_is_never_written_or_removed(outside: Path) -> None:
    Path(".claude/skills").mkdir()
    Path(".claude/skills/mnema-old").symlink_to(outside)
    (outside / "SKILL.md").write_text(f"{skills.MARK}x}}\n")
    assert export().exit_code == 0
    assert (outside / "SKILL.md").exists()
    file = Path(".claude/skills", NAME, "SKILL.md")
    file.unlink()
    file.symlink_to(outside / "profile")
    refused = export("--to", ".claude/skills")
    assert (refused.exit_code, "remove it" in refused.stderr) == (1, True)
    assert not (outside / "profile").exists()
