"""The option --json of the benchmarks."""

from pathlib import Path
from typing import Annotated

import typer


def _check_folder(file: Path | None) -> Path | None:
    """Return the file. Refuse it before a long run if its folder does not exist."""
    if file is not None and not file.parent.is_dir():
        raise typer.BadParameter(f"{file.parent} is no folder")
    return file


Json = Annotated[Path | None, typer.Option("--json", callback=_check_folder, help="write all figures to this file")]
