"""mnema tenant upstream: the chat endpoints of a tenant."""

import os
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from mnema_cli.client import error_text, exit_with_error, out, write_time
from rich.markup import escape

from app.bootstrap.chat import open_upstreams
from app.bootstrap.tenancy import open_tenants
from app.cli.operators import resolve_settings, run_use_case
from app.config.settings import Settings
from app.domain.chat.upstream import OPENAI, UpstreamDialect
from app.usecases.chat.upstreams import MAX_AUTHORIZATION

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
    settings = resolve_settings()
    key = "" if no_key else _read_key(key_file)

    async def store_upstream() -> None:
        tenant_id = await _find_tenant(settings, tenant)
        async with open_upstreams(settings, check_secret=True) as upstreams:
            await upstreams.set_upstream(tenant_id, url, key, dialect)
        out.print(f"set, {'with a key' if key else 'without a key'}", highlight=False)

    run_use_case(store_upstream())


@upstream_app.command("show")
def show_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Show a tenant's own chat endpoint, with the last characters of its key at most."""

    async def print_upstream() -> None:
        settings = resolve_settings()
        tenant_id = await _find_tenant(settings, tenant)
        async with open_upstreams(settings) as upstreams:
            shown = await upstreams.show_upstream(tenant_id, dialect)
        if shown is None:
            out.print("none of its own; the installation's is used if there is one")
            return
        out.print(f"url      {escape(shown.base_url)}", highlight=False)
        out.print(f"key      {escape(shown.key)}", highlight=False)
        out.print(f"updated  {write_time(shown.updated_at)}", highlight=False)

    run_use_case(print_upstream())


@upstream_app.command("clear")
def clear_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Delete a tenant's own chat endpoint with its key. The installation's is used from then on."""

    async def delete_upstream() -> None:
        settings = resolve_settings()
        tenant_id = await _find_tenant(settings, tenant)
        async with open_upstreams(settings) as upstreams:
            cleared = await upstreams.clear_upstream(tenant_id, dialect)
        out.print("cleared" if cleared else "nothing to clear")

    run_use_case(delete_upstream())


@upstream_app.command("test")
def try_upstream(tenant: TenantArgument, dialect: DialectOption = OPENAI) -> None:
    """Call GET /models of the endpoint that a tenant uses. Exit code 1 unless it answers 200."""

    async def call_upstream() -> int:
        settings = resolve_settings()
        tenant_id = await _find_tenant(settings, tenant)
        async with open_upstreams(settings) as upstreams:
            tested = await upstreams.test_upstream(tenant_id, dialect)
        models = "no list of models" if tested.models is None else f"{tested.models} models"
        out.print(
            f"{escape(tested.base_url)}  {tested.status}  {models}  {tested.milliseconds:.0f} ms", highlight=False
        )
        return tested.status

    if run_use_case(call_upstream()) != 200:
        raise typer.Exit(1)


async def _find_tenant(settings: Settings, tenant: str) -> UUID:
    async with open_tenants(settings) as tenants:
        return (await tenants.find_tenant(tenant)).id


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
