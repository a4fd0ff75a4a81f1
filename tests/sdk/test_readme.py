"""The README's first program prints what the README says."""

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.factories import Caller

README = Path(__file__).resolve().parents[2] / "sdk" / "README.md"


async def test_the_readmes_program_prints_what_it_says(server: str, caller: Caller) -> None:
    text = README.read_text(encoding="utf-8")
    program, printed = (
        re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0],
        re.findall(r"```text\n(.*?)```", text, re.DOTALL)[0],
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env={**os.environ, "MNEMA_URL": server, "MNEMA_API_KEY": caller.key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert (process.returncode, out.decode()) == (0, printed), errors.decode()
