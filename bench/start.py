"""The CPU that commands and the server take to start, beside another checkout: python -m bench.start [FOLDER].

Each command runs as a process of its own on one throw-away installation, in turn with the same command of FOLDER. The
bytecode of both is compiled before, and nothing is imported from the current folder (-P). The server counts from its
start until `GET /ready` answers 200.

`--parts` imports what a command and the server need, library by library, and shows the CPU of each part.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from app.bootstrap.model import default_model
from app.embedded.postgres import free_port
from bench import cpu_time, throwaway
from bench.child_processes import ROOT, running_command

COMMANDS: Final = {
    "mnema --help": ("--help",),
    "mnema list, without a server": ("list",),
    "mnema tenant list": ("tenant", "list"),
    "mnema jobs list": ("jobs", "list"),
    "mnema doctor": ("doctor",),
}
SERVE: Final = "mnema serve, until it answers"
COMMAND_PARTS: Final = {
    "typer, rich": ("typer", "rich.console", "rich.table"),
    "structlog": ("structlog",),
    "pydantic and its settings": ("pydantic_settings",),
    "asyncpg": ("asyncpg",),
    "Mnema's modules of `mnema tenant`": ("app.cli.tenants",),
}
SERVER_PARTS: Final = {
    "FastAPI, pydantic": ("fastapi", "pydantic_settings"),
    "MCP": ("mcp.server.streamable_http_manager",),
    "other libraries": (
        "asyncpg",
        "cryptography.hazmat.primitives.ciphers.aead",
        "httpx2",
        "numpy",
        "prometheus_client",
        "structlog",
        "watchfiles",
        "yaml",
    ),
    "Mnema's rules, use-cases, storage, providers": ("app.bootstrap.application",),
    "Mnema's models and routes of the API": ("app.api.main", "app.api.transport.serving"),
}
MODEL: Final = "all-MiniLM-L6-v2"


def measure_command(tree: Path, arguments: Sequence[str], variables: Mapping[str, str]) -> float:
    """Return the CPU seconds of a command. It may fail, as `mnema list` without a server does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-P", "-m", "app.cli.main", *arguments],
        cwd=tree,
        env=os.environ | dict(variables) | {"PYTHONPATH": f"{tree}:{tree / 'sdk'}"},
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_server(tree: Path, variables: Mapping[str, str], log: Path) -> float:
    """Return the CPU seconds of a server until it is ready."""
    port = free_port()
    command = [sys.executable, "-P", "-m", "app.api", "--port", str(port)]
    paths = {"PYTHONPATH": f"{tree}:{tree / 'sdk'}"}
    with running_command(command, log=log, variables=dict(variables) | paths, port=port) as (process, _port):
        return cpu_time.family_seconds(process.pid) or 0.0


IMPORTER: Final = """
import gc, importlib, json, sys, time
gc.disable()
taken = {"Python": time.process_time()}
for part, modules in json.loads(sys.argv[1]).items():
    before = time.process_time()
    for module in modules:
        importlib.import_module(module)
    taken[part] = time.process_time() - before
print(json.dumps(taken))
"""


def measure_parts(parts: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """Return the least CPU seconds that the imports of each part take, one after the other in a process."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-P", "-c", IMPORTER, json.dumps(parts)]
        runs: list[dict[str, float]] = [
            json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
            for _number in range(rounds + 1)
        ]
    return {part: min(run[part] for run in runs) for part in runs[0]}


def measure_all(trees: Sequence[Path], rounds: int) -> dict[str, list[float]]:
    """Return the least CPU seconds of each command, in the order of the trees."""
    with throwaway.using_model(MODEL), throwaway.open_site(0) as site, tempfile.TemporaryDirectory() as cache:
        settings = default_model(site.home.server_settings(site.cluster))
        variables = {
            "MNEMA_DATABASE_URL": settings.database_url.get_secret_value(),
            "MNEMA_HOME": str(site.home.path),
            "MNEMA_EMBEDDED": "true",
            "MNEMA_URL": "http://127.0.0.1:9",
            "MNEMA_API_KEY": site.key,
            "PYTHONPYCACHEPREFIX": cache,
            "PYTHONDONTWRITEBYTECODE": "",
        }
        found: dict[str, list[list[float]]] = {}
        for number in range(rounds + 1):
            for tree_at, tree in enumerate(trees):
                taken = {name: measure_command(tree, words, variables) for name, words in COMMANDS.items()}
                taken[SERVE] = measure_server(tree, variables, site.home.path / "start.log")
                if number == 0:  # it has compiled the bytecode
                    continue
                for name, seconds in taken.items():
                    found.setdefault(name, [[] for _tree in trees])[tree_at].append(seconds)
        return {name: [min(taken) for taken in of_trees] for name, of_trees in found.items()}


def main() -> None:
    """Read the command line and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", action="store_true", help="show the CPU of imports instead")
    chosen = parser.parse_args()
    if chosen.parts:
        for parts in (COMMAND_PARTS, SERVER_PARTS):
            print("| part | CPU |")
            for name, least in measure_parts(parts, chosen.rounds).items():
                print(f"| {name} | {least:.2f} |")
        return
    trees = [ROOT, *([chosen.folder.resolve()] if chosen.folder else ())]
    print("| | CPU |" + (" of the other | ratio |" if chosen.folder else ""))
    for name, seconds in measure_all(trees, chosen.rounds).items():
        ratio = f" {seconds[0] / seconds[1]:.2f} |" if chosen.folder else ""
        print(f"| `{name}` | " + " | ".join(f"{one:.2f}" for one in seconds) + " |" + ratio)


if __name__ == "__main__":
    main()
