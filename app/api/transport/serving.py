"""The process of the HTTP API: options, event loop, signals, exit code."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence

import structlog
from starlette.types import ASGIApp

from app.api.transport.server import HttpServer, StartFailed

GRACE_S = 15.0
log = structlog.get_logger(__name__)


def main(create_app: Callable[[], ASGIApp], arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; a second SIGINT does not wait for open requests.

    Exit with 1 and a line on stderr if it cannot start.
    """
    parser = argparse.ArgumentParser(prog="mnema serve", description="Serve the HTTP API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--grace", type=float, default=GRACE_S, help="seconds for open requests at the end")
    chosen = parser.parse_args(arguments)
    app = create_app()
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        sys.exit(runner.run(_serve(app, chosen.host, chosen.port, chosen.grace)))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _serve(app: ASGIApp, host: str, port: int, grace_s: float) -> int:
    ended, hurried = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_signal_handler(signal.SIGINT, lambda: (hurried if ended.is_set() else ended).set())
    server = HttpServer(app, proxies=os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1"))
    try:
        await server.start(host, port)
    except StartFailed as failed:
        if reason := str(failed):
            sys.stderr.write(f"{reason}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"error address_unavailable: cannot listen on {host} port {port}: {error.strerror}\n")
        return 1
    log.info("serving", host=host, port=port)
    await ended.wait()
    stopping, again = asyncio.create_task(server.stop(grace_s)), asyncio.create_task(hurried.wait())
    await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
    return 0 if stopping.done() else 1
