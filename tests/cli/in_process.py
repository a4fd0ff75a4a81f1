"""The command without a process of its own."""

import asyncio

from click.testing import Result
from typer.testing import CliRunner

from app.cli.main import app as command_line


async def mnema(*args: str, **env: object) -> Result:
    """Run the command within this process, in a thread beside the server's event loop."""
    settings = {name: str(value) for name, value in env.items()}
    return await asyncio.to_thread(CliRunner().invoke, command_line, args, env=settings)
