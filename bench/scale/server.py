"""The server under load: the real application in one process, whose embedder makes vectors up as the loader does.

    python -m bench.scale.server HOME

HOME is an embedded installation whose PostgreSQL runs. The server prints its port. SIGTERM ends it.
"""

import argparse
from functools import lru_cache
from pathlib import Path

import uvloop

from app.api.main import create_app
from app.bootstrap import Doubles
from app.bootstrap.model import default_model
from app.embedded.home import Home
from app.ports import Vector
from bench.constant_embedder import ConstantEmbedder
from bench.http_server import run_until_terminated
from bench.scale.tenants import make_basis, text_vector


class MadeUpEmbedder(ConstantEmbedder):
    """An embedder whose vectors lie among those of the loader, so that searching costs what it costs with a model."""

    def __init__(self, model: str, dimension: int) -> None:
        super().__init__(model, dimension)
        basis = make_basis()
        self._vector = lru_cache(4096)(lambda text: text_vector(basis, text))

    def text_vector(self, text: str) -> Vector:
        """Return the unit vector of a text."""
        return self._vector(text)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home", type=Path)
    home = Home(parser.parse_args().home)
    settings = default_model(home.server_settings(home.postgres.start_server()))
    embedder = MadeUpEmbedder(settings.embedding_model, settings.embedding_dimension)
    uvloop.run(run_until_terminated(create_app(settings, Doubles(embedder=embedder))))


if __name__ == "__main__":
    main()
