"""mnema tenant and mnema key: tenants with their rules and chat endpoints, and API keys."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from mnema_cli.output import AsJson, Columns, err, error_text, exit_with_error, out, print_json, print_page, write_time
from rich.markup import escape

from app.bootstrap.tenancy import open_tenants, remove_tenant
from app.bootstrap.upstreams import open_upstreams
from app.cli.operators import Owner, TenantOption, admin_url, resolve_settings, run_for_tenant, run_use_case
from app.cli.tenant_config import config_app
from app.cli.tenant_move import tenant_move
from app.config.settings import Settings
from app.domain.chat.upstream import OPENAI, UpstreamDialect
from app.usecases.chat.upstreams import MAX_AUTHORIZATION
from app.usecases.tenancy.tenants import Tenants

KEY_VARIABLE = "MNEMA_UPSTREAM_KEY"
upstream_app = typer.Typer(no_args_is_help=True, help="The chat endpoints that a tenant's conversations go to.")
TenantArgument = Annotated[str, typer.Argument(help="name or id")]
DialectOption = Annotated[UpstreamDialect, typer.Option("--dialect", help="the API that the endpoint speaks")]


@upstream_app.command("set")
def set_upstream(
    tenant: TenantArgument,
    url: Annotated[str, typer.Option("--url", help="the URL before /chat/completions or /messages")],
    key_file: Annotated[Path | None, typer.Option("--key-file", help="a file with the key alone")] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="the endpoint needs no key")] = False,
    dialect: DialectOption = OPENAI,
) -> None:
    """Set the chat endpoint of a tenant, in place of the installation's.

    The key comes from --key-file, else from MNEMA_UPSTREAM_KEY, else from a prompt. It is stored encrypted.
    """
    resolve_settings()  # without a database nobody is asked for a key
    key = "" if no_key else _read_key(key_file)
    run_for_tenant(
        partial(open_upstreams, check_secret=True),
        tenant,
        lambda upstreams, owner: upstreams.set_upstream(owner.id, url, key, dialect),
    )
    out.print(f"set, {'with a key' if key else 'without a key'}", highlight=False)


@upstream_app.command("show")
def show_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Show a tenant's own chat endpoint, with the last characters of its key at most."""
    shown = run_for_tenant(open_upstreams, tenant, lambda upstreams, owner: upstreams.show_upstream(owner.id, dialect))
    if shown is None:
        out.print("none of its own; the installation's is used if there is one")
        return
    out.print(f"url      {escape(shown.base_url)}", highlight=False)
    out.print(f"key      {escape(shown.key)}", highlight=False)
    out.print(f"updated  {write_time(shown.updated_at)}", highlight=False)


@upstream_app.command("clear")
def clear_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Delete a tenant's own chat endpoint with its key. The installation's is used from then on."""
    cleared = run_for_tenant(
        open_upstreams, tenant, lambda upstreams, owner: upstreams.clear_upstream(owner.id, dialect)
    )
    out.print("cleared" if cleared else "nothing to clear")


@upstream_app.command("test")
def try_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Call GET /models of the endpoint that a tenant uses. Exit code 1 unless it answers 200."""
    tested = run_for_tenant(open_upstreams, tenant, lambda upstreams, owner: upstreams.test_upstream(owner.id, dialect))
    models = "no list of models" if tested.models is None else f"{tested.models} models"
    out.print(f"{escape(tested.base_url)}  {tested.status}  {models}  {tested.milliseconds:.0f} ms", highlight=False)
    if tested.status != 200:
        raise typer.Exit(1)


def _read_key(file: Path | None) -> str:
    """Return the key without line ends around it. It is never an argument, because process lists show those."""
    if file is None:
        if given := os.environ.get(KEY_VARIABLE, "").strip():
            return given
        prompted: str = typer.prompt("key of the endpoint", hide_input=True)
        return prompted.strip()
    try:
        with file.open(encoding="utf-8") as stream:
            return stream.read(MAX_AUTHORIZATION + 100).strip()
    except OSError as error:
        exit_with_error(error_text(error))
    except UnicodeDecodeError:
        exit_with_error(f"{file}: must be a text file with the key alone")


