"""The commands of the client where no server is installed: they load nothing of it."""

import os
import sys
from pathlib import Path

from tests.child_program import Ended, run_program
from tests.factories import Caller

ALONE = """
import sys
from mnema_cli.__main__ import app

code = app(sys.argv[1:], standalone_mode=False)
loaded = [name for name in sys.modules if name.partition(".")[0] in ("app", "workers", "console")]
assert not loaded, loaded
sys.exit(code)
"""


async def test_the_commands_of_the_client_load_nothing_of_the_server(
    server: str, caller: Caller, tmp_path: Path
) -> None:
    given = {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": str(tmp_path)}
    lines = tmp_path / "turns.jsonl"
    lines.write_text('{"user_id": "maya", "thread_id": "t", "role": "user", "content": "Hello."}\n', encoding="utf-8")

    async def run(*arguments: str) -> Ended:
        return await run_program(sys.executable, "-c", ALONE, *arguments, env=os.environ | given)

    written = await run("remember", "Maya books a night train.", "--user", "maya", "--category", "tasks")
    assert written.output().startswith("created ")
    assert "1 turns would be stored" in (await run("import", str(lines), "--dry-run")).output()
    listed = await run("facts", "list", "--user", "maya", "--topic", "favorite_colors")
    assert listed.code == 0, listed.errors
