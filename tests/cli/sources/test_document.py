"""The commands of docs/sources.md, run as they are written: they print what the page says."""

import asyncio
import fnmatch
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import DEADLINE_S, REPOSITORY, environment

pytestmark = pytest.mark.usefixtures("own")


def examples() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the page with the lines that it prints."""
    page = (REPOSITORY / "docs/sources.md").read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for example in block.removeprefix("$ ").split("\n$ "):
            command, *printed = example.rstrip("\n").split("\n")
            yield command, printed


async def test_the_commands_of_the_page_print_what_it_says(env: dict[str, Any], worker: None, tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "mnema"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m app.cli.main "$@"\n')
    shim.chmod(0o755)
    shell = environment(**env)
    shell |= {"PATH": f"{shim.parent}:{shell['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    found = list(examples())
    assert len(found) >= 8
    for command, printed in found:
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            shell=True,
            cwd=tmp_path,
            env=shell,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) == len(printed), done.stdout
        for line, pattern in zip(lines, printed, strict=True):
            assert fnmatch.fnmatchcase(line, re.sub(r"([\[\]])", r"[\1]", pattern).replace("…", "*")), (command, line)
