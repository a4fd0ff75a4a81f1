"""The commands of docs/mirror.md, run as they are written: they print what the page says."""

import asyncio
import fnmatch
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.acceptance.processes import DEADLINE_S, REPOSITORY, environment
from tests.cli.mirror.conftest import MirrorRoom


def examples() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the page with the lines that it prints."""
    page = (REPOSITORY / "docs/mirror.md").read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for example in block.removeprefix("$ ").split("\n$ "):
            command, *printed = example.rstrip("\n").split("\n")
            yield command, printed


async def test_the_commands_of_the_page_print_what_it_says(room: MirrorRoom, tmp_path: Path) -> None:
    shim = tmp_path / ".venv/bin/mnema"
    shim.parent.mkdir(parents=True)
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m app.cli.main "$@"\n')
    shim.chmod(0o755)
    env = environment(**room.env)
    env |= {"PYTHONPATH": str(REPOSITORY)}
    found = list(examples())
    assert len(found) >= 7
    for command, printed in found:
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            shell=True,
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) == len(printed), done.stdout
        for line, pattern in zip(lines, printed, strict=True):
            assert fnmatch.fnmatchcase(line, pattern.replace("…", "*")), (command, line)
    assert await room.texts() == ["Maya drinks her tea with lemon.", "Maya is allergic to nuts."]
