"""The server of a budget: the real application and model, with a sampler that counts CPU by part of a request.

    python -m bench.budget.server HOME FILE [KIND]

HOME is an embedded installation whose PostgreSQL runs, KIND is `query` or `write`. SIGUSR1 starts the samples, SIGTERM
ends the server, which then writes the counts to FILE.
"""

import sys
from pathlib import Path

import uvloop

from app.api.main import create_app
from app.bootstrap.model import default_model
from app.embedded.home import Home
from bench.budget import query_parts, write_parts
from bench.http_server import run_until_terminated
from bench.stack_sampler import StackSampler


def main() -> None:
    """Serve until SIGTERM, then write the counts."""
    home = Home(Path(sys.argv[1]))
    parts = write_parts if sys.argv[3:] == ["write"] else query_parts
    sampler = StackSampler(parts.part_of)
    with sampler.listen_for_start():
        uvloop.run(run_until_terminated(create_app(default_model(home.server_settings(home.postgres.start_server())))))
    sampler.write_counts(Path(sys.argv[2]))


if __name__ == "__main__":
    main()
