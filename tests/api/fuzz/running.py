"""Runs of schemathesis against a real server, configured by schemathesis.toml beside this module."""

import os
import sys
from pathlib import Path

from tests.child_program import run_program
from tests.effort import tries

CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES = int(os.environ.get("MNEMA_FUZZ_EXAMPLES", tries(8)))
SEED = int(os.environ.get("MNEMA_FUZZ_SEED", "1"))
LONGEST_S = 600 + 60 * EXAMPLES
"""A run that takes longer hangs. It takes a fifth of that on two quiet cores."""


async def schemathesis(server: str, keys: Path, *arguments: str, seed: int = SEED) -> tuple[int | None, str]:
    """Return exit code and report of a run against the server."""
    command = ["--config-file", str(CONFIG), "run", f"{server}/openapi.json", "--seed", str(seed), *arguments]
    env = {**os.environ, "MNEMA_FUZZ_KEYS": str(keys), "PYTHONPATH": os.getcwd(), "PYTHONWARNINGS": "ignore"}
    program = Path(sys.executable).with_name("schemathesis")
    ended = await run_program(program, *command, env=env, most_s=LONGEST_S)
    return ended.code, ended.out + ended.errors
