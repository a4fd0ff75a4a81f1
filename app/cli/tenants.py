"""mnema tenant: tenants with their rules and chat endpoints."""

from dataclasses import asdict
from typing import Annotated

import typer
from mnema_cli.lazy import LazyCommand, build_application
from mnema_cli.output import AsJson, Columns, out, print_page, write_time
from rich.markup import escape

from app.bootstrap.directory import open_directory
from app.cli.operators import admin_url, resolve_settings, run_use_case
from app.config.settings import Settings

TENANT_COLUMNS: Columns = {
    "id": lambda tenant: tenant["id"],
    "name": lambda tenant: tenant["name"],
    "created": lambda tenant: write_time(tenant["created_at"]),
}
OTHER_COMMANDS = (
    LazyCommand(
        "upstream", "app.cli.upstreams:upstream_app", "The chat endpoints that a tenant's conversations go to."
    ),
    LazyCommand("config", "app.cli.tenant_config:config_app", "A tenant's own agents, categories and settings."),
    LazyCommand("move", "app.cli.tenant_move:tenant_move", "Move a tenant to another cluster of MNEMA_CLUSTERS."),
)
tenant_app = build_application(
    OTHER_COMMANDS, no_args_is_help=True, help="Tenants, with their rules and chat endpoints."
)


@tenant_app.command("create")
def tenant_create(
    name: str,
    cluster: Annotated[str | None, typer.Option(help="its home, where there are clusters")] = None,
    region: Annotated[str | None, typer.Option(help="the region that its home must be in, also after a move")] = None,
) -> None:
    """Create a tenant."""

    async def create_tenant() -> None:
        async with open_directory(resolve_settings()) as tenants:
            tenant = await tenants.create_tenant(name, cluster, region)
        out.print(f"{tenant.id}  {escape(tenant.name)}", highlight=False)

    run_use_case(create_tenant())


@tenant_app.command("list")
def tenant_list(as_json: AsJson = False) -> None:
    """List tenants."""

    async def print_tenants() -> None:
        async with open_directory(resolve_settings()) as tenants:
            all_tenants = await tenants.list_tenants()
        print_page({"items": [asdict(one) for one in all_tenants]}, TENANT_COLUMNS, as_json=as_json)

    run_use_case(print_tenants())


@tenant_app.command("delete")
def tenant_delete(
    tenant: Annotated[str, typer.Argument(help="name or id")],
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Delete a tenant with all its data, as mnema_admin (MNEMA_ADMIN_DATABASE_URL).

    Its keys are revoked first. If the command is interrupted, run it again.
    """
    from app.bootstrap.tenancy import remove_tenant  # it needs much that the other commands do not

    if not yes:
        typer.confirm(f"Delete all data of tenant {tenant!r}? This cannot be undone", abort=True)
    counts = run_use_case(remove_tenant(Settings(), admin_url(), tenant))
    out.print(f"deleted {escape(tenant)}", highlight=False)
    for name, count in sorted(counts.items()):
        out.print(f"  {name:<24} {count}", highlight=False)
