"""Every command of the pages is known to its program: `mnema` parses it, and files, targets and services exist."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pages.blocks import BLOCKS, Block, shell_commands, simple_commands
from tests.pages.commands import check_command

SHELLS = [block for block in BLOCKS if block.language in ("sh", "console")]


@pytest.mark.parametrize("block", SHELLS, ids=str)
def test_every_command_is_known(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("turns.jsonl", "mem0.json"):  # the pages' names for files of the reader
        Path(file).touch()
    commands = shell_commands(block.text)
    assert commands
    subprocess.run([shutil.which("sh") or "sh", "-n"], input="\n".join(commands), text=True, check=True)
    for command in commands:
        for words in simple_commands(command):
            try:
                check_command(words)
            except Exception as error:
                raise AssertionError(f"{' '.join(words)}: {error!r}") from error


@pytest.mark.parametrize(
    "wrong",
    [
        "mnema nosuch",
        "mnema list --nosuch",
        "mnema why not-an-id",
        "make nosuch",
        "pip install -r nosuch.lock",
        "pip download nosuch==1.0",
        "pytest tests/nosuch.py",
        "python -m app.nosuch",
        "docker compose stop nosuch",
        "docker compose exec -T api-1 mnema nosuch",
        "export MNEMA_NOSUCH=1",
        "MNEMA_NOSUCH=1 mnema list",
        "curl -s --nosuch $MNEMA_URL",
        "nosuch",
    ],
)
def test_a_wrong_command_is_found(wrong: str) -> None:
    [words] = simple_commands(wrong)
    with pytest.raises(BaseException):  # noqa: B017 - a usage error, a missing key, a failed assertion
        check_command(words)
