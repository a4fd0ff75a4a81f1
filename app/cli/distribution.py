"""mnema distribute: spread the tables of a new installation over a Citus cluster."""

from typing import Annotated

import typer
from mnema_cli.client import out

from app.bootstrap.administration import distribute_database
from app.cli.operators import admin_url, run_use_case


def distribute_tables(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only print the statements")] = False,
) -> None:
    """Spread the tables over a Citus cluster.

    Run it before you create the first tenant. It distributes the tables by tenant, as mnema_admin
    (MNEMA_ADMIN_DATABASE_URL). Without the extension `citus` it does nothing. It has not been tried on a real cluster:
    see docs/scaling.md.
    """
    done = run_use_case(distribute_database(admin_url(), dry_run=dry_run))
    if dry_run or done.is_possible:
        for statement in done.statements:
            out.print(f"{statement};", highlight=False, markup=False, soft_wrap=True)
    if not done.is_possible:
        out.print("this database has no extension citus: nothing was done")
    elif not done.statements:
        out.print("all tables are distributed")
