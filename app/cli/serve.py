"""mnema serve: the HTTP API in this process, or in several that share its address."""

import os
import sys
from enum import StrEnum
from typing import Annotated

import typer


class LogLevel(StrEnum):
    """The lowest level of lines in the log."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"
    critical = "critical"


def serve(
    host: Annotated[
        str, typer.Option(envvar="MNEMA_HOST", help="address to listen on; 0.0.0.0 for all IPv4 addresses")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="MNEMA_PORT", min=1, max=65535)] = 8000,
    workers: Annotated[
        int, typer.Option(envvar="MNEMA_SERVE_WORKERS", min=1, help="number of processes that share the address")
    ] = 1,
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            "--timeout-graceful-shutdown",
            min=0,
            help="seconds that open requests have when the server stops",
        ),
    ] = 15.0,
    log_level: Annotated[LogLevel | None, typer.Option(help="[default: MNEMA_LOG_LEVEL, or info]")] = None,
    forwarded_allow_ips: Annotated[
        str | None,
        typer.Option(
            help="addresses of the proxies whose X-Forwarded-Proto counts, comma-separated; * for all"
            " [default: FORWARDED_ALLOW_IPS, or 127.0.0.1]"
        ),
    ] = None,
) -> None:
    """Serve the HTTP API until SIGTERM. Other settings come from the environment (`MNEMA_*`, docs/configuration.md).

    With several workers, SIGHUP replaces them by new ones and no request fails. The log is on stderr.
    """
    if log_level is not None:
        os.environ["MNEMA_LOG_LEVEL"] = log_level
    if forwarded_allow_ips is not None:
        os.environ["FORWARDED_ALLOW_IPS"] = forwarded_allow_ips
    options = ["--host", host, "--port", str(port), "--grace", str(grace)]
    if workers > 1:
        options += ["--workers", str(workers)]
    # a new program in the same process, which does not keep the memory of this one
    os.execv(sys.executable, [sys.executable, "-m", "app.api", *options])
