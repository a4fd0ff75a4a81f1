"""Programs that a test runs to their end: examples, fuzzers, generators, clients of others."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """The exit code of a program, and what it wrote to stdout and to stderr."""

    code: int | None
    out: str
    errors: str

    def output(self) -> str:
        """Return what it wrote. Fail unless it ended with 0."""
        assert self.code == 0, self.out + self.errors
        return self.out


async def run_program(
    *command: str | Path,
    env: Mapping[str, str],
    folder: Path | None = None,
    stdin: bytes | None = None,
    most_s: float = 300,
) -> Ended:
    """Run a program with this environment until it ends. Kill it and raise TimeoutError after `most_s` seconds."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        env=dict(env),
        stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(stdin), most_s)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(process.returncode, out.decode(), errors.decode())
