"""The client that openapi-python-client generates from the server's document.

The generator is too heavy for the development environment. MNEMA_TEST_GENERATORS names a folder that has it:

    python -m venv X && X/bin/pip install openapi-python-client mypy python-dateutil
"""

import os
from pathlib import Path

import httpx
import pytest

from tests.child_program import run_program
from tests.factories import Caller

FOLDER = os.environ.get("MNEMA_TEST_GENERATORS")
CALLS = Path(__file__).parent / "generated"
pytestmark = pytest.mark.skipif(not FOLDER, reason="needs the generator: MNEMA_TEST_GENERATORS")


async def run(folder: Path, *command: str | Path) -> str:
    """Run a command in `folder`. Return what it wrote; fail unless it ends with 0."""
    env = {"PATH": f"{FOLDER}/bin:{os.environ['PATH']}", "HOME": str(folder), "NO_COLOR": "1"}
    ended = await run_program(*command, env=env, folder=folder)
    return ended.output() + ended.errors


@pytest.fixture
async def document(server: str, tmp_path: Path) -> Path:
    """Return the server's OpenAPI document as a file."""
    async with httpx.AsyncClient(base_url=server) as client:
        content = (await client.get("/openapi.json")).content
    file = tmp_path / "openapi.json"
    file.write_bytes(content)
    return file


async def test_openapi_python_client(server: str, caller: Caller, document: Path, tmp_path: Path) -> None:
    tools = Path(FOLDER or "") / "bin"
    options = ("--path", document, "--output-path", tmp_path / "generated", "--meta", "none")
    told = await run(tmp_path, tools / "openapi-python-client", "generate", *options)
    left_out = [line for line in told.splitlines() if "Endpoint will not be generated" in line]
    assert [line for line in left_out if "/memory/bulk" not in line] == []  # its body is NDJSON
    calls = tmp_path / "calls.py"
    calls.write_text((CALLS / "calls.py.txt").read_text())
    await run(tmp_path, tools / "python", "-m", "mypy", "--strict", "--follow-imports", "silent", calls)
    await run(tmp_path, tools / "python", calls, server, caller.headers["Authorization"].removeprefix("Bearer "))
