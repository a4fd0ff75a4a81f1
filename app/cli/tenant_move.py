"""mnema tenant move: a tenant goes to another cluster while it is read and written to."""

from typing import Annotated

import typer
from mnema_cli.output import USAGE, exit_with_error, out
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from app.bootstrap.clusters import build_mover
from app.cli.operators import Owner, find_tenant, resolve_settings, run_use_case
from app.domain.clusters.move import MovePlan, MoveProgress
from app.domain.clusters.room import write_bytes
from app.domain.errors import WrongState
from app.usecases.clusters.move import MoveTenants


def tenant_move(
    tenant: Annotated[str, typer.Argument(help="name or id")],
    to: Annotated[str | None, typer.Option("--to", help="the cluster that becomes its home")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only check, and count the rows")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="undo an unfinished move")] = False,
    forget_old: Annotated[
        bool, typer.Option("--forget-old", help="delete the copies that moves left in former homes")
    ] = False,
    leave_region: Annotated[
        bool, typer.Option("--leave-region", help="also out of the region that the tenant is bound to")
    ] = False,
) -> None:
    """Move a tenant to another cluster of MNEMA_CLUSTERS.

    If the command is interrupted, run it again, or undo it with --abort.
    """
    if (to is not None) + abort + forget_old != 1:
        exit_with_error("give one of --to CLUSTER, --abort and --forget-old", USAGE)
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("check", total=None)

        def report(progress: MoveProgress) -> None:
            bar.update(
                task, description=progress.step.value, completed=progress.tables, total=progress.all_tables or None
            )

        async def run() -> list[str]:
            settings = resolve_settings()
            mover = build_mover(settings, report)
            owner = await find_tenant(settings, tenant)
            if abort:
                return [f"undone: {owner.name} stays in {(await mover.abort_move(owner.id)).source}"]
            if to is None:
                return [f"{table:<24} {count}" for table, count in sorted((await mover.forget_old(owner.id)).items())]
            if dry_run:
                return _write_plan(await mover.plan_move(owner.id, to, leave_region=leave_region))
            return await _move(mover, owner, to, leave_region=leave_region)

        lines = run_use_case(run())
    for line in lines:
        out.print(line, highlight=False, markup=False)


async def _move(mover: MoveTenants, owner: Owner, to: str, *, leave_region: bool) -> list[str]:
    outcome = await mover.move_tenant(owner.id, to, leave_region=leave_region)
    pause = "" if outcome.pause_s is None else f"; its writes waited {outcome.pause_s:.1f} s"
    return [
        f"moved: {owner.name} is at home in {outcome.move.target}{pause}",
        f"{outcome.move.source} keeps a copy, also of what is erased from now on, until --forget-old",
    ]


def _write_plan(plan: MovePlan) -> list[str]:
    """Return the plan as lines. Raise WrongState if something forbids the move."""
    if plan.problems:
        raise WrongState("; ".join(plan.problems))
    return [
        f"{plan.source} → {plan.target}: {sum(plan.rows.values())} rows in {len(plan.rows)} tables,"
        f" about {write_bytes(plan.size)}",
        f"{plan.target} has {plan.room}" + ("; the file sets no max_bytes" if plan.room.most is None else ""),
        *(f"  {table:<24} {count}" for table, count in plan.rows.items() if count),
    ]
