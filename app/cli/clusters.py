"""mnema cluster: the clusters of an installation, and which of them take new tenants."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, TypeVar

import typer
from mnema_cli.output import AsJson, Columns, out, print_page

from app.bootstrap.clusters import drain_cluster, open_clusters
from app.cli.operators import run_use_case
from app.config.settings import Settings
from app.domain.clusters.room import Room
from app.usecases.clusters.overview import Clusters

T = TypeVar("T")
COLUMNS: Columns = {
    "name": lambda cluster: cluster["name"],
    "region": lambda cluster: cluster["region"] or "-",
    "directory": lambda cluster: "yes" if cluster["keeps_directory"] else "",
    "tenants": lambda cluster: str(cluster["tenants"]),
    "size": lambda cluster: "-" if cluster["size"] is None else str(Room(cluster["size"], cluster["max_bytes"])),
    "state": lambda cluster: cluster["state"],
}
cluster_app = typer.Typer(no_args_is_help=True, help="The clusters of MNEMA_CLUSTERS.")


@cluster_app.command("list")
def cluster_list(as_json: AsJson = False) -> None:
    """List the clusters with the number of their tenants."""
    states = _run(lambda clusters: clusters.list_clusters())
    print_page({"items": [asdict(state) for state in states]}, COLUMNS, as_json=as_json)


@cluster_app.command("drain")
def cluster_drain(
    name: str, undo: Annotated[bool, typer.Option("--undo", help="let it take new tenants again")] = False
) -> None:
    """Let a cluster take no new tenants, and list those that are to be moved."""
    tenants = _run(lambda clusters: clusters.list_tenants(name))
    run_use_case(drain_cluster(Settings(), name, draining=not undo))
    if undo:
        out.print(f"{name} takes new tenants again", highlight=False)
        return
    out.print(f"{name} takes no new tenants; {len(tenants)} are at home there", highlight=False)
    for tenant in tenants:
        out.print(f"  {tenant}", highlight=False)


def _run(work: Callable[[Clusters], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_clusters(Settings()) as clusters:
            return await work(clusters)

    return run_use_case(run())