TENANT_COLUMNS: Columns = {
    "id": lambda tenant: tenant["id"],
    "name": lambda tenant: tenant["name"],
    "created": lambda tenant: write_time(tenant["created_at"]),
}
KEY_COLUMNS: Columns = {
    "id": lambda key: key["id"],
    "name": lambda key: key["name"],
    "key": lambda key: f"{key['prefix']}…",
    "scopes": lambda key: ",".join(key["scopes"]),
    "agents": lambda key: _write_agents(key["agents"]),
    "expires": lambda key: write_time(key["expires_at"]),
    "revoked": lambda key: write_time(key["revoked_at"]),
}
tenant_app = typer.Typer(no_args_is_help=True, help="Tenants, with their rules and chat endpoints.")
key_app = typer.Typer(no_args_is_help=True, help="API keys.")
tenant_app.add_typer(upstream_app, name="upstream")
tenant_app.add_typer(config_app, name="config")
tenant_app.command("move")(tenant_move)


@tenant_app.command("create")
def tenant_create(
    name: str,
    cluster: Annotated[str | None, typer.Option(help="its home, where there are clusters")] = None,
    region: Annotated[str | None, typer.Option(help="the region that its home must be in, also after a move")] = None,
) -> None:
    """Create a tenant."""

    async def create_tenant() -> None:
        async with open_tenants(resolve_settings()) as tenants:
            tenant = await tenants.create_tenant(name, cluster, region)
        out.print(f"{tenant.id}  {escape(tenant.name)}", highlight=False)

    run_use_case(create_tenant())


@tenant_app.command("list")
def tenant_list(as_json: AsJson = False) -> None:
    """List tenants."""

    async def print_tenants() -> None:
        async with open_tenants(resolve_settings()) as tenants:
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
    if not yes:
        typer.confirm(f"Delete all data of tenant {tenant!r}? This cannot be undone", abort=True)
    counts = run_use_case(remove_tenant(Settings(), admin_url(), tenant))
    out.print(f"deleted {escape(tenant)}", highlight=False)
    for name, count in sorted(counts.items()):
        out.print(f"  {name:<24} {count}", highlight=False)


@key_app.command("create")
def key_create(
    tenant: TenantOption = None,
    scopes: Annotated[
        str, typer.Option(help="comma-separated: query, write, chat, approve, read_all, admin")
    ] = "query,write",
    agents: Annotated[
        str | None, typer.Option(help="comma-separated; without it the key is not bound to agents")
    ] = None,
    name: Annotated[str, typer.Option()] = "key",
    days: Annotated[int | None, typer.Option(min=1, help="days until the key expires")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. It is printed once and stored only as a hash."""

    async def create_key(tenants: Tenants, owner: Owner) -> None:
        expires = datetime.now(UTC) + timedelta(days=days) if days else None
        bound = None if agents is None else _split_names(agents)  # an empty list is refused, unlike None
        key, plain = await tenants.create_key(owner.id, name, _split_names(scopes), bound, expires)
        if as_json:
            print_json({**asdict(key), "tenant": owner.name, "key": plain})
            return
        out.print(f"id      {key.id}", highlight=False)
        out.print(f"tenant  {escape(owner.name)}", highlight=False)
        out.print(f"scopes  {','.join(key.scopes)}", highlight=False)
        out.print(f"agents  {escape(_write_agents(key.agents))}", highlight=False)
        out.print(f"key     {plain}", highlight=False)
        err.print("The key is shown this once: Mnema keeps only its hash.", highlight=False)

    run_for_tenant(open_tenants, tenant, create_key)


@key_app.command("list")
def key_list(tenant: TenantOption = None, as_json: AsJson = False) -> None:
    """List the keys of a tenant."""
    keys = run_for_tenant(open_tenants, tenant, lambda tenants, owner: tenants.list_keys(owner.id))
    print_page({"items": [asdict(key) for key in keys]}, KEY_COLUMNS, as_json=as_json)


@key_app.command("revoke")
def key_revoke(key_id: UUID, tenant: TenantOption = None) -> None:
    """Revoke a key. Every server refuses it within seconds."""
    unreached = run_for_tenant(open_tenants, tenant, lambda tenants, owner: tenants.revoke_key(owner.id, key_id))
    out.print("revoked")
    if unreached:
        err.print(f"not told yet, because they are away: {', '.join(unreached)}", highlight=False)


def _write_agents(agents: Sequence[str] | None) -> str:
    return "any" if agents is None else ",".join(agents)


def _split_names(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]
