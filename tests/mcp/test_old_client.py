"""The last client of the 1.x SDK, in a separate venv. It comes from the package index, so the test runs on request:
MNEMA_TEST_OLD_CLIENT=1."""

import asyncio
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.api import calls
from tests.factories import Caller
from tests.mcp.connections import COMMAND, HANDLE

REFUSAL = "category_not_allowed: agent 'stylist' may not use: tasks; it may use: preferences, style, tone"
SCRIPT = Path(__file__).with_name("old_client.py")


def install(folder: Path) -> Path:
    """Install mcp 1.30 in a venv; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "mcp>=1.30,<2"]
    subprocess.run(command, check=True, timeout=300)
    return python


@pytest.mark.skipif(not os.environ.get("MNEMA_TEST_OLD_CLIENT"), reason="installs a package: MNEMA_TEST_OLD_CLIENT=1")
async def test_a_client_of_the_older_sdk_is_served(server: str, caller: Caller, tmp_path: Path) -> None:
    python = await asyncio.to_thread(install, tmp_path / "venv")
    async with caller.client(server) as http:
        await calls.remember(http, "Maya drinks oat milk.", thread_id="t")
    env = {**os.environ, "MNEMA_URL": server, "MNEMA_API_KEY": caller.key}
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        python, SCRIPT, sys.executable, *COMMAND, env=env, stdout=pipe, stderr=pipe
    )
    out, err = await asyncio.wait_for(running.communicate(), 120)
    assert running.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    for way in ("http", "stdio"):
        assert found[way]["version"].startswith("2025-")
        assert set(found[way]["tools"]) == {
            "memory_query",
            "memory_remember",
            "memory_history",
            "memory_facts",
            "memory_forget",
            "memory_correct",
        }
        assert HANDLE.sub("", found[way]["text"]).splitlines()[-1] == "[preferences] Maya drinks oat milk."
        assert found[way]["structured"]["items"][0]["category"] == "preferences"
        assert found[way]["refused"] == [True, REFUSAL]
        assert found[way]["templates"] == ["memory", "user_profile", "thread_header"]
        assert found[way]["header"]
        assert HANDLE.sub("", found[way]["recalled"]).endswith("[preferences] Maya drinks oat milk.")
    assert found["http"]["text"].startswith("Memory updates since rev 0:")
    assert not found["stdio"]["text"].startswith("Memory updates")
