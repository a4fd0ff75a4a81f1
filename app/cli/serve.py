"""mnema serve: the HTTP API in this process."""

import os
import sys
from typing import Annotated

import typer


def serve(
    host: Annotated[str, typer.Option(envvar="MNEMA_HOST", help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="MNEMA_PORT", min=1, max=65535)] = 8000,
    grace: Annotated[float, typer.Option(min=0, help="seconds for open requests when it is told to stop")] = 15.0,
) -> None:
    """Serve the HTTP API until SIGTERM. Settings come from the environment (`MNEMA_*`)."""
    options = ["--host", host, "--port", str(port), "--grace", str(grace)]
    # a new program in the same process, which does not keep the memory of this one
    os.execv(sys.executable, [sys.executable, "-m", "app.api", *options])
