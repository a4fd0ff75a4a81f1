"""The command line as a whole: its commands, help, version and completion."""

import inspect
import os
import subprocess
import sys
from uuid import UUID

import pytest
import typer
from mnema_cli.lazy import LazyCommand

from app.cli.main import COMMANDS
from tests.cli.in_process import mnema

HEAVY = ("sqlalchemy", "asyncpg", "numpy", "celery", "fastapi", "httpx", "app.bootstrap", "mnema_cli.output")

SERVER = ("app.config", "app.domain", "app.embedded", "pydantic_settings", "yaml", "mnema_client.client")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_list_says_what_the_command_says_of_itself(command: LazyCommand) -> None:
    loaded = command.load()
    said = loaded.info.help if isinstance(loaded, typer.Typer) else inspect.getdoc(loaded)
    assert said.startswith(command.summary.rstrip(".")), said


@pytest.mark.long
async def test_every_command_has_a_page_of_help() -> None:
    for command in COMMANDS:
        for flag in ("-h", "--help"):
            shown = await mnema(command.name, flag)
            assert (shown.exit_code, command.summary.split()[0] in shown.output) == (0, True), shown.output


async def test_the_version_is_shown_and_a_typo_gets_a_suggestion() -> None:
    assert (await mnema("--version")).output == "mnema 0.1.0\n"
    wrong = await mnema("hystory")
    assert (wrong.exit_code, "Did you mean 'history'?" in wrong.output) == (2, True)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys; from app.cli.main import app\n"
        f"try: app({arguments!r})\n"
        f"except SystemExit: print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [["list"], ["query", "tea", "--agent", "planner"], ["get", str(UUID(int=1))]])
def test_a_command_of_the_client_imports_nothing_of_the_server(arguments: list[str]) -> None:
    program = (
        "import sys; from app.cli.main import app\n"
        f"try: app({arguments!r})\n"
        f"except SystemExit: print([name for name in {SERVER!r} if name in sys.modules], file=sys.stderr)"
    )
    nobody = os.environ | {"MNEMA_URL": "http://127.0.0.1:9", "MNEMA_API_KEY": "key"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=nobody)
    assert "mnema up" in done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


BROKER = ("celery", "kombu", "redis")
MCP = ("mcp", "mcp_types")
APPLICATION = ("app.bootstrap.application", "fastapi", "onnxruntime")
DIAGNOSIS = ("app.bootstrap.administration", "app.bootstrap.operations", "mnema_wire.overview")

RULES = ("app.config.loader", "app.domain.recall", "app.domain.reflection", "app.prompts")
LIBRARIES = ("cryptography", "httpx", "httpx2", "mnema_client", "numpy", "prometheus_client")
FEW = (*BROKER, *MCP, *APPLICATION, *DIAGNOSIS, *RULES, *LIBRARIES)


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("app.cli.tenants", FEW),
        ("app.cli.keys", FEW),
        ("app.cli.jobs", FEW),
        ("app.cli.clusters", (*BROKER, *MCP, *APPLICATION, *DIAGNOSIS)),
        ("app.cli.status", (*BROKER, *MCP, *APPLICATION, *DIAGNOSIS)),
        ("app.cli.administration", (*BROKER, *MCP, *APPLICATION)),
        ("app.api.main", BROKER),
    ],
)
def test_operators_commands_and_the_server_start_without_what_they_may_never_need(
    module: str, unneeded: tuple[str, ...]
) -> None:
    program = f"import sys, {module}; print([name for name in {unneeded!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_shell_completes_commands() -> None:
    asked = {"_MNEMA_COMPLETE": "complete_bash", "COMP_WORDS": "mnema re", "COMP_CWORD": "1"}
    program = "import sys; from app.cli.main import app; app(prog_name='mnema')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=asked)
    assert set(done.stdout.split()) == {"receipts", "remember", "reranker", "restore", "retract"}, done.stderr
