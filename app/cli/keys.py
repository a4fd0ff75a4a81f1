"""mnema key: API keys."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from mnema_cli.output import AsJson, Columns, err, out, print_json, print_page, write_time
from rich.markup import escape

from app.bootstrap.directory import open_directory
from app.cli.operators import Owner, TenantOption, run_for_tenant

if TYPE_CHECKING:
    from app.usecases.tenancy.tenants import Tenants

KEY_COLUMNS: Columns = {
    "id": lambda key: key["id"],
    "name": lambda key: key["name"],
    "key": lambda key: f"{key['prefix']}…",
    "scopes": lambda key: ",".join(key["scopes"]),
    "agents": lambda key: _write_agents(key["agents"]),
    "expires": lambda key: write_time(key["expires_at"]),
    "revoked": lambda key: write_time(key["revoked_at"]),
}
key_app = typer.Typer(no_args_is_help=True, help="API keys.")


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

    from app.bootstrap.tenancy import open_tenants  # it loads the policies, with the agents that a key may name

    async def create_key(tenants: "Tenants", owner: Owner) -> None:
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
    keys = run_for_tenant(open_directory, tenant, lambda tenants, owner: tenants.list_keys(owner.id))
    print_page({"items": [asdict(key) for key in keys]}, KEY_COLUMNS, as_json=as_json)


@key_app.command("revoke")
def key_revoke(key_id: UUID, tenant: TenantOption = None) -> None:
    """Revoke a key. Every server refuses it within seconds."""
    unreached = run_for_tenant(open_directory, tenant, lambda tenants, owner: tenants.revoke_key(owner.id, key_id))
    out.print("revoked")
    if unreached:
        err.print(f"not told yet, because they are away: {', '.join(unreached)}", highlight=False)


def _write_agents(agents: Sequence[str] | None) -> str:
    return "any" if agents is None else ",".join(agents)


def _split_names(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]
