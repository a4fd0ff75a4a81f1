"""The server under load: the real application in one process, with the constant embedder instead of a model.

    python -m bench.http_server HOME [--profile FILE]

HOME is an embedded installation whose PostgreSQL runs. The server prints its port. With --profile, SIGUSR1 starts the
profile. SIGTERM ends the server.
"""

import argparse
import contextlib
import signal
import sys
from pathlib import Path

import uvicorn

from app.api.main import create_app
from app.api.transport.connections import BoundedHttp
from app.bootstrap import Doubles
from app.embedded.home import Home
from bench.constant_embedder import ConstantEmbedder
from bench.stack_sampler import StackSampler


def serve_application(home: Home, profile: Path | None) -> None:
    """Serve until SIGTERM, then write the profile."""
    settings = home.server_settings(home.postgres.start_server())
    embedder = ConstantEmbedder(settings.embedding_model, settings.embedding_dimension)
    config = uvicorn.Config(
        create_app(settings, Doubles(embedder=embedder)),
        host="127.0.0.1",
        port=0,
        loop="uvloop",
        http=BoundedHttp,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=10,
    )
    listener = config.bind_socket()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)  # uvicorn raises the signal again when it has stopped
    sampler = StackSampler()
    with sampler.listen_for_start() if profile else contextlib.nullcontext():
        uvicorn.Server(config).run(sockets=[listener])
    if profile:
        sampler.write_counts(profile)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home", type=Path)
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    serve_application(Home(arguments.home), arguments.profile)


if __name__ == "__main__":
    main()
