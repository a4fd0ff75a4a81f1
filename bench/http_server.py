"""The server under load: the real application in one process, with the constant embedder instead of a model.

    python -m bench.http_server HOME [--profile FILE]

HOME is an embedded installation whose PostgreSQL runs. The server prints its port. With --profile, SIGUSR1 starts the
profile. SIGTERM ends the server.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import uvloop
from starlette.types import ASGIApp

from app.api.main import create_app
from app.api.transport.server import HttpServer
from app.bootstrap import Doubles
from app.bootstrap.model import default_model
from app.embedded.home import Home
from bench.constant_embedder import ConstantEmbedder
from bench.stack_sampler import StackSampler

GRACE_S = 10.0


def serve_application(home: Home, profile: Path | None) -> None:
    """Serve until SIGTERM, then write the profile."""
    settings = default_model(home.server_settings(home.postgres.start_server()))
    embedder = ConstantEmbedder(settings.embedding_model, settings.embedding_dimension)
    app = create_app(settings, Doubles(embedder=embedder))
    sampler = StackSampler()
    with sampler.listen_for_start() if profile else contextlib.nullcontext():
        uvloop.run(run_until_terminated(app))
    if profile:
        sampler.write_counts(profile)


async def run_until_terminated(app: ASGIApp) -> None:
    """Serve an application on a free port, print the port, and stop at SIGTERM."""
    server = HttpServer(app)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await server.start("127.0.0.1", 0)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    await ended.wait()
    await server.stop(GRACE_S)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home", type=Path)
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    serve_application(Home(arguments.home), arguments.profile)


if __name__ == "__main__":
    main()
