"""The console commands of a page of documentation, run in a shell as they are written."""

import asyncio
import fnmatch
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.acceptance.processes import DEADLINE_S, REPOSITORY, environment

SHIM = ".venv/bin/mnema"


def page_examples(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the page with the lines that it prints."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        yield from split_examples(block)


def split_examples(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console block with the lines that it prints. A command ends with its quotes closed."""
    for example in block.removeprefix("$ ").split("\n$ "):
        command, *printed = example.rstrip("\n").split("\n")
        while printed and not is_whole(command):
            command += "\n" + printed.pop(0)
        yield command, printed


def is_whole(command: str) -> bool:
    """Tell whether the quotes of a command are closed."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


async def check_page(page: str, folder: Path, settings: Mapping[str, object], least: int) -> None:
    """Run the commands of a page in a folder. Each prints what the page says, and there are at least so many.

    `…` on the page stands for any text. `.venv/bin/mnema` in the folder is the command.
    """
    shim = folder / SHIM
    shim.parent.mkdir(parents=True)
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m app.cli.main "$@"\n')
    shim.chmod(0o755)
    env = environment(**settings) | {"PYTHONPATH": str(REPOSITORY)}
    found = list(page_examples(page))
    assert len(found) >= least
    for command, printed in found:
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            shell=True,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, (command, done.stderr)
        lines = done.stdout.splitlines()
        assert len(lines) == len(printed), (command, done.stdout)
        for line, pattern in zip(lines, printed, strict=True):
            assert fnmatch.fnmatchcase(line, line_pattern(pattern)), (command, line)


def line_pattern(line: str) -> str:
    """Return the pattern of `fnmatch` for a line of a page: only `…` stands for any text."""
    return re.sub(r"([][*?])", r"[\1]", line).replace("…", "*")
