"""The first program of a page prints what the page says."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.factories import Caller

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["sdk/README.md", "docs/python.md", "docs/turn-memory.md", "docs/langgraph.md"])
async def test_the_pages_program_prints_what_it_says(page: str, server: str, caller: Caller) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
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
