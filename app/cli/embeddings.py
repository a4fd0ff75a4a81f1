"""mnema embeddings: another embedding model for an installation that is in use."""

from typing import Annotated

import typer
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
from app.cli.client import USAGE, exit_with_error, out, plain_table, print_table
from app.cli.operators import admin_url, resolve_settings, run_use_case
from app.usecases.operations.spaces import FillReport, FillSpace

embeddings_app = typer.Typer(
    no_args_is_help=True, help="Embedding models: add, migrate, switch and drop their vectors."
)
Name = Annotated[str, typer.Argument(help="the space's name, as `list` shows it")]
Force = Annotated[bool, typer.Option("--force", help="although vectors are missing")]
MAX_MODEL = 200


@embeddings_app.command("add")
def embeddings_add(
    model: Annotated[str, typer.Option(help="as MNEMA_EMBEDDING_MODEL will name it")],
    dimension: Annotated[int, typer.Option(min=1, max=4000, help="numbers of a vector")],
) -> None:
    """Make an empty space for a model, as mnema_admin (MNEMA_ADMIN_DATABASE_URL); servers go on with theirs."""
    if not 0 < len(model) <= MAX_MODEL or not model.isprintable():
        exit_with_error(f"--model: 1 to {MAX_MODEL} printable characters", USAGE)
    name = run_use_case(add_space(admin_url(), model, dimension))
    out.print(f"{name}\nnext: with that model configured, mnema embeddings migrate {name}", highlight=False)


@embeddings_app.command("list")
def embeddings_list() -> None:
    """The spaces, and what each holds of all tenants.

    Of memories and agents' values together some are embedded, the others missing; indexed are vectors of memories.
    """

    async def print_spaces() -> None:
        async with open_spaces(resolve_settings()) as found:
            reports = await found.list_reports()
        columns = ("memories", "values", "embedded", "missing", "indexed")
        rows = plain_table("name", "model", "dimension", "state", *columns, "size")
        for report in reports:
            space, ready = report.registered.space, "ready" if report.registered.ready else "filling"
            state = "active" if report.registered.active else ready
            counts = (report.memories, report.items, report.embedded, report.missing, report.indexed)
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
    follow: Annotated[bool, typer.Option("--follow", help="keep it filled until Ctrl-C")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="seconds between two looks, with --follow")] = 30,
) -> None:
    """Embed with the configured model all that has no vector in its space. May be ended and begun again at any time."""

    async def fill_space() -> None:
        async with open_space_filler(resolve_settings(), name) as fill:
            lacking = await fill.count_missing()
            with _progress_bar() as progress:
                task = progress.add_task("embedding", total=lacking)
                filled = await fill.fill_space(lambda done: progress.advance(task, done))
            _print_filled(filled, await fill.count_missing(), name)
            if follow:
                await _follow_space(fill, every)

    try:
        run_use_case(fill_space())
    except KeyboardInterrupt:
        out.print("ended; run it again and it goes on from here")
        raise typer.Exit(0 if follow else 130) from None


async def _follow_space(fill: FillSpace, every: float) -> None:
    out.print("following; Ctrl-C ends it")

    def print_embedded(done: int) -> None:
        if done:
            out.print(f"embedded {done}", highlight=False)

    await fill.fill_repeatedly(print_embedded, every)


def _print_filled(filled: FillReport, lacking: int, name: str) -> None:
    out.print(
        f"embedded {filled.embedded} memories and agents' values, {filled.indexed} vectors into the index",
        highlight=False,
    )
    after = f"mnema embeddings switch {name}"
    out.print(f"missing {lacking}; next: {'' if not lacking else 'again, or '}{after}", highlight=False)


@embeddings_app.command("switch")
def embeddings_switch(name: Name, force: Force = False) -> None:
    """Make it the space that servers should use (both database URLs). Servers of the other model go on with theirs."""
    report = run_use_case(switch_space(resolve_settings(), admin_url(), name, force=force))
    space = report.registered.space
    out.print(
        f"{name} is active, {report.missing} missing\n"
        f"next: set MNEMA_EMBEDDER, MNEMA_EMBEDDING_MODEL={escape(space.model)} and "
        f"MNEMA_EMBEDDING_DIMENSION={space.dimension} everywhere, restart servers and workers one by one,\n"
        f"then mnema embeddings migrate {name} once more, for what the others wrote meanwhile",
        highlight=False,
    )


@embeddings_app.command("drop")
def embeddings_drop(
    name: Name, force: Force = False, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False
) -> None:
    """Remove a space that no server uses any more, with all its vectors (both database URLs)."""
    if not yes:
        typer.confirm(f"Remove {name} with all its vectors? It cannot be undone", abort=True)
    report = run_use_case(drop_space(resolve_settings(), admin_url(), name, force=force))
    out.print(f"{name} is gone, with vectors of {report.embedded} memories and agents' values", highlight=False)


def _progress_bar() -> Progress:
    """On stderr, and only at a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)
