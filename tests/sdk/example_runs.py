"""Run an example of the package as a reader runs it, with a scripted model in place of a real one."""

import os
import sys
from pathlib import Path

from tests.child_program import run_program
from tests.factories import Caller

EXAMPLES = Path(__file__).resolve().parents[2] / "sdk" / "examples"
OTHERS = ("MNEMA_", "OPENAI_", "ANTHROPIC_")


async def run_example(example: str, server: str, caller: Caller, model_url: str, *arguments: str) -> str:
    """Run an example with the model of this URL; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    env = (
        kept
        | {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MODEL": "scripted", "NO_PROXY": "127.0.0.1"}
        | {"OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "none"}
        | {"ANTHROPIC_BASE_URL": model_url, "ANTHROPIC_API_KEY": "none"}
    )
    ended = await run_program(sys.executable, EXAMPLES / example, *arguments, env=env, folder=Path("/"))
    return ended.output().strip()
